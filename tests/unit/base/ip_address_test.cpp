#include "common/base/ip_address.h"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("an address survives the round trip through text") {
  for (const char* text : {"10.0.1.2", "255.255.255.255", "fe80::1", "::"})
    CHECK(IpAddress::parse(text)->to_string() == text);
}

TEST_CASE("IPv4 is recognised whichever way the address was made") {
  CHECK(IpAddress::parse("10.0.0.1")->v4() == 0x0a000001u);
  CHECK(IpAddress::parse("::ffff:10.0.0.1")->v4() == 0x0a000001u);
  CHECK_FALSE(IpAddress::parse("fe80::1")->v4());
  CHECK(IpAddress().is_unspecified());
}

TEST_CASE("text that is not an address is refused with the text in the message") {
  const auto result = IpAddress::parse("10.0.0.300");
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("10.0.0.300") != std::string::npos);
}

TEST_CASE("a five-tuple prints as a person would write it and reverses both ends") {
  const FiveTuple tuple{*IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2"), 4000, 5000, 6};
  CHECK(tuple.to_string() == "tcp 10.0.0.1:4000 > 10.0.0.2:5000");
  CHECK(tuple.reversed().to_string() == "tcp 10.0.0.2:5000 > 10.0.0.1:4000");
  CHECK(tuple.reversed().reversed() == tuple);
}
