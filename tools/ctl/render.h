// The controller's answers as text for people and as JSON for programs. Pure: times are given, not read.
#pragma once

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/abi/attach_abi.h"
#include "common/msg/control_messages.h"

namespace orrery::ctl {

using Json = nlohmann::ordered_json;

struct Style {
  bool colour = false;
  uint64_t now_tai_ns = 0;  // for "2 s ago"
};

std::string text_of(const msg::PlanList& plan, const Style& style);
// "1.26 s per round; lower bound 1.2 s: gap 5.0 %"
std::string text_of(const msg::PlanBounds& bounds);
// The table of flows alone.
std::string text_of(const std::vector<msg::PlannedFlow>& flows, const Style& style);
// Connections and queue pairs that exist.
std::string text_of(const msg::FlowList& list, const Style& style);
std::string text_of(const std::vector<msg::LiveFlow>& flows, const Style& style);
std::string text_of(const msg::FlowExplanation& explanation, const Style& style);
std::string text_of(const std::vector<msg::LinkState>& links, const Style& style);
std::string text_of(const std::vector<msg::JobState>& jobs, const Style& style);
std::string text_of(const std::vector<msg::HostState>& hosts, const Style& style);
std::string text_of(const std::vector<msg::SwitchState>& switches, const Style& style);
std::string text_of(const std::vector<msg::ForecastState>& forecasts, const Style& style);
std::string text_of(const msg::NicForecasts& nics, const Style& style);
std::string text_of(const msg::Health& health, const Style& style);

// Field names and units are those of schemas/control.capnp, in snake_case.
Json json_of(const msg::PlanList& plan);
Json json_of(const std::vector<msg::PlannedFlow>& flows);
Json json_of(const msg::FlowList& list);
Json json_of(const std::vector<msg::LiveFlow>& flows);
Json json_of(const msg::FlowExplanation& explanation);
Json json_of(const std::vector<msg::LinkState>& links);
Json json_of(const std::vector<msg::JobState>& jobs);
Json json_of(const std::vector<msg::HostState>& hosts);
Json json_of(const std::vector<msg::SwitchState>& switches);
Json json_of(const std::vector<msg::ForecastState>& forecasts);
// "prediction", which is null where none is loaded, and "nics".
Json json_of(const msg::NicForecasts& nics);
Json json_of(const msg::Health& health);

// Adds max_drain_ns, lower_bound_ns, fluid_bound_ns and gap_percent, which is null where no bound is known.
void add_bounds(Json& json, const msg::PlanBounds& bounds);

// Compact and valid whatever bytes the controller's texts hold; `indent` as nlohmann's dump(), -1 for one line.
std::string json_text(const Json& json, int indent = 1);

// Layers of the preload library, in the order of enum orrery_layer.
inline constexpr std::string_view kLayerNames[] = {"nccl", "dlsym", "verbs", "sockets", "profiler"};
static_assert(1u << (std::size(kLayerNames) - 1) == ORRERY_LAYER_PROFILER);

std::string op_name(uint16_t op);  // "all-reduce"
// "leaf1 > spine2 > leaf3": the switches of a path of egress ports.
std::string via(const std::vector<std::string>& path);
// "97.5 %", "-" when there were none.
std::string hit_rate(uint64_t hits, uint64_t misses);
std::string id_text(uint64_t id);  // small ones in decimal, others as 0x...

}  // namespace orrery::ctl
