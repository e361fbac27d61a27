#include <cstdlib>
#include <iostream>

#include "tools/preload_check/agent_query.h"
#include "tools/preload_check/inspect.h"
#include "tools/preload_check/options.h"
#include "tools/preload_check/report.h"
#include "tools/preload_check/trial.h"
#include "tools/preload_check/verdict.h"

extern char** environ;

namespace {

using namespace orrery;
using namespace orrery::preload_check;

constexpr int kUsage = 2;

Environment environment_of_process() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

int fail(const Error& error) {
  std::cerr << "orrery-preload-check: " << error.message << "\n";
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  auto options = parse_options({argv + 1, argv + argc});
  if (!options) return fail(options.error());
  if (options->help || options->version) {
    std::cout << (options->help ? kHelp : "orrery-preload-check " ORRERY_VERSION "\n");
    return 0;
  }
  const Environment environment = environment_of_process();
  auto found = inspect({options->command[0], options->library, environment});
  if (!found) return fail(found.error());
  if (options->agent_socket.empty() && environment.contains("ORRERY_AGENT_SOCKET"))
    options->agent_socket = environment.at("ORRERY_AGENT_SOCKET");
  found->agent = query_agent(options->agent_socket);
  Trial trial;
  if (options->run && decide(*found).outcome != Outcome::kDoesNotLoad) {
    auto ran = run_trial(found->library, options->command);
    if (!ran) return fail(ran.error());
    trial = *std::move(ran);
  }
  const Verdict verdict = trial.ran ? decide(*found, trial) : decide(*found);
  std::cout << (options->json ? to_json(*found, trial, verdict) : to_text(*found, trial, verdict));
  std::cout.flush();
  return std::cout ? static_cast<int>(verdict.outcome) : kUsage;
}
