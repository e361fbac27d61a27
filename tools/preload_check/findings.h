// What orrery-preload-check found out, for verdict.h and report.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::preload_check {

enum class Libc { kGlibc, kMusl, kNone, kUnknown };
enum class NcclReach {
  kNone,      // nothing mentions it
  kLinked,    // needs libnccl or librccl
  kExported,  // contains NCCL and exports it
  kOpened,    // names libnccl for dlopen
  kHidden,    // contains NCCL and exports nothing of it
};
enum class VerbsReach { kNone, kLinked, kOpened };
enum class AgentState { kAnswers, kRefuses, kSilent, kAbsent, kDenied, kStranger, kBadPath };

struct Nccl {
  NcclReach reach = NcclReach::kNone;
  std::string path;          // of the library, or of what contains or names it
  int version = 0;           // as ncclGetVersion says it; 0: unknown
  bool has_profiler = true;  // knows NCCL_PROFILER_PLUGIN
};

struct Agent {
  std::string socket;
  AgentState state = AgentState::kAbsent;
  uint32_t abi_version = 0;  // agreed on, when it answers
  std::string why;           // when it does not answer: in the system's or the agent's words
};

struct Findings {
  std::string program;  // the ELF file that the kernel starts
  std::string script;   // when that is the interpreter of a script
  Libc libc = Libc::kUnknown;
  bool privileged = false;      // set-uid, set-gid or with capabilities
  bool sanitized = false;       // needs the address sanitizer's library
  bool sanitizer_first = true;  // LD_PRELOAD begins with it
  std::vector<std::string> missing_libraries;

  std::string library;        // ours; empty: not found
  std::string library_fault;  // why it cannot be loaded into the program; empty: it can

  Nccl nccl;
  VerbsReach verbs = VerbsReach::kNone;
  std::string verbs_library;  // where libibverbs.so.1 is, or what NCCL_IBVERBS_LIB says; empty: nowhere
  std::vector<std::string> rdma_devices;

  bool disabled = false;           // ORRERY_DISABLE
  bool profiler_disabled = false;  // ORRERY_PROFILER=0
  std::string profiler_plugin;     // NCCL_PROFILER_PLUGIN
  bool profiler_is_ours = false;   // STATIC_PLUGIN or our path
  bool preload_is_set = false;     // LD_PRELOAD names the library
  int seccomp_mode = 0;            // of this process, which the program would inherit
  Agent agent;
};

// What was seen when the program ran (--run).
struct TrialProcess {
  int pid = 0;
  std::string name;
  uint32_t layers = 0;
  uint64_t communicators = 0, collectives = 0, connections = 0, queue_pairs = 0;
  uint64_t lost_events = 0;
};
struct Trial {
  bool ran = false;
  int exit_status = 0;  // 128 + signal when it was killed
  std::vector<TrialProcess> processes;
};

}  // namespace orrery::preload_check
