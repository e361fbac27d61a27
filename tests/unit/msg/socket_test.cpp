#include "common/msg/socket.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/msg/authenticator.h"
#include "tests/fakes/scratch_directory.h"

using namespace orrery;
using namespace orrery::msg;

namespace {

constexpr int kPatienceMs = 5000;

// The next message, waiting for it; nothing when none came in time.
std::optional<Message> next(Socket& socket, int timeout_ms = kPatienceMs) {
  Socket* const sockets[] = {&socket};
  if (*wait_readable(sockets, timeout_ms) == 0) return std::nullopt;
  auto message = socket.receive();
  return message ? *std::move(message) : std::nullopt;
}

// Sends until it is taken: a DEALER with `immediate` has no queue before it is connected.
bool send_soon(Socket& socket, std::string_view body) {
  for (int tries = 0; tries < kPatienceMs; ++tries) {
    if (socket.send(body)) return true;
    ::usleep(1000);
  }
  return false;
}

SocketOptions with(Security security) {
  SocketOptions options;
  options.security = std::move(security);
  return options;
}

}  // namespace

TEST_CASE("a router learns a dealer's identity from its first message and answers it") {
  test::ScratchDirectory directory;
  Context context;
  Socket router = *Socket::bind(context, SocketKind::kRouter, "agents.endpoint", directory.ipc("r"));
  Socket dealer = *Socket::connect(context, SocketKind::kDealer, "agents.endpoint", directory.ipc("r"));
  REQUIRE(send_soon(dealer, "hello"));
  const auto hello = next(router);
  REQUIRE(hello);
  CHECK(hello->body == "hello");
  REQUIRE(router.send_to(hello->peer, "plan"));
  CHECK(next(dealer)->body == "plan");
}

TEST_CASE("a router says so when the peer is unknown, and a dealer when nobody is there") {
  test::ScratchDirectory directory;
  Context context;
  Socket router = *Socket::bind(context, SocketKind::kRouter, "k", directory.ipc("r"));
  const Status to_nobody = router.send_to("nobody", "x");
  REQUIRE_FALSE(to_nobody);
  CHECK(to_nobody.error().code == ErrorCode::kUnavailable);
  Socket dealer = *Socket::connect(context, SocketKind::kDealer, "k", directory.ipc("absent"));
  CHECK_FALSE(dealer.send("x"));
}

TEST_CASE("a subscriber gets the topic it asked for and nothing else") {
  test::ScratchDirectory directory;
  Context context;
  SocketOptions options;
  options.topic = "intent";
  Socket subscriber = *Socket::bind(context, SocketKind::kSubscribe, "k", directory.ipc("s"), options);
  Socket publisher = *Socket::connect(context, SocketKind::kPublish, "k", directory.ipc("s"));
  std::optional<Message> message;
  for (int tries = 0; tries < 100 && !message; ++tries) {
    REQUIRE(publisher.publish("other", "no"));
    REQUIRE(publisher.publish("intent", "window"));
    message = next(subscriber, 50);
  }
  REQUIRE(message);
  CHECK(message->topic == "intent");
  CHECK(message->body == "window");
}

TEST_CASE("a message with the wrong number of frames is refused and the next one still arrives") {
  test::ScratchDirectory directory;
  Context context;
  Socket router = *Socket::bind(context, SocketKind::kRouter, "k", directory.ipc("r"));
  Socket dealer = *Socket::connect(context, SocketKind::kDealer, "k", directory.ipc("r"));
  REQUIRE(send_soon(dealer, "first"));
  REQUIRE(next(router));
  for (int i = 0; i < 9; ++i) dealer.raw().send(zmq::str_buffer("x"), zmq::send_flags::sndmore);
  dealer.raw().send(zmq::str_buffer("x"), zmq::send_flags::none);
  REQUIRE(dealer.send("good"));
  Socket* const sockets[] = {&router};
  REQUIRE(*wait_readable(sockets, kPatienceMs));
  const auto refused = router.receive();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kCorrupt);
  CHECK(next(router)->body == "good");
}

TEST_CASE(
    "binding fails with the key when the directory is missing, the endpoint is wrong or taken, or plain is not "
    "allowed") {
  test::ScratchDirectory directory;
  Context context;
  const auto message_of = [&](std::string_view endpoint) {
    const auto socket = Socket::bind(context, SocketKind::kReply, "control.endpoint", endpoint);
    return socket ? std::string() : socket.error().message;
  };
  CHECK(message_of("ipc:///nowhere/at/all/x.sock").find("create it first") != std::string::npos);
  CHECK(message_of("nonsense").starts_with("control.endpoint: "));
  CHECK(message_of("tcp://0.0.0.0:7000").find("security.allow_plain") != std::string::npos);
  Socket first = *Socket::bind(context, SocketKind::kReply, "k", "tcp://127.0.0.1:*");
  const std::string taken = first.raw().get(zmq::sockopt::last_endpoint);
  CHECK(message_of(taken).find("another process uses it") != std::string::npos);
}

TEST_CASE("a question is answered, and one that nobody answers ends in time with what to look at") {
  test::ScratchDirectory directory;
  Context context;
  const auto silence = ask(context, "control.endpoint", directory.ipc("c"), {}, "q", 50);
  REQUIRE_FALSE(silence);
  CHECK(silence.error().message.find("orrery-controller") != std::string::npos);
  Socket reply = *Socket::bind(context, SocketKind::kReply, "k", directory.ipc("c"));
  std::thread server([&] {
    if (next(reply)) static_cast<void>(reply.send("a"));
  });
  const auto answer = ask(context, "control.endpoint", directory.ipc("c"), {}, "q", kPatienceMs);
  server.join();
  REQUIRE(answer);
  CHECK(*answer == "a");
}

TEST_CASE("with CURVE only clients whose key is in the allow-list get through") {
  test::ScratchDirectory directory;
  const CurveKeys server = *generate_keys(), friendly = *generate_keys(), stranger = *generate_keys();
  Context context;
  const auto authenticator = *Authenticator::create(context, {friendly.public_key});
  Socket router =
      *Socket::bind(context, SocketKind::kRouter, "k", "tcp://127.0.0.1:*", with({.curve = true, .own = server}));
  const std::string endpoint = router.raw().get(zmq::sockopt::last_endpoint);

  Socket unknown = *Socket::connect(context, SocketKind::kDealer, "k", endpoint,
                                    with({.curve = true, .own = stranger, .server_public_key = server.public_key}));
  Socket plain = *Socket::connect(context, SocketKind::kDealer, "k", endpoint);
  Socket known = *Socket::connect(context, SocketKind::kDealer, "k", endpoint,
                                  with({.curve = true, .own = friendly, .server_public_key = server.public_key}));
  CHECK(send_soon(known, "hello"));
  CHECK(next(router)->body == "hello");
  for (int tries = 0; tries < kPatienceMs && authenticator->refused() == 0; ++tries) ::usleep(1000);
  CHECK(authenticator->refused() >= 1);
  CHECK_FALSE(unknown.send("let me in"));
  CHECK_FALSE(plain.send("let me in"));
  CHECK_FALSE(next(router, 50));
}

TEST_CASE("a client with CURVE and no server key is told which setting is missing") {
  Context context;
  const auto socket = Socket::connect(context, SocketKind::kDealer, "k", "tcp://127.0.0.1:7000",
                                      with({.curve = true, .own = *generate_keys()}));
  REQUIRE_FALSE(socket);
  CHECK(socket.error().message.find("security.server_key_file") != std::string::npos);
}
