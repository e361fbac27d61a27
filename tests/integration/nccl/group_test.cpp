// Groups and point-to-point messages.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>

#include "tests/integration/nccl/ranks.h"

namespace orrery::test {
namespace {

struct Session {
  explicit Session(const RankContext& context) {
    expect_success(ncclCommInitRank(&comm, context.nranks, context.id, context.rank), "ncclCommInitRank");
  }
  ~Session() { ncclCommDestroy(comm); }
  ncclComm_t comm = nullptr;
};

void require_nothing_found(int nranks, const std::function<void(RankContext&)>& body) {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto found = run_ranks(nranks, body);
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

std::vector<int32_t> numbered(size_t count, int from, int to) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), from * 1'000'003 + to * 1009);
  return values;
}

void synchronize(const char* what) {
  expect_success(hostncclStreamSynchronize(nullptr), what);
}

TEST_CASE("a ring of sends and receives in one group makes progress whatever the message size") {
  require_nothing_found(5, [](RankContext& context) {
    Session session(context);
    const int next = (context.rank + 1) % context.nranks;
    const int previous = (context.rank + context.nranks - 1) % context.nranks;
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{3'000'000}}) {
      const auto send = numbered(count, context.rank, next);
      std::vector<int32_t> recv(count, -1);
      expect_success(ncclGroupStart(), "GroupStart");
      expect_success(ncclSend(send.data(), count, ncclInt32, next, session.comm, nullptr), "Send");
      expect_success(ncclRecv(recv.data(), count, ncclInt32, previous, session.comm, nullptr), "Recv");
      expect_success(ncclGroupEnd(), "GroupEnd");
      synchronize("ring");
      expect(recv == numbered(count, previous, context.rank), "wrong data for count " + std::to_string(count));
    }
  });
}

TEST_CASE("an all-to-all with messages to oneself and several to each peer keeps their order") {
  require_nothing_found(4, [](RankContext& context) {
    Session session(context);
    const auto n = static_cast<size_t>(context.nranks);
    constexpr size_t kFirst = 70'001, kSecond = 11;
    std::vector<std::vector<int32_t>> sent, received(2 * n);
    expect_success(ncclGroupStart(), "GroupStart");
    for (int peer = 0; peer < context.nranks; ++peer) {
      sent.push_back(numbered(kFirst, context.rank, peer));
      sent.push_back(numbered(kSecond, context.rank + 100, peer));
    }
    for (int peer = context.nranks - 1; peer >= 0; --peer) {
      for (const size_t part : {size_t{0}, size_t{1}}) {
        const size_t index = 2 * static_cast<size_t>(peer) + part;
        received[index].resize(sent[index].size());
        expect_success(ncclSend(sent[index].data(), sent[index].size(), ncclInt32, peer, session.comm, nullptr),
                       "Send");
        expect_success(ncclRecv(received[index].data(), received[index].size(), ncclInt32, peer, session.comm, nullptr),
                       "Recv");
      }
    }
    expect_success(ncclGroupEnd(), "GroupEnd");
    synchronize("all-to-all");
    for (int peer = 0; peer < context.nranks; ++peer) {
      const size_t index = 2 * static_cast<size_t>(peer);
      expect(received[index] == numbered(kFirst, peer, context.rank),
             "wrong first message from " + std::to_string(peer));
      expect(received[index + 1] == numbered(kSecond, peer + 100, context.rank), "wrong second message");
    }
  });
}

TEST_CASE("only the outermost end launches, and collectives and messages may share a group") {
  require_nothing_found(3, [](RankContext& context) {
    Session session(context);
    const int next = (context.rank + 1) % 3, previous = (context.rank + 2) % 3;
    std::vector<int32_t> sum(100, 1), gathered(3, -1);
    int32_t from = -1;
    const int32_t own = context.rank;
    expect_success(ncclGroupStart(), "outer start");
    expect_success(ncclSend(&own, 1, ncclInt32, next, session.comm, nullptr), "Send");
    expect_success(ncclGroupStart(), "inner start");
    expect_success(ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclInt32, ncclSum, session.comm, nullptr),
                   "AllReduce");
    expect_success(ncclAllGather(&own, gathered.data(), 1, ncclInt32, session.comm, nullptr), "AllGather");
    expect_success(ncclGroupEnd(), "inner end");
    expect_success(hostncclStreamSynchronize(nullptr), "nothing launched yet");
    expect(sum[0] == 1 && gathered[0] == -1, "an inner ncclGroupEnd launched");
    expect_success(ncclRecv(&from, 1, ncclInt32, previous, session.comm, nullptr), "Recv");
    expect_success(ncclGroupEnd(), "outer end");
    synchronize("group");
    expect(sum[99] == 3 && gathered[2] == 2 && from == previous, "wrong data");
  });
}

TEST_CASE("a refused call makes the whole group fail and launches nothing") {
  require_nothing_found(2, [](RankContext& context) {
    Session session(context);
    std::vector<int32_t> value(10, 1);
    expect_success(ncclGroupStart(), "start");
    expect_success(ncclAllReduce(value.data(), value.data(), 10, ncclInt32, ncclSum, session.comm, nullptr),
                   "AllReduce");
    expect(ncclSend(value.data(), 10, ncclInt32, 7, session.comm, nullptr) == ncclInvalidArgument,
           "peer 7 of 2 was accepted");
    expect(std::string(ncclGetLastError(session.comm)).find("rank 7") != std::string::npos,
           "the reason does not name the rank");
    expect(ncclGroupEnd() == ncclInvalidArgument, "the group did not fail");
    synchronize("nothing");
    expect(value[0] == 1, "a failed group launched");
    expect_success(ncclAllReduce(value.data(), value.data(), 10, ncclInt32, ncclSum, session.comm, nullptr),
                   "AllReduce after");
    synchronize("after");
    expect(value[9] == 2, "the communicator does not work after a failed group");
  });
}

TEST_CASE("an end without a start is refused with the reason") {
  REQUIRE(ncclGroupEnd() == ncclInvalidUsage);
  REQUIRE(std::string(ncclGetLastError(nullptr)).find("ncclGroupStart") != std::string::npos);
}

TEST_CASE("a message received with another size is an error that names the sender, not wrong data") {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto found = run_ranks(2, [](RankContext& context) {
    Session session(context);
    std::vector<int32_t> data(100, 5);
    if (context.rank == 0) {
      expect_success(ncclSend(data.data(), 50, ncclInt32, 1, session.comm, nullptr), "Send");
      hostncclStreamSynchronize(nullptr);
      return;
    }
    expect_success(ncclRecv(data.data(), 100, ncclInt32, 0, session.comm, nullptr), "Recv");
    expect(hostncclStreamSynchronize(nullptr) == ncclInvalidUsage, "the mismatch was not noticed");
    const std::string text = ncclGetLastError(session.comm);
    expect(text.find("rank 0") != std::string::npos && text.find("200 elements") != std::string::npos,
           "unclear: " + text);
  });
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

TEST_CASE("ranks that call different collectives get an error instead of wrong data") {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto found = run_ranks(3, [](RankContext& context) {
    Session session(context);
    std::vector<float> data(3000, 1);
    const size_t count = context.rank == 1 ? 1000 : 999;
    expect_success(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, session.comm, nullptr),
                   "AllReduce");
    expect(hostncclStreamSynchronize(nullptr) != ncclSuccess, "the mismatch was not noticed");
    ncclResult_t error = ncclSuccess;
    expect_success(ncclCommGetAsyncError(session.comm, &error), "GetAsyncError");
    expect(error != ncclSuccess, "no asynchronous error");
  });
  INFO(findings(found));
  REQUIRE(findings(found).empty());
}

}  // namespace
}  // namespace orrery::test
