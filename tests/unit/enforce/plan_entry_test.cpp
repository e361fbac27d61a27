#include "agent/enforce/plan_entry.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "common/abi/ecmp_hash_abi.h"
#include "plans.h"

using namespace orrery;
using namespace orrery::enforce;
using test::flow_plan;
using test::is_h1;

TEST_CASE("every field of a flow's plan arrives in the entry a process reads", "[enforce]") {
  msg::FlowPlan flow = flow_plan(0x11, 42);
  flow.ordinal = 3;
  flow.hops = {{77, 4, 2, ORRERY_HASH_MURMUR_5TUPLE}, {88, 8, 7, ORRERY_HASH_MURMUR_5TUPLE}};
  flow.src_port_first = 20000;
  flow.src_port_last = 30000;
  flow.src_port_mask = 0xf;
  flow.src_port_value = 0x5;
  flow.release_offset_ns = 250'000;
  flow.pace_bps = 50'000'000;
  flow.dscp = 46;
  const orrery_plan_entry entry = make_entry(flow, is_h1).value();
  CHECK(entry.flow_id == 0x11);
  CHECK(entry.comm_id == 42);
  CHECK(IpAddress::from_bytes(entry.local_address) == flow.src);
  CHECK(IpAddress::from_bytes(entry.remote_address) == flow.dst);
  CHECK(entry.ordinal == 3);
  CHECK(entry.protocol == 6);
  CHECK(entry.hop_count == 2);
  CHECK(entry.hops[1].seed == 88);
  CHECK(entry.hops[1].group_size == 8);
  CHECK(entry.hops[1].member == 7);
  CHECK(entry.hops[1].hash_function == ORRERY_HASH_MURMUR_5TUPLE);
  CHECK(entry.src_port_first == 20000);
  CHECK(entry.src_port_last == 30000);
  CHECK(entry.src_port_mask == 0xf);
  CHECK(entry.src_port_value == 0x5);
  CHECK(entry.release_offset_ns == 250'000);
  CHECK(entry.pace_bps == 50'000'000);
  CHECK(entry.dscp == 46);
}

TEST_CASE("a flow that cannot be meant is refused with its reason", "[enforce]") {
  const std::vector<std::pair<std::string, std::function<void(msg::FlowPlan&)>>> wrong = {
      {"does not start at this host", [](msg::FlowPlan& f) { f.src = f.dst; }},
      {"has no destination", [](msg::FlowPlan& f) { f.dst = IpAddress(); }},
      {"neither TCP nor UDP", [](msg::FlowPlan& f) { f.protocol = 1; }},
      {"hash hops",
       [](msg::FlowPlan& f) {
         f.hops.assign(ORRERY_PLAN_MAX_HOPS + 1, {1, 4, 0, ORRERY_HASH_MURMUR_5TUPLE});
       }},
      {"hash function",
       [](msg::FlowPlan& f) {
         f.hops = {{1, 4, 0, 9}};
       }},
      {"member 4 of a group of 4",
       [](msg::FlowPlan& f) {
         f.hops = {{1, 4, 4, ORRERY_HASH_MURMUR_5TUPLE}};
       }},
      {"member 0 of a group of 0",
       [](msg::FlowPlan& f) {
         f.hops = {{1, 0, 0, ORRERY_HASH_MURMUR_5TUPLE}};
       }},
      {"source ports", [](msg::FlowPlan& f) { f.src_port_first = 9, f.src_port_last = 8; }},
      {"source port 49151 for RoCE",
       [](msg::FlowPlan& f) { f.protocol = 17, f.src_port_first = 49151, f.src_port_last = 65535; }},
      {"outside its mask", [](msg::FlowPlan& f) { f.src_port_mask = 1, f.src_port_value = 2; }},
      {"DSCP 64", [](msg::FlowPlan& f) { f.dscp = 64; }},
      {"would starve it", [](msg::FlowPlan& f) { f.pace_bps = 1000; }}};
  for (const auto& [reason, spoil] : wrong) {
    INFO(reason);
    msg::FlowPlan flow = flow_plan(0x11, 42);
    spoil(flow);
    const auto entry = make_entry(flow, is_h1);
    REQUIRE_FALSE(entry);
    CHECK(entry.error().code == ErrorCode::kRefused);
    CHECK(entry.error().message.find(reason) != std::string::npos);
    CHECK(entry.error().message.find("flow 0x11") != std::string::npos);
  }
}

TEST_CASE("a RoCE flow's entry has its protocol and ports", "[enforce]") {
  msg::FlowPlan flow = flow_plan(0x11, 42);
  flow.protocol = 17;
  flow.src_port_first = 49152;
  flow.src_port_last = 65535;
  const orrery_plan_entry entry = make_entry(flow, is_h1).value();
  CHECK(entry.protocol == 17);
  CHECK(entry.src_port_first == 49152);
  CHECK(entry.src_port_last == 65535);
  flow.src_port_first = flow.src_port_last = 0;  // the port is left to the kernel
  CHECK(make_entry(flow, is_h1));
}
