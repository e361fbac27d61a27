// A core between a fake driver and fake agents, on the default leaf-spine.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "common/abi/event_abi.h"
#include "common/base/clock.h"
#include "controller/daemon/core.h"
#include "controller/fabric/topology.h"
#include "tests/fakes/fake_agent_link.h"
#include "tests/fakes/fake_driver.h"

namespace orrery::test {

inline constexpr uint64_t kMs = 1'000'000;

struct CoreFixture {
  fabric::Graph fabric;
  FakeDriver driver;
  FakeAgentLink agents;
  telemetry::Metrics metrics;
  std::vector<state::SavedState> saved;
  uint64_t now = 1'000'000 * kMs;
  daemon::Core core;
  std::map<std::string, uint64_t> sequences;

  explicit CoreFixture(const daemon::CoreOptions& options = {.version = "test"}, const fabric::LeafSpine& shape = {})
      : fabric(fabric::Graph::build(*fabric::generate_leaf_spine(shape))),
        core({fabric,
              driver,
              agents,
              metrics,
              5,
              [this](state::SavedState state) { saved.push_back(std::move(state)); },
              {}},
             options, now) {
    for (size_t nic = 0; nic < fabric.nics().size(); ++nic) connect(nic);
  }
  std::string host(size_t nic) const { return fabric.node(fabric.nics()[nic].host).name; }
  IpAddress address(size_t nic) const { return fabric.nics()[nic].address; }
  void connect(size_t nic) {
    agents.connected.push_back(host(nic));
    core.on_agent_connected({.host = host(nic)}, now);
  }
  void disconnect(size_t nic) {
    std::erase(agents.connected, host(nic));
    core.on_agent_gone(host(nic), now);
  }
  void send(size_t nic, msg::IntentWindow window) {
    window.host = host(nic);
    window.sequence = ++sequences[window.host];
    core.on_window(window, now);
  }
  void announce(uint64_t comm_id, uint32_t rank, size_t nic, uint32_t nranks) {
    send(nic, {.communicators = {
                   {.comm_id = comm_id, .rank = rank, .nranks = nranks, .process = 1, .address = address(nic)}}});
  }
  // Ranks 0.. on the given NICs.
  void announce_all(uint64_t comm_id, const std::vector<size_t>& nics) {
    for (uint32_t rank = 0; rank < nics.size(); ++rank)
      announce(comm_id, rank, nics[rank], static_cast<uint32_t>(nics.size()));
  }
  void call(uint64_t comm_id, uint32_t rank, size_t nic, uint16_t op, uint64_t bytes, uint64_t sequence,
            uint32_t peer = 0xffffffff, uint64_t called_ns = 1) {
    send(nic, {.intents = {{.comm_id = comm_id,
                            .rank = rank,
                            .op = op,
                            .bytes = bytes,
                            .peer = peer,
                            .called_tai_ns = called_ns,
                            .sequence = sequence}}});
  }
  FiveTuple tuple(size_t src, size_t dst, uint16_t port = 40000) const {
    return {address(src), address(dst), port, 5000, 6};
  }
  void flow(size_t nic, const FiveTuple& flow_tuple, uint64_t comm_id, uint64_t tx_bytes,
            msg::FlowReport::Kind kind = msg::FlowReport::Kind::kProgress) {
    send(nic, {.flows = {{.kind = kind, .tuple = flow_tuple, .comm_id = comm_id, .tx_bytes = tx_bytes}}});
  }
  void acknowledge_all() {
    for (const std::string& name : agents.connected) {
      const msg::HostPlan plan = agents.last_plan(name);
      if (plan.revision != 0)
        core.on_agent_ack({.name = name, .term = plan.term, .revision = plan.revision, .accepted = true}, now);
    }
  }
  // Lets `ms` pass, with everybody acknowledging.
  void pass(uint64_t ms) {
    for (const uint64_t end = now + ms * kMs; now < end;) {
      now += std::min<uint64_t>(10, ms) * kMs;
      core.step(now);
      acknowledge_all();
    }
    core.step(now);
  }
  template <typename Answer>
  Answer ask(msg::Request request) {
    return std::get<Answer>(core.answer(request, now));
  }
  msg::PlanList plan() { return ask<msg::PlanList>({msg::Request::Kind::kPlanList}); }
  msg::Health health() { return ask<msg::Health>({msg::Request::Kind::kHealth}); }
  std::vector<msg::JobState> jobs() { return ask<std::vector<msg::JobState>>({msg::Request::Kind::kJobList}); }
  bool has_problem(const std::string& words) {
    const auto problems = health().problems;
    return std::any_of(problems.begin(), problems.end(),
                       [&](const std::string& problem) { return problem.find(words) != std::string::npos; });
  }
};

}  // namespace orrery::test
