#include "controller/drivers/ebpf/port_table.h"

#include <catch2/catch.hpp>

namespace orrery::drivers::ebpf {
namespace {

const ForwardingTable kTable{.switch_name = "leaf1", .ports = {{"p1"}, {"p2"}, {"p3"}}};

Interface interface(uint32_t ifindex, std::string name, bool up) {
  return {.ifindex = ifindex, .name = std::move(name), .up = up};
}

PortTable bind_all() {
  return PortTable::bind(kTable, std::vector{interface(1, "lo", true), interface(7, "p3", true),
                                             interface(5, "p1", true), interface(6, "p2", false)})
      .value();
}

}  // namespace

TEST_CASE("ports are bound to the interfaces of their names") {
  const auto ports = bind_all();
  CHECK(std::vector<uint32_t>(ports.ifindexes().begin(), ports.ifindexes().end()) == std::vector<uint32_t>{5, 6, 7});
  CHECK(ports.up() == 0b101);
}

TEST_CASE("every port without an interface is named at once") {
  const auto ports = PortTable::bind(kTable, std::vector{interface(5, "p2", true)});
  REQUIRE(!ports);
  CHECK(ports.error().message.find("ports p1, p3 of switch 'leaf1'") != std::string::npos);
}

TEST_CASE("a link's change is told once, other interfaces do not matter") {
  auto ports = bind_all();
  const auto changed = ports.update(std::vector{interface(5, "p1", false), interface(1, "lo", false),
                                                interface(5, "p1", false), interface(6, "p2", true)});
  REQUIRE(changed.size() == 2);
  CHECK((changed[0].port == 0 && !changed[0].up && !changed[0].rebound));
  CHECK((changed[1].port == 1 && changed[1].up));
  CHECK(ports.up() == 0b110);
  CHECK(ports.update(std::vector{interface(6, "p2", true)}).empty());
}

TEST_CASE("an interface that is removed and made again is bound anew") {
  auto ports = bind_all();
  auto gone = interface(5, "p1", false);
  gone.removed = true;
  CHECK(ports.update(std::vector{gone}).size() == 1);
  CHECK(ports.ifindexes()[0] == 0);
  const auto changed = ports.update(std::vector{interface(9, "p1", true)});
  REQUIRE(changed.size() == 1);
  CHECK((changed[0].rebound && changed[0].up));
  CHECK(ports.update(std::vector{gone}).empty());  // a late word about the old one
  CHECK(ports.up() == 0b101);
}

}  // namespace orrery::drivers::ebpf
