// What a study takes, before it is begun.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/result.h"
#include "tools/sim/model/traffic.h"
#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {

// What the kernel says can be had without swapping; 0 when it does not say.
uint64_t available_memory();

// Memory of one run of the largest of `schemes`: runs follow each other.
uint64_t memory_needed(const Traffic& traffic, std::span<const Scheme> schemes, const SchemeOptions& options);

// Errors: kExhausted, "needs 31 GiB, have 24: ..." with the cure.
Status check_memory(uint64_t needed, uint64_t limit);

}  // namespace orrery::sim
