#include "controller/drivers/ebpf/rule_commands.h"

#include <catch2/catch.hpp>

namespace orrery::drivers::ebpf {
namespace {

IpAddress ones() {
  uint8_t bytes[16];
  std::fill(std::begin(bytes), std::end(bytes), uint8_t{0xff});
  return IpAddress::from_bytes(bytes);
}

}  // namespace

TEST_CASE("an older term is refused, a newer one obeyed whatever its revision") {
  Fence fence(5, 10);
  CHECK(!fence.check(4, 99));
  CHECK(fence.check(5, 10));
  CHECK(fence.check(5, 11));
  CHECK(fence.check(6, 1));
  fence.advance(6, 1);
  CHECK(!fence.check(5, 11));
  CHECK(fence.check(4, 1).error().message == "term 4 is over: this switch obeys term 6");
}

TEST_CASE("within a term only revisions the switch had lately may come back") {
  Fence fence(1, 3);
  CHECK(!fence.check(1, 2));
  fence.advance(1, 7);
  CHECK(fence.check(1, 3));
  CHECK(!fence.check(1, 5));
  fence.advance(1, 3);
  CHECK(fence.check(1, 7));
  for (uint64_t revision = 20; revision < 40; ++revision) fence.advance(1, revision);
  CHECK(!fence.check(1, 3));
  fence.advance(2, 1);
  CHECK(!fence.check(2, 0));
}

TEST_CASE("wire rules become IPv4 rules, masks count in their last four bytes") {
  msg::Rule rule{.rule_id = 4, .egress_port = "p5", .backup_port = "p6"};
  rule.match = {IpAddress::from_v4(0x0a000101), IpAddress::from_v4(0x0a000201), 1000, 0, 6};
  rule.mask = {ones(), IpAddress::from_v4(0xffffff00), 0xffff, 0, 0xff};
  const auto spec = to_rule_spec(rule).value();
  CHECK(spec.src_address == 0x0a000101);
  CHECK(spec.src_mask == 0xffffffff);
  CHECK(spec.dst_address == 0x0a000200);
  CHECK(spec.dst_mask == 0xffffff00);
  CHECK(spec.src_port_mask == 0xffff);
  CHECK(spec.egress_port == "p5");

  rule.mask.src = IpAddress();
  rule.match.src = IpAddress::parse("fd00::1").value();
  CHECK(to_rule_spec(rule).value().src_mask == 0);  // any source
  rule.mask.src = ones();
  CHECK(to_rule_spec(rule).error().message == "rule 4: fd00::1 is not an IPv4 address; this switch forwards IPv4");
}

}  // namespace orrery::drivers::ebpf
