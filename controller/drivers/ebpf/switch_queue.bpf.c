/* tc egress program of every port: what a packet meets as it reaches the port's queue, as in-band telemetry would
 * report it. tc egress programs run before the packet is enqueued, so the backlog read here is what is ahead of it. */
#include "controller/drivers/ebpf/switch_maps.bpf.h"

#include <bpf/bpf_core_read.h>

#define kActionUnspecified -1 /* TC_ACT_UNSPEC: go on as if there were no program */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, ORRERY_SWITCH_MAX_PORTS);
  __type(key, __u32);
  __type(value, struct orrery_switch_queue);
} switch_queues SEC(".maps");

/* The context of a tc program is the kernel's own sk_buff; the verifier translates the fields of __sk_buff only where
 * they are read directly. So reading it as kernel memory needs no bpf_cast_to_kern_ctx, which kernels before 6.2
 * lack. */
static __always_inline __u64 backlog_of(struct __sk_buff* skb) {
  return BPF_CORE_READ((struct sk_buff*)skb, dev, qdisc, qstats.backlog);
}

SEC("tc")
int switch_egress(struct __sk_buff* skb) {
  struct orrery_switch_config* config = get_config();
  __u32 ifindex = skb->ifindex;
  __u32* port = bpf_map_lookup_elem(&switch_port_by_if, &ifindex);
  if (!config || !port) return kActionUnspecified;
  struct orrery_switch_queue* queue = bpf_map_lookup_elem(&switch_queues, port);
  if (!queue) return kActionUnspecified;

  __u64 backlog = backlog_of(skb);
  __u32 epoch = ORRERY_READ_ONCE(config->queue_epoch), parity = epoch & 1;
  queue->packets++;
  queue->bytes += skb->len;
  queue->backlog_bytes_sum += backlog;
  if (queue->max_epoch[parity] != epoch || queue->backlog_bytes_max[parity] < backlog) {
    queue->backlog_bytes_max[parity] = backlog;
    queue->max_epoch[parity] = epoch;
  }
  return kActionUnspecified;
}
