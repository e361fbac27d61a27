#include "controller/daemon/settings.h"

#include <fstream>
#include <sstream>

#include "controller/daemon/controller.h"
#include "tests/fakes/scratch_directory.h"
#include "tests/unit/core/fixture.h"

using namespace orrery;

namespace {

std::string page(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(ORRERY_SOURCE_DIR "/docs/reference/" + name).rdbuf();
  return text.str();
}

std::vector<config::Fault> faults(std::vector<std::pair<std::string, std::string>> flags) {
  daemon::ControllerSettings settings;
  config::Table table = daemon::controller_table(settings);
  flags.emplace_back("controller.topology_file", "t.yaml");
  return table.load({.flags = std::move(flags)});
}

}  // namespace

TEST_CASE("the reference page of the configuration is the one in docs") {
  daemon::ControllerSettings settings;
  CHECK(daemon::controller_table(settings).reference() ==
        page("config-orrery-controller.md"));  // orrery-controller --config-reference writes it
}

TEST_CASE("the reference page of the metrics is the one in docs") {
  test::CoreFixture core;
  test::ScratchDirectory directory;
  msg::Context context;
  const api::Settings settings{directory.ipc("i"), directory.ipc("a"), directory.ipc("s"), directory.ipc("c")};
  REQUIRE(api::Api::create(context, core.fabric, core.metrics, settings));
  CHECK(core.metrics.reference("orrery-controller") == page("metrics-orrery-controller.md"));
}

TEST_CASE("settings that contradict each other are refused by name") {
  CHECK(faults({}).empty());
  CHECK(faults({{"entropy.src_port_first", "50000"}, {"entropy.src_port_last", "40000"}}).at(0).key ==
        "entropy.src_port_last");
  const auto curve = faults({{"security.mode", "curve"}});
  REQUIRE(curve.size() == 2);
  CHECK(curve[0].key == "security.key_file");
  CHECK(curve[1].key == "security.allow_list_file");
}

TEST_CASE("a controller that cannot start says which file or setting is to blame") {
  test::ScratchDirectory directory;
  telemetry::Metrics metrics;
  daemon::ControllerSettings settings;
  daemon::controller_table(settings).load({});
  settings.topology_file = directory.file("absent.yaml");
  const auto absent = daemon::Controller::create(settings, metrics);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().message.find("absent.yaml") != std::string::npos);
  std::ofstream(directory.file("t.yaml")) << fabric::to_yaml(*fabric::generate_leaf_spine({}));
  settings.topology_file = directory.file("t.yaml");
  settings.state_file = "";
  settings.agents_endpoint = "tcp://0.0.0.0:7002";
  settings.intents_endpoint = directory.ipc("i");
  const auto open = daemon::Controller::create(settings, metrics);
  REQUIRE_FALSE(open);
  CHECK(open.error().message.starts_with("controller.agents_endpoint: "));
}
