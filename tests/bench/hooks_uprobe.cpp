// A child of the hook benchmark: the cost of the same event by an eBPF uprobe. Needs root.
#include <bpf/libbpf.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "bpf/hook_event.skel.h"
#include "common/abi/event_abi.h"
#include "tests/bench/hook_costs.h"
#include "tests/bench/hooks_children.h"

extern "C" __attribute__((noinline, visibility("default"))) int orrery_bench_hooked(uint64_t comm_id, uint64_t bytes,
                                                                                    uint32_t op, uint32_t peer,
                                                                                    uint32_t group) {
  __asm__ volatile("" ::"r"(comm_id), "r"(bytes), "r"(op), "r"(peer), "r"(group) : "memory");
  return 0;
}

namespace orrery::bench {
namespace {

int count_event(void* count, void*, size_t) {
  ++*static_cast<std::atomic<uint64_t>*>(count);
  return 0;
}

int no_uprobe(const char* what) {
  std::fprintf(stderr, "hooks: no eBPF uprobe to compare with: %s (it needs root)\n", what);
  return kSkipped;
}

Cost measure_call() {
  return measure(
      500, 40, [] { orrery_bench_hooked(1, 4000, ORRERY_OP_ALL_REDUCE, 0xffffffffu, 1); }, [] { usleep(4000); });
}

}  // namespace

int measure_uprobe() {
  libbpf_set_print(nullptr);
  tell("uprobe_bare", measure_call());
  hook_event_bpf* program = hook_event_bpf__open_and_load();
  if (program == nullptr) return no_uprobe("its program does not load");
  LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = "orrery_bench_hooked");
  bpf_link* link = bpf_program__attach_uprobe_opts(program->progs.hook_event, getpid(), "/proc/self/exe", 0, &options);
  if (link == nullptr) return no_uprobe("it cannot be attached");
  std::atomic<uint64_t> seen = 0;
  std::atomic<bool> stop = false;
  ring_buffer* ring = ring_buffer__new(bpf_map__fd(program->maps.events), count_event, &seen, nullptr);
  if (ring == nullptr) return no_uprobe("its ring cannot be read");
  std::thread reader([&] {
    while (!stop) {
      ring_buffer__consume(ring);
      usleep(1000);
    }
  });
  tell("uprobe", measure_call());
  usleep(10'000);
  stop = true;
  reader.join();
  ring_buffer__consume(ring);
  std::printf("uprobe_events %llu\n", static_cast<unsigned long long>(seen + program->bss->lost));
  ring_buffer__free(ring);
  bpf_link__destroy(link);
  hook_event_bpf__destroy(program);
  return 0;
}

}  // namespace orrery::bench
