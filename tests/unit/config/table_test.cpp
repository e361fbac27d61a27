#include "common/config/table.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace orrery::config;

namespace {

struct Example {
  std::string host, mode;
  uint32_t window_ms = 0;
  bool enabled = false;
  double share = 0;
  List endpoints;
};

Table example_table(Example& config) {
  Table table("orrery-example");
  table.key("agent.host", config.host, "", {.required = true, .help = "name of this host"})
      .key("agent.window_ms", config.window_ms, 10,
           {.unit = "ms", .low = 1, .high = 1000, .help = "length of a window"})
      .key("agent.enabled", config.enabled, true, {.help = "on or off"})
      .key("plan.share_ratio", config.share, 0.5, {.unit = "ratio", .low = 0.0, .high = 1.0, .help = "a share"})
      .key("plan.mode", config.mode, "fast", {.choices = {"fast", "exact"}, .help = "how to plan"})
      .key("plan.endpoints", config.endpoints, {"a"}, {.help = "where to"});
  return table;
}

// A file that is gone when the test ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    char name[] = "/tmp/orrery-config-test-XXXXXX";
    const int fd = mkstemp(name);
    REQUIRE(fd >= 0);
    close(fd);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> texts(const std::vector<Fault>& faults) {
  std::vector<std::string> all;
  for (const Fault& fault : faults) all.push_back(fault.to_string());
  return all;
}

}  // namespace

TEST_CASE("every key holds its default when no source names it", "[config]") {
  Example config;
  Table table = example_table(config);
  CHECK(table.load({.flags = {{"agent.host", "gpu1"}}}).empty());
  CHECK(config.window_ms == 10);
  CHECK(config.enabled);
  CHECK(config.share == 0.5);
  CHECK(config.mode == "fast");
  CHECK(config.endpoints == List{"a"});
}

TEST_CASE("a flag wins over the environment, the environment over the file, the file over the default", "[config]") {
  TemporaryFile file("agent:\n  host: from-file\n  window_ms: 20\nplan:\n  mode: exact\n  endpoints: [x, y]\n");
  Example config;
  Table table = example_table(config);
  const Sources sources{.file = file.path(),
                        .environment = {{"ORRERY_AGENT_HOST", "from-environment"}, {"ORRERY_AGENT_WINDOW_MS", "30"}},
                        .flags = {{"agent.window_ms", "40"}, {"agent.window_ms", "50"}}};
  CHECK(texts(table.load(sources)).empty());
  CHECK(config.host == "from-environment");
  CHECK(config.window_ms == 50);
  CHECK(config.mode == "exact");
  CHECK(config.endpoints == List{"x", "y"});
  CHECK(table.print() ==
        "agent.host = from-environment  # environment ORRERY_AGENT_HOST\n"
        "agent.window_ms = 50  # flag\n"
        "agent.enabled = true  # default\n"
        "plan.share_ratio = 0.5  # default\n"
        "plan.mode = exact  # " +
            file.path() +
            ":5\n"
            "plan.endpoints = x,y  # " +
            file.path() + ":6\n");
}

TEST_CASE("all faults of all sources are reported at once with place, key and nearest name", "[config]") {
  TemporaryFile file(
      "agent:\n  hots: gpu1\n  window_ms: 0\n  enabled: maybe\nplan:\n  mode: exakt\n  share_ratio: {a: 1}\nextra: "
      "5\n");
  Example config;
  Table table = example_table(config);
  const Sources sources{.file = file.path(),
                        .environment = {{"ORRERY_AGENT_WINDOWS_MS", "5"}, {"ORRERY_DISABLE", "1"}},
                        .flags = {{"plan.share", "0.1"}}};
  const std::string& path = file.path();
  CHECK(texts(table.load(sources)) ==
        std::vector<std::string>{
            path + ":2: agent.hots: unknown key, did you mean 'agent.host'?",
            path + ":3: agent.window_ms: '0' is not an integer from 1 to 1000",
            path + ":4: agent.enabled: 'maybe' is not 'true' or 'false'",
            path + ":6: plan.mode: 'exakt' is not one of fast, exact, did you mean 'exact'?",
            path + ":7: plan.share_ratio: takes one value, not a map of values",
            path + ":8: extra: must be a section: a map of keys",
            "environment: ORRERY_AGENT_WINDOWS_MS: unknown variable, did you mean 'ORRERY_AGENT_WINDOW_MS'?",
            "flag: plan.share: unknown key, did you mean 'plan.share_ratio'?",
            "agent.host: must be set: in the file, by ORRERY_AGENT_HOST or by --agent.host"});
  CHECK(config.window_ms == 10);  // a value at fault leaves the default
}

TEST_CASE("a key given twice in one file is a fault at its second line", "[config]") {
  TemporaryFile file("agent:\n  host: a\n  host: b\n");
  Example config;
  Table table = example_table(config);
  CHECK(texts(table.load({.file = file.path()})) ==
        std::vector<std::string>{file.path() + ":3: agent.host: is given a second time"});
}

TEST_CASE("a file that is missing, not YAML or not a map is one fault, never a crash", "[config]") {
  Example config;
  const auto faults_of = [&](const std::string& path) {
    Table table = example_table(config);
    return table.load({.file = path, .flags = {{"agent.host", "h"}}});
  };
  CHECK(faults_of("/nowhere/orrery.yaml").size() == 1);
  for (const char* text :
       {"a: [1, 2\n", "\t- x", "- just\n- a list\n", "agent: [1]\n", "just text", "? [a]\n: {b: c}\n"}) {
    TemporaryFile file(text);
    INFO(text);
    CHECK_FALSE(faults_of(file.path()).empty());
  }
  TemporaryFile empty("# nothing but a comment\n");
  CHECK(faults_of(empty.path()).empty());
}

TEST_CASE("a rule across keys is reported at the key it is about, where that was set", "[config]") {
  Example config;
  Table table = example_table(config);
  table.rule("plan.mode", [&] { return config.mode == "exact" && !config.enabled ? "needs agent.enabled" : ""; });
  const auto faults = table.load({.flags = {{"agent.host", "h"}, {"plan.mode", "exact"}, {"agent.enabled", "false"}}});
  CHECK(texts(faults) == std::vector<std::string>{"flag: plan.mode: needs agent.enabled"});
}

TEST_CASE("an ignored variable of another program is no fault", "[config]") {
  Example config;
  Table table = example_table(config);
  table.ignore_environment("ORRERY_AGENT_HOSTS");
  CHECK(table.load({.environment = {{"ORRERY_AGENT_HOSTS", "x"}}, .flags = {{"agent.host", "h"}}}).empty());
}

TEST_CASE("the reference names every key with type, unit, default, range and help", "[config]") {
  Example config;
  const std::string page = example_table(config).reference();
  CHECK(page.find("| `agent.window_ms` | integer | ms | `10` | 1 – 1000 | length of a window |") != std::string::npos);
  CHECK(page.find("| `agent.host` | text |  | (must be set) |  | name of this host |") != std::string::npos);
  CHECK(page.find("| `plan.mode` | text |  | `fast` | fast, exact | how to plan |") != std::string::npos);
}
