#include "tools/ctl/quantity.h"

#include <catch2/catch.hpp>

namespace orrery::ctl {

TEST_CASE("quantities are read with their suffixes") {
  CHECK(*parse_quantity("400G") == 400'000'000'000);
  CHECK(*parse_quantity("1.5k") == 1500);
  CHECK(*parse_quantity("64Mi") == 64u << 20);
  CHECK(*parse_quantity("0") == 0);
  for (const char* wrong : {"", "G", "12Q", "-1", "1 G", "1e30", "nan"})
    CHECK(parse_quantity(wrong).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("ratios are read with and without what they are to") {
  CHECK(*parse_ratio("4:1") == 4);
  CHECK(*parse_ratio("3:2") == 1.5);
  CHECK(*parse_ratio("1.5") == 1.5);
  for (const char* wrong : {"", "1:4", "4:", ":1", "0:0", "4:0", "4;1", "0.5", "nan", "inf:1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_ratio(wrong));
  }
}

}  // namespace orrery::ctl
