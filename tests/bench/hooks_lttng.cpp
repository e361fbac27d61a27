// A child of the hook benchmark: the cost of the same event by an LTTng-UST tracepoint that a session records.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/hook_event_lttng.inc"

#include <unistd.h>

#include "common/abi/event_abi.h"
#include "tests/bench/hook_costs.h"
#include "tests/bench/hooks_children.h"

namespace orrery::bench {

bool is_lttng_built_in() {
  return true;
}

int measure_lttng() {
  const auto thread = static_cast<uint32_t>(gettid());
  if (!lttng_ust_tracepoint_enabled(orrery_bench, collective)) {
    std::fprintf(stderr, "hooks: the LTTng session does not record the tracepoint\n");
    return 1;
  }
  tell("lttng", measure(
                    500, 100,
                    [&] {
                      lttng_ust_tracepoint(orrery_bench, collective, thread, 1, 4000, ORRERY_OP_ALL_REDUCE, 0xffffffffu,
                                           1);
                    },
                    [] { usleep(4000); }));
  return 0;
}

}  // namespace orrery::bench
