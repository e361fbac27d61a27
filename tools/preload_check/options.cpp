#include "tools/preload_check/options.h"

namespace orrery::preload_check {

const char* const kHelp =
    R"(Say which layers of the Orrery preload library attach to a program, and why the others do not
Usage: orrery-preload-check [OPTIONS] PROGRAM [ARGUMENTS...]

Looks at the program's file, at what it would load, at the environment and at the machine, and asks the agent whether it
would take the process. The program is not run, unless --run is given.

Options:
  -h, --help             Print this help message and exit
  --version              Print the version and exit
  --json                 Print JSON
  --run                  Also run the program with the library, and say what it told an agent that plans nothing; the
                         program's output goes to standard error
  --library PATH         The library [default: the one that LD_PRELOAD names, else the one beside this tool]
  --agent-socket PATH    The agent's socket [env: ORRERY_AGENT_SOCKET, else /run/orrery/agent.sock]

Exit codes: 0 the library attaches; 1 it has no effect in this program, or the run never attached; 2 wrong usage, or
            the program cannot be inspected; 3 it loads, but no agent takes the process.
)";

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  size_t i = 0;
  for (; i < arguments.size() && arguments[i].starts_with("-"); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      ++i;
      break;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name == "--library" || name == "--agent-socket") {
      if (equals == std::string::npos && i + 1 == arguments.size())
        return Error{ErrorCode::kInvalidArgument, name + " needs a value"};
      (name == "--library" ? options.library : options.agent_socket) =
          equals != std::string::npos ? word.substr(equals + 1) : arguments[++i];
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--run") {
      options.run = true;
    } else if (word == "--version") {
      options.version = true;
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else {
      return Error{ErrorCode::kInvalidArgument, "unknown option " + word + " (see --help)"};
    }
  }
  options.command.assign(arguments.begin() + static_cast<long>(i), arguments.end());
  if (options.command.empty() && !options.help && !options.version)
    return Error{ErrorCode::kInvalidArgument, "no program was named (see --help)"};
  return options;
}

}  // namespace orrery::preload_check
