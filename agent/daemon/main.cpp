// orrery-agent: builds the parts and runs them. Exit codes: 0 ended by a signal, 1 could not start or failed, 2
// configuration at fault.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include "agent/daemon/agent.h"
#include "common/base/log.h"
#include "common/config/command_line.h"

namespace {

constexpr const char* kSummary =
    "Takes in training processes that run under liborrery_preload.so, tells the controller what they send, and gives "
    "them its plans.";

int fail(const orrery::Error& error) {
  spdlog::error("{}", error.message);
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  orrery::daemon::AgentConfig config;
  orrery::config::Table table = orrery::daemon::agent_config_table(config);
  if (const auto code = orrery::config::load_command_line(table, ORRERY_VERSION, kSummary, argc, argv, environ))
    return *code;
  if (const auto status = orrery::set_up_logging("orrery-agent", config.log.level); !status)
    return fail(status.error());
  orrery::telemetry::Metrics metrics;
  auto agent = orrery::daemon::Agent::create(config, metrics);
  if (!agent) return fail(agent.error());
  if (const auto status = metrics.serve(config.metrics.listen_address); !status) return fail(status.error());
  std::printf("READY orrery-agent host=%s socket=%s\n", config.agent.host.c_str(), config.agent.socket_path.c_str());
  std::fflush(stdout);
  spdlog::info("host '{}': processes attach at {}", config.agent.host, config.agent.socket_path);
  if (const auto status = (*agent)->run(); !status) return fail(status.error());
  return EXIT_SUCCESS;
}
