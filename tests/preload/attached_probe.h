// The probe, run so that it is attached for certain before it begins: on a busy machine the agent's answer may come
// later than the library waits.
#pragma once

#include <string>
#include <vector>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"

namespace orrery {

class AttachedProbe {
 public:
  AttachedProbe(const fakes::FakeAgent& agent, const std::string& agent_socket, std::vector<std::string> arguments);

  // Another program that waits in the same way when it finds PROBE_WAITS_FOR_AGENT set.
  AttachedProbe(const fakes::FakeAgent& agent, const std::string& agent_socket, const std::vector<std::string>& command,
                std::vector<std::pair<std::string, std::string>> environment);

  Program& program() { return program_; }
  // When it returns, the agent has everything the probe wrote. The output is that of the command alone.
  ProgramResult finish();

 private:
  const fakes::FakeAgent& agent_;
  Program program_;
};

ProgramResult run_attached_probe(const fakes::FakeAgent& agent, const std::string& agent_socket,
                                 const std::vector<std::string>& arguments);

}  // namespace orrery
