// orrery-controller's parts, built from its settings, and the loop that runs them on one thread.
#pragma once

#include <memory>

#include "common/base/unique_fd.h"
#include "common/msg/socket.h"
#include "common/telemetry/metrics.h"
#include "controller/api/api.h"
#include "controller/daemon/core.h"
#include "controller/daemon/settings.h"
#include "controller/drivers/driver.h"
#include "controller/fabric/graph.h"
#include "controller/state/store.h"

namespace orrery::daemon {

class Controller {
 public:
  // `metrics` outlives it. Errors name the setting or file and the cure.
  static Result<std::unique_ptr<Controller>> create(const ControllerSettings& settings, telemetry::Metrics& metrics);
  ~Controller();

  // Until SIGTERM or SIGINT, which must be blocked in every thread. The plan is withdrawn at the end.
  Status run();

 private:
  Controller(fabric::Graph fabric, std::unique_ptr<state::Store> store);
  Status build(const ControllerSettings& settings, telemetry::Metrics& metrics);
  Result<std::unique_ptr<drivers::Driver>> make_driver(const ControllerSettings& settings);

  // In the order of dependence: each uses those before it.
  msg::Context context_;
  fabric::Graph fabric_;
  std::unique_ptr<state::Store> store_;
  std::unique_ptr<api::Api> api_;
  std::unique_ptr<drivers::Driver> driver_;
  std::unique_ptr<Core> core_;
  UniqueFd signals_;
};

}  // namespace orrery::daemon
