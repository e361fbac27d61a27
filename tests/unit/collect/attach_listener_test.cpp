#include "agent/collect/attach_listener.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"
#include "tests/fakes/attach_client.h"
#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using namespace orrery::collect;
using test::AttachClient;

namespace {

constexpr uint64_t kNow = 1'000'000'000;

// Accepts the client's connection and reads what it sent.
AttachListener::Answer serve(AttachListener& listener) {
  const auto accepted = listener.accept_pending(kNow);
  REQUIRE(accepted.size() == 1);
  return listener.read_request(accepted[0]);
}

}  // namespace

TEST_CASE("a good request is taken with the kernel's word on who sent it", "[collect]") {
  test::ScratchDirectory scratch;
  auto listener = AttachListener::create(scratch.file("agent.sock"), 0666).value();
  AttachClient client(scratch.file("agent.sock"));
  auto request = AttachClient::request();
  std::strcpy(request.program, "py\tthon");
  request.pid = 1;  // a lie
  client.send(&request, sizeof request);
  auto answer = serve(listener);
  REQUIRE(answer.request);
  CHECK(answer.request->peer.pid == getpid());
  CHECK(answer.request->peer.uid == getuid());
  CHECK(answer.request->peer.program == "py?thon");
}

TEST_CASE("a connection that sends anything else is refused and closed", "[collect]") {
  test::ScratchDirectory scratch;
  auto listener = AttachListener::create(scratch.file("agent.sock"), 0666).value();
  auto wrong_magic = AttachClient::request();
  wrong_magic.magic = 1;
  const std::string too_long(300, 'x');
  const auto status_for = [&](const void* bytes, size_t size) {
    AttachClient client(scratch.file("agent.sock"));
    client.send(bytes, size);
    const auto answer = serve(listener);
    CHECK(answer.closed);
    CHECK_FALSE(answer.refusal.empty());
    CHECK_FALSE(answer.request);
    return client.receive().reply.status;
  };
  CHECK(status_for(&wrong_magic, sizeof wrong_magic) == ORRERY_ATTACH_REFUSED);
  CHECK(status_for("x", 1) == ORRERY_ATTACH_REFUSED);
  CHECK(status_for(too_long.data(), too_long.size()) == ORRERY_ATTACH_REFUSED);
  auto newer = AttachClient::request();
  newer.abi_version = newer.abi_oldest = 99;
  CHECK(status_for(&newer, sizeof newer) == ORRERY_ATTACH_VERSION);
  auto older = AttachClient::request();
  older.abi_version = older.abi_oldest = 0;
  CHECK(status_for(&older, sizeof older) == ORRERY_ATTACH_VERSION);
}

TEST_CASE("silent connections wait in bounded number and are closed after a second", "[collect]") {
  test::ScratchDirectory scratch;
  auto listener = AttachListener::create(scratch.file("agent.sock"), 0666).value();
  std::vector<std::unique_ptr<AttachClient>> clients;
  for (size_t i = 0; i < AttachListener::kPendingLimit + 10; ++i)
    clients.push_back(std::make_unique<AttachClient>(scratch.file("agent.sock")));
  const auto accepted = listener.accept_pending(kNow);
  CHECK(accepted.size() == AttachListener::kPendingLimit);
  const auto waiting = listener.read_request(accepted[0]);
  CHECK_FALSE(waiting.closed);
  CHECK(listener.is_pending(accepted[0]));
  CHECK(listener.expire(kNow + 900'000'000) == 0);
  CHECK(listener.expire(kNow + 1'100'000'000) == AttachListener::kPendingLimit);
  CHECK(listener.accept_pending(kNow + 1'100'000'000).size() == 10);
}

TEST_CASE("silent connections do not keep a process that asks out", "[collect]") {
  test::ScratchDirectory scratch;
  auto listener = AttachListener::create(scratch.file("agent.sock"), 0666).value();
  std::vector<std::unique_ptr<AttachClient>> silent;
  for (size_t i = 0; i < AttachListener::kPendingLimit; ++i)
    silent.push_back(std::make_unique<AttachClient>(scratch.file("agent.sock")));
  const auto waiting = listener.accept_pending(kNow);
  AttachClient client(scratch.file("agent.sock"));
  const auto request = AttachClient::request();
  client.send(&request, sizeof request);
  CHECK(serve(listener).request);
  CHECK_FALSE(listener.is_pending(waiting[0]));
  CHECK(listener.is_pending(waiting[1]));
}

TEST_CASE("an agent without descriptors left says so, and accepts again when it has some", "[collect]") {
  test::ScratchDirectory scratch;
  auto listener = AttachListener::create(scratch.file("agent.sock"), 0666).value();
  AttachClient client(scratch.file("agent.sock"));
  const int next = dup(STDIN_FILENO);
  close(next);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  const bool accepted = !listener.accept_pending(kNow).empty();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK_FALSE(accepted);
  CHECK(listener.starved());
  CHECK(listener.accept_pending(kNow).size() == 1);
  CHECK_FALSE(listener.starved());
}

TEST_CASE("a socket left by a crash is replaced, a living agent's is not, a file never", "[collect]") {
  test::ScratchDirectory scratch;
  const std::string path = scratch.file("agent.sock");
  {
    auto crashed = AttachListener::create(path, 0666).value();
    std::filesystem::rename(path, path + ".kept");  // hides it from the destructor, as a crash would
  }
  std::filesystem::rename(path + ".kept", path);
  auto listener = AttachListener::create(path, 0640);
  REQUIRE(listener);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);

  const auto second = AttachListener::create(path, 0666);
  REQUIRE_FALSE(second);
  CHECK(second.error().message.find("another agent listens") != std::string::npos);

  std::ofstream(scratch.file("file")) << "precious";
  CHECK_FALSE(AttachListener::create(scratch.file("file"), 0666));
  CHECK(std::filesystem::exists(scratch.file("file")));
  CHECK_FALSE(AttachListener::create(std::string(200, 'x'), 0666));
  CHECK_FALSE(AttachListener::create(scratch.file("missing/agent.sock"), 0666));
}

TEST_CASE("the socket file goes with its listener", "[collect]") {
  test::ScratchDirectory scratch;
  const std::string path = scratch.file("agent.sock");
  {
    auto listener = AttachListener::create(path, 0666).value();
    CHECK(std::filesystem::exists(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}
