#include "tools/preload_check/verdict.h"

#include <algorithm>

#include "common/abi/attach_abi.h"

namespace orrery::preload_check {
namespace {

constexpr int kFirstWithProfiler = 22300;

// Why nothing of the library takes effect; empty when it does.
std::string obstacle(const Findings& found) {
  if (found.libc == Libc::kNone) return "the program is linked statically: nothing reads LD_PRELOAD";
  if (found.privileged)
    return "the program runs with more rights than its user (set-uid, set-gid or capabilities): LD_PRELOAD is ignored";
  if (found.library.empty()) return "liborrery_preload.so was not found: name it with --library";
  if (!found.library_fault.empty()) return found.library_fault;
  if (found.sanitized && !found.sanitizer_first)
    return "the program is built with the address sanitizer, which stops it unless LD_PRELOAD begins with libasan.so";
  if (found.disabled) return "ORRERY_DISABLE is set";
  return "";
}

std::string at(const Nccl& nccl) {
  const std::string version = nccl.version != 0 ? ", version " + nccl_version_text(nccl.version) : "";
  return " (" + nccl.path + version + ")";
}

LayerVerdict nccl_layer(const Findings& found) {
  const Nccl& nccl = found.nccl;
  switch (nccl.reach) {
    case NcclReach::kLinked:
      return {"nccl", LayerState::kAttaches, "linked" + at(nccl)};
    case NcclReach::kExported:
      return {"nccl", LayerState::kAttaches, "contained and exported" + at(nccl)};
    case NcclReach::kOpened:
      if (found.libc == Libc::kMusl)
        return {"nccl", LayerState::kNot, "opened at run time, which only the dlsym layer sees" + at(nccl)};
      return {"nccl", LayerState::kAttaches, "opened at run time, seen through the dlsym layer" + at(nccl)};
    case NcclReach::kHidden:
      return {"nccl", LayerState::kNot,
              "linked statically with its names hidden" + at(nccl) + ": only the profiler layer sees it"};
    case NcclReach::kNone:
      return {"nccl", LayerState::kUnused,
              "nothing here mentions NCCL; what the program opens by a name of its own shows with --run"};
  }
  return {};
}

LayerVerdict dlsym_layer(const Findings& found) {
  if (found.libc == Libc::kMusl)
    return {"dlsym", LayerState::kNot, "musl has no dlvsym: libraries opened at run time are not seen"};
  return {"dlsym", LayerState::kAttaches, "libraries opened at run time are seen"};
}

LayerVerdict verbs_layer(const Findings& found) {
  if (found.verbs_library.empty()) return {"verbs", LayerState::kUnused, "no libibverbs.so.1 on this machine"};
  const std::string library = " (" + found.verbs_library + ")";
  if (found.rdma_devices.empty()) return {"verbs", LayerState::kUnused, "no RDMA device on this machine" + library};
  if (found.verbs == VerbsReach::kLinked) return {"verbs", LayerState::kAttaches, "linked" + library};
  const bool by_nccl = found.nccl.reach != NcclReach::kNone;
  if (found.verbs == VerbsReach::kNone && !by_nccl)
    return {"verbs", LayerState::kUnused, "nothing here mentions libibverbs" + library};
  if (found.libc == Libc::kMusl)
    return {"verbs", LayerState::kNot, "opened at run time, which only the dlsym layer sees" + library};
  return {"verbs", LayerState::kAttaches, (by_nccl ? "opened by NCCL" : "opened at run time") + library};
}

LayerVerdict profiler_layer(const Findings& found) {
  if (found.profiler_disabled) return {"profiler", LayerState::kNot, "ORRERY_PROFILER=0"};
  if (found.nccl.reach == NcclReach::kNone) return {"profiler", LayerState::kUnused, "nothing here mentions NCCL"};
  const bool too_old = !found.nccl.has_profiler || (found.nccl.version != 0 && found.nccl.version < kFirstWithProfiler);
  if (too_old) return {"profiler", LayerState::kNot, "NCCL has profiler plug-ins since 2.23"};
  if (found.profiler_plugin.empty())
    return {"profiler", found.nccl.reach == NcclReach::kHidden ? LayerState::kNot : LayerState::kUnused,
            "NCCL_PROFILER_PLUGIN is not set; STATIC_PLUGIN turns ours on"};
  if (found.profiler_is_ours)
    return {"profiler", LayerState::kAttaches, "NCCL_PROFILER_PLUGIN=" + found.profiler_plugin};
  if (found.libc == Libc::kMusl) return {"profiler", LayerState::kNot, "NCCL_PROFILER_PLUGIN names another plug-in"};
  return {"profiler", LayerState::kAttaches, "in front of " + found.profiler_plugin};
}

void advise(const Findings& found, Verdict& verdict) {
  if (!found.missing_libraries.empty()) {
    std::string text = "the program cannot start, these libraries are not found:";
    for (const std::string& name : found.missing_libraries) text += " " + name;
    verdict.advice.push_back(text);
  }
  if (!found.library.empty() && !found.preload_is_set)
    verdict.advice.push_back("to load the library: LD_PRELOAD=" + found.library);
  if (found.nccl.reach == NcclReach::kHidden && found.profiler_plugin.empty() && found.nccl.has_profiler)
    verdict.advice.push_back("to see the hidden NCCL: NCCL_PROFILER_PLUGIN=STATIC_PLUGIN");
  if (found.seccomp_mode == 2 && found.agent.state == AgentState::kDenied)
    verdict.advice.push_back(
        "a seccomp filter is in force; one that allows socket(AF_UNIX) and connect lets the library attach");
}

}  // namespace

std::string nccl_version_text(int version) {
  // Since 2.9 the major number counts 10000, before 1000.
  const int major = version >= 10000 ? 10000 : 1000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

Verdict decide(const Findings& found) {
  Verdict verdict;
  const std::string blocked = obstacle(found);
  if (!blocked.empty()) {
    verdict.summary = "does not attach: " + blocked;
    for (const char* name : {"nccl", "dlsym", "verbs", "sockets", "profiler"})
      verdict.layers.push_back({name, LayerState::kNot, blocked});
    return verdict;
  }
  verdict.layers = {nccl_layer(found),
                    dlsym_layer(found),
                    verbs_layer(found),
                    {"sockets", LayerState::kAttaches, "TCP connections that leave the host"},
                    profiler_layer(found)};
  advise(found, verdict);
  const bool answers = found.agent.state == AgentState::kAnswers;
  verdict.outcome = answers ? Outcome::kAttaches : Outcome::kNoAgent;
  verdict.summary = answers ? "attaches" : "loads, but stays unattached: " + found.agent.why;
  return verdict;
}

Verdict decide(const Findings& found, const Trial& trial) {
  Verdict verdict = decide(found);
  if (verdict.outcome == Outcome::kDoesNotLoad) return verdict;
  if (trial.processes.empty()) {
    verdict.outcome = Outcome::kDoesNotLoad;
    verdict.summary = "ran without attaching: no process made a communicator or a TCP connection that leaves the host";
    return verdict;
  }
  TrialProcess all;
  for (const TrialProcess& process : trial.processes) {
    all.layers |= process.layers;
    all.communicators += process.communicators;
    all.collectives += process.collectives;
    all.connections += process.connections;
    all.queue_pairs += process.queue_pairs;
  }
  const struct {
    const char* name;
    uint32_t bit;
    uint64_t count;
    const char* what;
  } seen[] = {{"nccl", ORRERY_LAYER_NCCL, all.collectives, "collectives"},
              {"dlsym", ORRERY_LAYER_DLSYM, 0, ""},
              {"verbs", ORRERY_LAYER_VERBS, all.queue_pairs, "queue pairs"},
              {"sockets", ORRERY_LAYER_SOCKETS, all.connections, "connections"},
              {"profiler", ORRERY_LAYER_PROFILER, 0, ""}};
  for (LayerVerdict& layer : verdict.layers)
    for (const auto& one : seen) {
      if (layer.name != one.name || (all.layers & one.bit) == 0) continue;
      if (one.what[0] == '\0') {
        layer.state = LayerState::kAttaches;
        layer.why = "active when the program ran";
      } else if (one.count > 0) {
        layer.state = LayerState::kAttaches;
        layer.why = std::to_string(one.count) + " " + one.what + " seen";
      } else if (layer.state == LayerState::kAttaches) {
        layer.state = LayerState::kUnused;
        layer.why += "; none seen in this run";
      }
    }
  verdict.outcome = Outcome::kAttaches;
  verdict.summary = "attached";
  return verdict;
}

}  // namespace orrery::preload_check
