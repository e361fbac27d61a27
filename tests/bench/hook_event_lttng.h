// The event of a preload hook as an LTTng-UST tracepoint. Included several times by LTTng's own headers.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER orrery_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/hook_event_lttng.h"

#if !defined(ORRERY_TESTS_BENCH_HOOK_EVENT_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define ORRERY_TESTS_BENCH_HOOK_EVENT_LTTNG_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    orrery_bench, collective,
    LTTNG_UST_TP_ARGS(uint32_t, thread, uint64_t, comm_id, uint64_t, bytes, uint32_t, op, uint32_t, peer, uint32_t,
                      group),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, thread, thread)
                            lttng_ust_field_integer(uint64_t, comm_id, comm_id)
                                lttng_ust_field_integer(uint64_t, bytes, bytes)
                                    lttng_ust_field_integer(uint32_t, op, op)
                                        lttng_ust_field_integer(uint32_t, peer, peer)
                                            lttng_ust_field_integer(uint32_t, group, group)
                                                lttng_ust_field_integer(uint8_t, datatype, 7)
                                                    lttng_ust_field_integer(uint8_t, reduction, 0)))

#endif

#include <lttng/tracepoint-event.h>
