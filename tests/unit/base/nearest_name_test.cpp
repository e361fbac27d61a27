#include "common/base/nearest_name.h"

#include <array>
#include <catch2/catch.hpp>

using namespace orrery;

namespace {
constexpr std::array<std::string_view, 3> kNames = {"rate_bps", "queue_bytes", "name"};
}

TEST_CASE("a slip is answered with the name that was meant") {
  CHECK(nearest_name("rate_bsp", kNames) == "rate_bps");
  CHECK(did_you_mean("queue_byte", kNames) == ", did you mean 'queue_bytes'?");
}

TEST_CASE("a word that resembles nothing is answered with nothing") {
  CHECK(nearest_name("zzzzzzzzzz", kNames).empty());
  CHECK(did_you_mean("zzzzzzzzzz", kNames).empty());
}

TEST_CASE("a word cut short is answered with the name it begins") {
  CHECK(nearest_name("queue", kNames) == "queue_bytes");
  CHECK(nearest_name("qu", kNames).empty());
}
