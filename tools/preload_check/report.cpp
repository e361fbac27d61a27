#include "tools/preload_check/report.h"

#include <nlohmann/json.hpp>

#include "common/abi/attach_abi.h"

namespace orrery::preload_check {
namespace {

using nlohmann::ordered_json;

const char* name_of(Libc libc) {
  switch (libc) {
    case Libc::kGlibc:
      return "glibc";
    case Libc::kMusl:
      return "musl";
    case Libc::kNone:
      return "static";
    case Libc::kUnknown:
      break;
  }
  return "unknown";
}

const char* name_of(LayerState state) {
  switch (state) {
    case LayerState::kAttaches:
      return "yes";
    case LayerState::kUnused:
      return "unused";
    case LayerState::kNot:
      break;
  }
  return "no";
}

const char* name_of(NcclReach reach) {
  switch (reach) {
    case NcclReach::kLinked:
      return "linked";
    case NcclReach::kExported:
      return "contained";
    case NcclReach::kOpened:
      return "opened";
    case NcclReach::kHidden:
      return "hidden";
    case NcclReach::kNone:
      break;
  }
  return "none";
}

const char* name_of(VerbsReach reach) {
  return reach == VerbsReach::kLinked ? "linked" : reach == VerbsReach::kOpened ? "opened" : "none";
}

const char* name_of(AgentState state) {
  switch (state) {
    case AgentState::kAnswers:
      return "answers";
    case AgentState::kRefuses:
      return "refuses";
    case AgentState::kSilent:
      return "silent";
    case AgentState::kDenied:
      return "denied";
    case AgentState::kStranger:
      return "not an agent";
    case AgentState::kBadPath:
      return "bad path";
    case AgentState::kAbsent:
      break;
  }
  return "absent";
}

std::string line(std::string name, const std::string& text) {
  name.resize(10, ' ');
  return name + text + "\n";
}

std::string layer_line(const LayerVerdict& layer) {
  std::string state = name_of(layer.state);
  state.resize(8, ' ');
  return line(layer.name, state + layer.why);
}

std::string process_line(const TrialProcess& process) {
  return line("process",
              std::to_string(process.pid) + " (" + process.name + "): " + std::to_string(process.communicators) +
                  " communicators, " + std::to_string(process.collectives) + " collectives, " +
                  std::to_string(process.connections) + " connections, " + std::to_string(process.queue_pairs) +
                  " queue pairs" +
                  (process.lost_events > 0 ? ", " + std::to_string(process.lost_events) + " events lost" : ""));
}

ordered_json json_of(const TrialProcess& process) {
  ordered_json layers = ordered_json::array();
  const struct {
    uint32_t bit;
    const char* name;
  } names[] = {{ORRERY_LAYER_NCCL, "nccl"},
               {ORRERY_LAYER_DLSYM, "dlsym"},
               {ORRERY_LAYER_VERBS, "verbs"},
               {ORRERY_LAYER_SOCKETS, "sockets"},
               {ORRERY_LAYER_PROFILER, "profiler"}};
  for (const auto& one : names)
    if ((process.layers & one.bit) != 0) layers.push_back(one.name);
  return {{"pid", process.pid},
          {"name", process.name},
          {"layers", layers},
          {"communicators", process.communicators},
          {"collectives", process.collectives},
          {"connections", process.connections},
          {"queue_pairs", process.queue_pairs},
          {"lost_events", process.lost_events}};
}

}  // namespace

std::string to_text(const Findings& found, const Trial& trial, const Verdict& verdict) {
  std::string program = found.program + " (" + name_of(found.libc) + ")";
  if (!found.script.empty()) program += ", runs the script " + found.script;
  std::string text = line("program", program);
  text += line("library", found.library.empty() ? "not found" : found.library);
  if (!trial.ran)
    text += line("agent", found.agent.state == AgentState::kAnswers
                              ? found.agent.socket + ": answers, ABI version " + std::to_string(found.agent.abi_version)
                              : found.agent.why);
  if (found.seccomp_mode == 2) text += line("seccomp", "a filter is in force");
  for (const LayerVerdict& layer : verdict.layers) text += layer_line(layer);
  for (const TrialProcess& process : trial.processes) text += process_line(process);
  if (trial.ran) text += line("ended", "with status " + std::to_string(trial.exit_status));
  for (const std::string& advice : verdict.advice) text += line("note", advice);
  return text + line("result", verdict.summary);
}

std::string to_json(const Findings& found, const Trial& trial, const Verdict& verdict) {
  ordered_json layers = ordered_json::array();
  for (const LayerVerdict& layer : verdict.layers)
    layers.push_back({{"name", layer.name}, {"state", name_of(layer.state)}, {"why", layer.why}});
  ordered_json out{
      {"program", found.program},
      {"script", found.script},
      {"libc", name_of(found.libc)},
      {"privileged", found.privileged},
      {"missing_libraries", found.missing_libraries},
      {"library", found.library},
      {"preload_is_set", found.preload_is_set},
      {"disabled", found.disabled},
      {"seccomp_mode", found.seccomp_mode},
      {"nccl", {{"reach", name_of(found.nccl.reach)}, {"path", found.nccl.path}, {"version", found.nccl.version}}},
      {"verbs", {{"reach", name_of(found.verbs)}, {"library", found.verbs_library}, {"devices", found.rdma_devices}}},
      {"profiler_plugin", found.profiler_plugin},
      {"agent",
       {{"socket", found.agent.socket},
        {"state", name_of(found.agent.state)},
        {"abi_version", found.agent.abi_version},
        {"why", found.agent.why}}},
      {"layers", layers},
      {"advice", verdict.advice},
      {"attaches", verdict.outcome == Outcome::kAttaches},
      {"result", verdict.summary}};
  if (trial.ran) {
    ordered_json processes = ordered_json::array();
    for (const TrialProcess& process : trial.processes) processes.push_back(json_of(process));
    out["run"] = {{"exit_status", trial.exit_status}, {"processes", processes}};
  }
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace orrery::preload_check
