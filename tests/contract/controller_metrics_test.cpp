#include "controller/daemon/controller.h"
#include "controller/daemon/settings.h"
#include "reference_page.h"
#include "tests/fakes/scratch_directory.h"

using namespace orrery;

TEST_CASE("the controller's metrics are documented as they are", "[contract]") {
  test::ScratchDirectory scratch;
  daemon::ControllerSettings settings;
  config::Table table = daemon::controller_table(settings);
  config::Sources sources{.flags = {{"controller.topology_file",
                                     std::string(ORRERY_SOURCE) + "/tests/fixtures/topologies/leaf-spine-2x2x4.yaml"},
                                    {"state.file", ""}}};
  for (const char* service : {"intents", "agents", "switches", "control"})
    sources.flags.emplace_back(std::string("controller.") + service + "_endpoint", scratch.ipc(service));
  REQUIRE(table.load(sources).empty());
  telemetry::Metrics metrics;
  const auto controller = daemon::Controller::create(settings, metrics);
  REQUIRE(controller);
  test::check_reference_page("metrics-orrery-controller.md", metrics.reference("orrery-controller"));
}
