#include "common/base/result.h"

#include <catch2/catch.hpp>
#include <memory>

using namespace orrery;

namespace {
Result<int> half(int n) {
  if (n % 2) return Error{ErrorCode::kInvalidArgument, "odd"};
  return n / 2;
}
Result<int> quarter(int n) {
  ORRERY_ASSIGN(const int h, half(n));
  return half(h);
}
Status check(int n) {
  ORRERY_TRY(quarter(n));
  return {};
}
}  // namespace

TEST_CASE("ORRERY_ASSIGN and ORRERY_TRY pass values on and return the first error") {
  CHECK(*quarter(12) == 3);
  CHECK(quarter(6).error().message == "odd");
  CHECK(check(8).has_value());
  CHECK(check(3).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a Result carries move-only values") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  REQUIRE(result);
  std::unique_ptr<int> taken = *std::move(result);
  CHECK(*taken == 7);
}

TEST_CASE("system_error names the cause") {
  CHECK(system_error("open /nowhere", 2).message == "open /nowhere: No such file or directory");
}
