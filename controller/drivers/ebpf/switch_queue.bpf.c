/* tc egress program of every port: what a packet meets as it reaches the port's queue, as in-band telemetry would
 * report it. tc egress programs run before the packet is enqueued, so the backlog read here is what is ahead of it
 * (kernel 6.2+ for bpf_cast_to_kern_ctx). */
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

extern void* bpf_cast_to_kern_ctx(void*) __ksym;

SEC("tc")
int switch_egress(struct __sk_buff* skb) {
  struct orrery_switch_config* config = get_config();
  __u32 ifindex = skb->ifindex;
  __u32* port = bpf_map_lookup_elem(&switch_port_by_if, &ifindex);
  if (!config || !port) return kActionUnspecified;
  struct orrery_switch_queue* queue = bpf_map_lookup_elem(&switch_queues, port);
  if (!queue) return kActionUnspecified;

  struct sk_buff* kernel_skb = bpf_cast_to_kern_ctx(skb);
  __u64 backlog = BPF_CORE_READ(kernel_skb, dev, qdisc, qstats.backlog);
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
