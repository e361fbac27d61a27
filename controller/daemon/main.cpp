// orrery-controller: see docs/reference/controller.md. Exit codes: 0 ended by a signal, 1 could not start or failed, 2
// configuration at fault.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/base/log.h"
#include "common/config/command_line.h"
#include "controller/daemon/controller.h"

namespace {

constexpr const char* kSummary =
    "Learns from agents what the jobs of a cluster send, gives every flow its path and send time, and has hosts and "
    "switches carry it out.";

int fail(const orrery::Error& error) {
  spdlog::error("{}", error.message);
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  orrery::daemon::ControllerSettings settings;
  orrery::config::Table table = orrery::daemon::controller_table(settings);
  if (const auto code = orrery::config::load_command_line(table, ORRERY_VERSION, kSummary, argc, argv, environ))
    return *code;
  if (const auto logging = orrery::set_up_logging("orrery-controller", settings.log_level); !logging)
    return fail(logging.error());
  orrery::telemetry::Metrics metrics;
  auto controller = orrery::daemon::Controller::create(settings, metrics);
  if (!controller) return fail(controller.error());
  if (const auto serving = metrics.serve(settings.metrics_address); !serving) return fail(serving.error());
  fmt::print("READY orrery-controller driver={} control={}\n", settings.driver, settings.control_endpoint);
  std::fflush(stdout);
  sd_notify(0, "READY=1");
  const auto status = (*controller)->run();
  sd_notify(0, "STOPPING=1");
  return status ? EXIT_SUCCESS : fail(status.error());
}
