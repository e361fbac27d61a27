#include "controller/drivers/registry.h"

#include <catch2/catch.hpp>

#include "controller/drivers/dry_run_driver.h"

using namespace orrery;
using namespace orrery::drivers;

TEST_CASE("a driver is made by its name, and a slip is answered with the names there are") {
  Registry registry;
  registry.add("dry-run", []() -> Result<std::unique_ptr<Driver>> {
    return std::unique_ptr<Driver>(std::make_unique<DryRunDriver>());
  });
  registry.add("absent", []() -> Result<std::unique_ptr<Driver>> {
    return Error{ErrorCode::kUnavailable, "no kernel feature"};
  });
  CHECK((*registry.make("dry-run"))->name() == "dry-run");
  CHECK(registry.make("absent").error().message == "no kernel feature");
  const auto slip = registry.make("dry_run");
  REQUIRE_FALSE(slip);
  CHECK(slip.error().message.find("did you mean 'dry-run'?; this build has absent, dry-run") != std::string::npos);
}

TEST_CASE("dry-run takes every plan at once and tells nobody") {
  DryRunDriver driver;
  int done = 0;
  driver.apply({1, 1}, {Flow{.flow_id = 1}}, 1, [&](Status status) { done += status.has_value(); });
  CHECK(done == 1);
  CHECK_FALSE(driver.capabilities().applies);
  CHECK(driver.direct(Flow{.flow_id = 1})->hops.empty());
}
