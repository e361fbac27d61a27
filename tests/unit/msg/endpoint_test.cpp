#include "common/msg/endpoint.h"

#include <catch2/catch.hpp>

using namespace orrery;
using namespace orrery::msg;

TEST_CASE("loopback and ipc endpoints are local, others are not") {
  CHECK(parse_endpoint("k", "ipc:///run/orrery/c.sock")->local);
  CHECK(parse_endpoint("k", "inproc://c")->local);
  CHECK(parse_endpoint("k", "tcp://127.0.0.1:7000")->local);
  CHECK(parse_endpoint("k", "tcp://127.9.0.1:7000")->local);
  CHECK(parse_endpoint("k", "tcp://[::1]:7000")->local);
  CHECK_FALSE(parse_endpoint("k", "tcp://*:7000")->local);
  CHECK_FALSE(parse_endpoint("k", "tcp://0.0.0.0:7000")->local);
  CHECK_FALSE(parse_endpoint("k", "tcp://10.0.0.1:7000")->local);
  CHECK_FALSE(parse_endpoint("k", "tcp://127.0.0.1.example.org:7000")->local);
}

TEST_CASE("an endpoint that ZeroMQ could not use is refused with the key, the text and how to write one") {
  const std::string long_path = "ipc:///" + std::string(120, 'x');
  for (const std::string& text : {std::string(""), std::string("127.0.0.1:7000"), std::string("udp://a:1"),
                                  std::string("ipc://"), std::string("inproc://"), std::string("tcp://127.0.0.1"),
                                  std::string("tcp://127.0.0.1:0"), std::string("tcp://127.0.0.1:70000"),
                                  std::string("tcp://127.0.0.1:70x"), std::string("tcp://:7000"), long_path}) {
    const auto result = parse_endpoint("control.endpoint", text);
    REQUIRE_FALSE(result);
    CHECK(result.error().message.starts_with("control.endpoint: '" + text + "'"));
    CHECK(result.error().message.find("ipc:///run/orrery/NAME.sock") != std::string::npos);
  }
}
