#include "common/config/command_line.h"

#include <catch2/catch.hpp>

using namespace orrery::config;

namespace {

struct Example {
  std::string host;
  uint32_t count = 0;
};

// The outcome of one command line; output goes to the test's own stdout and stderr.
std::optional<int> run(Example& config, std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
  Table table("orrery-example");
  table.key("agent.host", config.host, "here", {.help = "h"})
      .key("limits.processes_count", config.count, 4, {.low = 1, .high = 9, .help = "c"});
  arguments.insert(arguments.begin(), "orrery-example");
  environment.push_back(nullptr);
  return load_command_line(table, "0.1.0", "An example.", static_cast<int>(arguments.size()), arguments.data(),
                           environment.data());
}

}  // namespace

TEST_CASE("values may be given as --key value, --key=value and --set key=value", "[config]") {
  Example config;
  CHECK(run(config, {"--agent.host", "a", "--limits.processes_count=7"}) == std::nullopt);
  CHECK(config.host == "a");
  CHECK(config.count == 7);
  CHECK(run(config, {"--set", "agent.host=b=c", "--set=limits.processes_count=2"}) == std::nullopt);
  CHECK(config.host == "b=c");
  CHECK(config.count == 2);
}

TEST_CASE("the environment block is read, other programs' variables are not", "[config]") {
  Example config;
  CHECK(run(config, {}, {"PATH=/bin", "ORRERY_AGENT_HOST=e", "ORRERY_DISABLE=1"}) == std::nullopt);
  CHECK(config.host == "e");
}

TEST_CASE("options that only print exit with 0", "[config]") {
  Example config;
  for (const char* option : {"--help", "-h", "--version", "--config-reference", "--print-config", "--check-config"})
    CHECK(run(config, {option}) == 0);
}

TEST_CASE("a wrong command line or value exits with 2", "[config]") {
  Example config;
  const std::vector<std::vector<const char*>> wrong = {{"--confg", "x"},
                                                       {"stray"},
                                                       {"--config"},
                                                       {"--set", "agent.host"},
                                                       {"--agent.hots", "x"},
                                                       {"--limits.processes_count", "10"},
                                                       {"--config", "/nowhere/orrery.yaml"},
                                                       {"--check-config", "--agent.host"}};
  for (const auto& arguments : wrong) {
    INFO(arguments[0]);
    CHECK(run(config, arguments) == kExitConfigFault);
  }
}
