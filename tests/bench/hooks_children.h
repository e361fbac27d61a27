// What the hook benchmark does in children of its own: each prints lines "NAME MEDIAN P999" in nanoseconds.
#pragma once

namespace orrery::bench {

inline constexpr int kSkipped = 77;
inline constexpr int kNcclBatch = 500, kNcclBatches = 100;  // twice: together, and one by one

int measure_nccl();
int measure_send();
int measure_memory();  // prints the resident bytes of an attached process that has made one call
int measure_uprobe();
int measure_lttng();
bool is_lttng_built_in();

}  // namespace orrery::bench
