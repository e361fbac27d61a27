#include "controller/drivers/ebpf/switch_config.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

namespace orrery::drivers::ebpf {
namespace {

std::optional<int> load(SwitchConfig& config, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "orrery-switch");
  const char* const no_environment[] = {nullptr};
  return load_switch_config(config, static_cast<int>(arguments.size()), arguments.data(), no_environment);
}

}  // namespace

TEST_CASE("short forms set the keys they stand for") {
  SwitchConfig config;
  REQUIRE(!load(config, {"--topology", "t.yaml", "--switch=leaf1", "--controller", "ipc:///tmp/c", "--hash-seed", "7",
                         "--keep"}));
  CHECK(config.topology_file == "t.yaml");
  CHECK(config.name == "leaf1");
  CHECK(config.controller_endpoint == "ipc:///tmp/c");
  CHECK(config.hash_seed == 7);
  CHECK(config.keep_forwarding);
  CHECK(config.stats_file.empty());
}

TEST_CASE("a missing switch name and an impossible seed are faults of the configuration") {
  SwitchConfig config;
  CHECK(load(config, {"--topology", "t.yaml"}) == 2);
  CHECK(load(config, {"--topology", "t.yaml", "--switch", "leaf1", "--hash-seed", "4294967296"}) == 2);
  CHECK(load(config, {"--topologie", "t.yaml", "--switch", "leaf1"}) == 2);
}

TEST_CASE("without a seed of its own the switch takes the topology's") {
  SwitchConfig config;
  REQUIRE(!load(config, {"--topology", "t.yaml", "--switch", "leaf1"}));
  CHECK(config.hash_seed == -1);
}

TEST_CASE("the reference page of the configuration is the one in docs") {
  SwitchConfig config;
  std::stringstream page;
  page << std::ifstream(ORRERY_SOURCE_DIR "/docs/reference/config-orrery-switch.md").rdbuf();
  CHECK(make_switch_table(config).reference() == page.str());  // orrery-switch --config-reference writes it
}

}  // namespace orrery::drivers::ebpf
