// The settings of every daemon are documented as they are, and the example files are valid.
#include <array>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "reference_page.h"

namespace {

struct Output {
  std::string text;
  int exit_code = -1;
};

Output run(const std::string& command) {
  Output output;
  FILE* const pipe = popen(("env -i " + command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> part;
  while (const size_t got = fread(part.data(), 1, part.size(), pipe)) output.text.append(part.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  return output;
}

const std::string kConf = std::string(ORRERY_SOURCE) + "/systemd/conf/";

}  // namespace

TEST_CASE("the reference page of each daemon's configuration is what the daemon says", "[contract]") {
  for (const std::string& program :
       {std::string(ORRERY_AGENT), std::string(ORRERY_CONTROLLER), std::string(ORRERY_SWITCH)}) {
    const Output output = run(program + " --config-reference");
    CHECK(output.exit_code == 0);
    orrery::test::check_reference_page("config-" + std::filesystem::path(program).filename().string() + ".md",
                                       output.text);
  }
}

TEST_CASE("the example settings are valid", "[contract]") {
  for (const std::string& command : std::vector<std::string>{
           ORRERY_AGENT " --config " + kConf + "agent.yaml", ORRERY_CONTROLLER " --config " + kConf + "controller.yaml",
           ORRERY_SWITCH " --config " + kConf + "switch.yaml --switch.name leaf1"}) {
    const Output output = run(command + " --check-config");
    INFO(command << "\n" << output.text);
    CHECK(output.exit_code == 0);
  }
}

TEST_CASE("a wrong setting ends each daemon with 2, the line, the key and the nearest name", "[contract]") {
  const std::string file =
      std::filesystem::temp_directory_path() / ("orrery-wrong-" + std::to_string(getpid()) + ".yaml");
  std::ofstream(file) << "log:\n  levle: info\n";
  for (const std::string& program :
       {std::string(ORRERY_AGENT), std::string(ORRERY_CONTROLLER), std::string(ORRERY_SWITCH)}) {
    const Output output = run(program + " --config " + file);
    CHECK(output.exit_code == 2);
    CHECK(output.text.find(file + ":2: log.levle: unknown key, did you mean 'log.level'?") != std::string::npos);
  }
  std::filesystem::remove(file);
}
