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

  // Until SIGTERM or SIGINT, which must be blocked in every thread, as SIGHUP, at which files of predictions are read
  // again. The plan is withdrawn at the end.
  Status run();

 private:
  Controller(fabric::Graph fabric, std::unique_ptr<state::Store> store);
  Status build(const ControllerSettings& settings, telemetry::Metrics& metrics);
  // Takes the prediction of forecast.waveforms_file. Without it, or with a bad one, everything else goes on: what is
  // wrong is logged and told by health, and a prediction read before stays.
  void read_waveforms();
  Result<std::unique_ptr<drivers::Driver>> make_driver(const ControllerSettings& settings);

  // In the order of dependence: each uses those before it.
  msg::Context context_;
  fabric::Graph fabric_;
  std::unique_ptr<state::Store> store_;
  std::unique_ptr<api::Api> api_;
  std::unique_ptr<drivers::Driver> driver_;
  std::unique_ptr<Core> core_;
  UniqueFd signals_;
  std::string waveforms_file_;
  std::string waveforms_problem_;
};

}  // namespace orrery::daemon
