#include "agent/collect/ptp_clock.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using namespace orrery::collect;

namespace {

void put(std::vector<uint8_t>& message, uint64_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) message.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

// An answer as ptp4l sends it: header, target, action, one TLV.
std::vector<uint8_t> answer(uint16_t id, const std::vector<uint8_t>& data, uint8_t action = 2) {
  std::vector<uint8_t> message = {0x0D, 2};
  put(message, 54 + data.size(), 2);
  message.resize(46);
  put(message, action, 1);
  put(message, 0, 1);
  put(message, 1, 2);
  put(message, 2 + data.size(), 2);
  put(message, id, 2);
  message.insert(message.end(), data.begin(), data.end());
  return message;
}

std::vector<uint8_t> time_status(int64_t offset_ns, bool grandmaster) {
  std::vector<uint8_t> data;
  put(data, static_cast<uint64_t>(offset_ns), 8);
  data.resize(38);
  put(data, grandmaster, 4);
  data.resize(50);
  return data;
}

std::vector<uint8_t> port_data(uint8_t state) {
  std::vector<uint8_t> data(26);
  data[10] = state;
  return data;
}

}  // namespace

TEST_CASE("a request is a well-formed management message to every port", "[collect]") {
  const std::string request = ptp_request(kPtpTimeStatusNp, 7, 3);
  REQUIRE(request.size() == 54);
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(request[at]); };
  CHECK(byte(0) == 0x0D);
  CHECK(byte(3) == 54);
  CHECK(byte(4) == 3);
  CHECK(byte(31) == 7);
  for (size_t i = 34; i < 44; ++i) CHECK(byte(i) == 0xff);
  CHECK(byte(46) == 0);  // GET
  CHECK(byte(52) == 0xC0);
}

TEST_CASE("answers give offset, grandmaster and port state; a port that follows wins over others", "[collect]") {
  PtpStatus status;
  CHECK(read_ptp_answer(answer(kPtpTimeStatusNp, time_status(-1234, true)), status));
  CHECK(status.offset_ns == -1234);
  CHECK(status.has_grandmaster);
  for (const uint8_t state : {kPtpMaster, kPtpSlave, kPtpMaster})
    CHECK(read_ptp_answer(answer(kPtpPortDataSet, port_data(state)), status));
  CHECK(status.port_state == kPtpSlave);
}

TEST_CASE("anything else is no answer and changes nothing", "[collect]") {
  PtpStatus status{5, true, kPtpSlave};
  const auto good = answer(kPtpTimeStatusNp, time_status(1, false));
  for (size_t length = 0; length < good.size(); ++length)
    CHECK_FALSE(read_ptp_answer(std::span(good).first(length), status));
  CHECK_FALSE(read_ptp_answer(answer(kPtpTimeStatusNp, time_status(1, false), 0), status));
  CHECK_FALSE(read_ptp_answer(answer(0x2000, time_status(1, false)), status));
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> noise(random() % 120);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    CHECK_FALSE(read_ptp_answer(noise, status));
  }
  CHECK(status.offset_ns == 5);
  CHECK(status.has_grandmaster);
}

TEST_CASE("the clock is synchronized while ptp4l answers and the offset is within its bound", "[collect]") {
  test::ScratchDirectory scratch;
  const std::string path = scratch.file("ptp4l");
  UniqueFd server(socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  REQUIRE(bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);

  PtpClock clock = PtpClock::create(path, 0, 1000).value();
  const uint64_t now = 10'000'000'000;
  CHECK_FALSE(clock.state(now).synchronized);
  const auto converse = [&](int64_t offset_ns, bool grandmaster, uint8_t port_state) {
    clock.ask();
    for (const auto& message : {answer(kPtpTimeStatusNp, time_status(offset_ns, grandmaster)),
                                answer(kPtpPortDataSet, port_data(port_state))}) {
      char request[100];
      sockaddr_un from{};
      socklen_t size = sizeof from;
      REQUIRE(recvfrom(server.get(), request, sizeof request, 0, reinterpret_cast<sockaddr*>(&from), &size) == 54);
      REQUIRE(sendto(server.get(), message.data(), message.size(), 0, reinterpret_cast<sockaddr*>(&from), size) > 0);
    }
    clock.read_answers(now);
  };
  converse(900, true, kPtpSlave);
  CHECK(clock.state(now).synchronized);
  CHECK(clock.state(now).offset_ns == 900);
  CHECK_FALSE(clock.state(now + PtpClock::kPatienceNs).synchronized);
  converse(-1001, true, kPtpSlave);
  CHECK_FALSE(clock.state(now).synchronized);
  converse(0, false, kPtpMaster);
  CHECK(clock.state(now).synchronized);
  converse(0, false, 4);  // listening: no master yet
  CHECK_FALSE(clock.state(now).synchronized);
  converse(INT64_MIN, true, kPtpSlave);
  CHECK_FALSE(clock.state(now).synchronized);
}

TEST_CASE("a ptp4l that is not there is no error but no synchronization either", "[collect]") {
  test::ScratchDirectory scratch;
  PtpClock clock = PtpClock::create(scratch.file("nobody"), 0, 1000).value();
  clock.ask();
  clock.read_answers(1);
  CHECK_FALSE(clock.state(1).synchronized);
  CHECK(clock.state(1).source == "ptp4l");
}
