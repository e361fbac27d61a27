// orreryctl simulate: `orrery-sim run` under another name.
#include "tools/ctl/command.h"
#include "tools/sim/cli/cli.h"

namespace orrery::ctl {

void add_simulate_command(Session& session) {
  CLI::App* simulate = session.app.add_subcommand(
      "simulate", "What a plan would bring given jobs on a given fabric, beside other schemes (no controller needed)");
  const sim::Console console{.out = session.console.out,
                             .err = session.console.err,
                             .program = "orreryctl simulate",
                             .terminal = session.console.terminal,
                             .colour = session.console.colour};
  sim::add_run_options(*simulate, console, session.action);
}

}  // namespace orrery::ctl
