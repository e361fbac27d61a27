/* The event of a preload hook, made by an eBPF uprobe instead: the other way to see a call in an unmodified program.
 * hooks_uprobe.cpp attaches it to a function of the benchmark and drains the ring. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "common/abi/event_abi.h"

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 22);
} events SEC(".maps");

__u64 lost = 0;

SEC("uprobe")
int hook_event(struct pt_regs* ctx) {
  struct orrery_event* event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
  if (!event) {
    __sync_fetch_and_add(&lost, 1);
    return 0;
  }
  event->time_ns = bpf_ktime_get_ns();
  event->type = ORRERY_EVENT_COLLECTIVE;
  event->thread = (__u32)bpf_get_current_pid_tgid();
  event->collective.comm_id = PT_REGS_PARM1(ctx);
  event->collective.bytes = PT_REGS_PARM2(ctx);
  event->collective.op = (__u32)PT_REGS_PARM3(ctx);
  event->collective.peer = (__u32)PT_REGS_PARM4(ctx);
  event->collective.group = (__u32)PT_REGS_PARM5(ctx);
  event->collective.datatype = 7;
  event->collective.reduction = 0;
  event->collective.flags = 0;
  /* The reader looks by itself: a wake-up per event would be the larger part of the cost. */
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
