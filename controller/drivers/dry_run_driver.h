// Driver `dry-run`: plans are made, shown and counted; neither switches nor hosts hear of them.
#pragma once

#include "controller/drivers/driver.h"

namespace orrery::drivers {

class DryRunDriver : public Driver {
 public:
  std::string_view name() const override { return "dry-run"; }
  Capabilities capabilities() const override { return {.applies = false}; }
  Result<HostDirective> direct(const Flow&) override { return HostDirective{}; }
  void apply(Revision, const std::vector<Flow>&, uint64_t, Completion done) override { done({}); }
  void renew(Revision, uint64_t) override {}
  void withdraw() override {}
};

}  // namespace orrery::drivers
