// From what was found to which layers attach, and why the others do not. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/preload_check/findings.h"

namespace orrery::preload_check {

enum class LayerState {
  kAttaches,
  kNot,
  kUnused,  // would, but nothing that it could see was found
};

struct LayerVerdict {
  std::string name;  // nccl, dlsym, verbs, sockets, profiler
  LayerState state = LayerState::kNot;
  std::string why;
};

enum class Outcome {
  kAttaches = 0,     // exit status of the tool
  kDoesNotLoad = 1,  // nothing of the library takes effect in this program
  kNoAgent = 3,      // it loads, but no agent takes its events
};

struct Verdict {
  Outcome outcome = Outcome::kDoesNotLoad;
  std::string summary;
  std::vector<LayerVerdict> layers;
  std::vector<std::string> advice;
};

Verdict decide(const Findings& findings);
// The same after a run: what attached is what counts.
Verdict decide(const Findings& findings, const Trial& trial);

std::string nccl_version_text(int version);  // "2.18.6"

}  // namespace orrery::preload_check
