#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

const std::string kReady = "ready\n";

std::vector<std::string> command_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), probe_path());
  return arguments;
}

std::vector<std::pair<std::string, std::string>> waiting(std::vector<std::pair<std::string, std::string>> environment) {
  environment.emplace_back("PROBE_WAITS_FOR_AGENT", "1");
  return environment;
}

}  // namespace

AttachedProbe::AttachedProbe(const fakes::FakeAgent& agent, const std::string& agent_socket,
                             std::vector<std::string> arguments)
    : AttachedProbe(agent, agent_socket, command_of(std::move(arguments)), {}) {}

AttachedProbe::AttachedProbe(const fakes::FakeAgent& agent, const std::string& agent_socket,
                             const std::vector<std::string>& command,
                             std::vector<std::pair<std::string, std::string>> environment)
    : agent_(agent), program_(command, {.agent_socket = agent_socket, .environment = waiting(std::move(environment))}) {
  if (program_.wait_for_output(kReady) && agent_.wait_for([&] { return agent_.attachments() == 1; }))
    program_.say("\n");
}

ProgramResult AttachedProbe::finish() {
  ProgramResult result = program_.finish();
  agent_.wait_for([&] { return agent_.hang_ups() >= 1; });
  if (result.out.starts_with(kReady)) result.out.erase(0, kReady.size());
  return result;
}

ProgramResult run_attached_probe(const fakes::FakeAgent& agent, const std::string& agent_socket,
                                 const std::vector<std::string>& arguments) {
  return AttachedProbe(agent, agent_socket, arguments).finish();
}

}  // namespace orrery
