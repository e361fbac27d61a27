#include "agent/daemon/agent.h"
#include "reference_page.h"
#include "tests/fakes/scratch_directory.h"

using namespace orrery;

TEST_CASE("the agent's metrics are documented as they are", "[contract]") {
  test::ScratchDirectory scratch;
  daemon::AgentConfig config;
  config::Table table = daemon::agent_config_table(config);
  const config::Sources sources{.flags = {{"agent.socket_path", scratch.file("agent.sock")},
                                          {"controller.intents_endpoint", scratch.ipc("intents")},
                                          {"controller.agents_endpoint", scratch.ipc("agents")},
                                          {"bpf.mode", "off"}}};
  REQUIRE(table.load(sources).empty());
  telemetry::Metrics metrics;
  const auto agent = daemon::Agent::create(config, metrics);
  REQUIRE(agent);
  test::check_reference_page("metrics-orrery-agent.md", metrics.reference("orrery-agent"));
}
