// A stand-in for the agent in the guest: takes processes in, gives them the plan of its command line, and tells at its
// end what they reported.
//
//   agent_recorder SOCKET [KEY=VALUE,...]...
//
// Each further argument is a plan entry for RoCE traffic: remote= (address), ordinal=, port= (the source port wanted),
// offset_ns=, pace_bps=. Prints READY, runs until its standard input ends, then prints one JSON object:
//   {"attachments", "dropped", "events": [{"type", "time_ns", "thread", ...}],
//    "flows": [{"pid", "local", "remote", "protocol", "tx_bytes", ..., "qp": {...}, "qp_events": [...]}]}
#include <netinet/in.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "common/base/ip_address.h"
#include "tests/fakes/fake_agent.h"

using namespace orrery;
using nlohmann::json;

namespace {

constexpr uint16_t kRoceUdpPort = 4791;

orrery_plan_entry parse_entry(const std::string& text, uint64_t flow_id) {
  orrery_plan_entry entry{};
  entry.flow_id = flow_id;
  entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
  entry.protocol = IPPROTO_UDP;
  entry.dscp = 0xff;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "remote") {
      const auto address = IpAddress::parse(value);
      if (!address) throw std::runtime_error("'" + value + "' is not an address");
      std::memcpy(entry.remote_address, address->bytes().data(), 16);
    } else if (key == "ordinal") {
      entry.ordinal = static_cast<uint16_t>(std::stoul(value));
    } else if (key == "port") {
      entry.src_port_first = entry.src_port_last = static_cast<uint16_t>(std::stoul(value));
    } else if (key == "offset_ns") {
      entry.release_offset_ns = std::stoull(value);
    } else if (key == "pace_bps") {
      entry.pace_bps = std::stoull(value);
    } else {
      throw std::runtime_error("a plan entry has no '" + key + "'");
    }
  }
  return entry;
}

json to_json(const orrery_qp_event& event) {
  return {{"qp_type", event.qp_type},
          {"qpn", event.qpn},
          {"dest_qpn", event.dest_qpn},
          {"flow_label", event.flow_label},
          {"cycle", event.cycle},
          {"udp_sport", event.udp_sport},
          {"traffic_class", event.traffic_class},
          {"flags", event.flags},
          {"planned", event.plan_index != 0xffffffffu},
          {"device", std::string(event.device, strnlen(event.device, sizeof(event.device)))}};
}

json to_json(const orrery_qp_counters& qp) {
  return {{"posted_sends", qp.posted_sends},
          {"posted_recvs", qp.posted_recvs},
          {"send_completions", qp.send_completions},
          {"recv_completions", qp.recv_completions},
          {"completion_errors", qp.completion_errors},
          {"writes", qp.writes},
          {"write_imms", qp.write_imms},
          {"sends", qp.sends},
          {"reads", qp.reads},
          {"atomics_and_others", qp.atomics_and_others},
          {"control_writes", qp.control_writes},
          {"flush_reads", qp.flush_reads},
          {"zero_imms", qp.zero_imms},
          {"deferred", qp.deferred},
          {"failed_posts", qp.failed_posts},
          {"drained_early", qp.drained_early}};
}

std::string to_text(const uint8_t address[16]) {
  return IpAddress::from_bytes(address).to_string();
}

json to_json(const fakes::FakeFlow& flow) {
  json qp_events = json::array();
  for (const auto& event : flow.qp_events) qp_events.push_back(to_json(event));
  return {{"pid", flow.pid},
          {"local", to_text(flow.born.local_address)},
          {"local_port", flow.born.local_port},
          {"remote", to_text(flow.born.remote_address)},
          {"remote_port", flow.born.remote_port},
          {"protocol", flow.born.protocol == IPPROTO_UDP ? "udp" : "tcp"},
          {"gone", flow.gone},
          {"tx_bytes", flow.sample.tx_bytes},
          {"rx_bytes", flow.sample.rx_bytes},
          {"bursts", flow.sample.bursts},
          {"held_sends", flow.sample.held_sends},
          {"held_ns", flow.sample.held_ns},
          {"plan_flow_id", flow.sample.plan_flow_id},
          {"qp_events", qp_events},
          {"qp", flow.qp ? to_json(*flow.qp) : json()}};
}

json to_json(const orrery_event& event) {
  json told = {{"type", event.type}, {"time_ns", event.time_ns}, {"thread", event.thread}};
  if (event.type == ORRERY_EVENT_COLLECTIVE) told["bytes"] = event.collective.bytes;
  return told;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: agent_recorder SOCKET [KEY=VALUE,...]...");
  fakes::FakeAgentOptions options;
  options.shape = {.ring_count = 16, .ring_events = 4096, .flow_slots = 256};
  options.poll_ms = 10;  // as the agent's windows
  for (int i = 2; i < argc; ++i) options.plan.push_back(parse_entry(argv[i], static_cast<uint64_t>(i) - 1));
  fakes::FakeAgent agent(argv[1], options);
  std::puts("READY");
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  json told = {{"attachments", agent.attachments()}, {"dropped", agent.dropped()}};
  told["events"] = json::array();
  for (const auto& event : agent.events()) told["events"].push_back(to_json(event));
  told["flows"] = json::array();
  for (const auto& flow : agent.flows()) told["flows"].push_back(to_json(flow));
  std::cout << told << std::endl;
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "agent_recorder: %s\n", error.what());
  return 2;
}
