/* What the host's interface sends and receives, per flow, and the DSCP of planned flows. Attached by traffic_probe.cpp:
 * two tc programs on the interface, one raw tracepoint for retransmissions. Nothing here ever drops, redirects or
 * delays a packet. */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "common/abi/host_flow_abi.h"

#define ETH_P_IP 0x0800
#define TC_ACT_UNSPEC -1 /* let the next filter decide */
#define ECN_BITS 3

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, ORRERY_HOST_FLOW_MAX);
  __type(key, struct orrery_host_flow_key);
  __type(value, struct orrery_host_flow);
} flows SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ORRERY_HOST_MARK_MAX);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct orrery_host_mark_key);
  __type(value, struct orrery_host_mark);
} marks SEC(".maps");

struct headers {
  __u32 src, dst;
  __u16 src_port, dst_port;
  __u8 protocol, tos;
};

/* False for what is not an unfragmented IPv4 packet of TCP or UDP with its ports in the linear part. */
static __always_inline bool parse(struct __sk_buff* skb, struct headers* out) {
  void *data = (void*)(long)skb->data, *end = (void*)(long)skb->data_end;
  struct ethhdr* eth = data;
  struct iphdr* ip = (void*)(eth + 1);
  if ((void*)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP)) return false;
  if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP) return false;
  if (ip->ihl < 5 || (ip->frag_off & bpf_htons(0x3fff)) != 0) return false;
  __u16* ports = (void*)ip + ip->ihl * 4;
  if ((void*)(ports + 2) > end) return false;
  out->src = ip->saddr;
  out->dst = ip->daddr;
  out->src_port = ports[0];
  out->dst_port = ports[1];
  out->protocol = ip->protocol;
  out->tos = ip->tos;
  return true;
}

static __always_inline struct orrery_host_flow* flow_of(const struct orrery_host_flow_key* key) {
  struct orrery_host_flow* flow = bpf_map_lookup_elem(&flows, key);
  if (flow) return flow;
  struct orrery_host_flow fresh = {};
  bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST);
  return bpf_map_lookup_elem(&flows, key);
}

static __always_inline void mark(struct __sk_buff* skb, const struct headers* packet) {
  struct orrery_host_mark_key key = {
      .local_address = packet->src, .remote_address = packet->dst, .protocol = packet->protocol};
  struct orrery_host_mark* wanted = bpf_map_lookup_elem(&marks, &key);
  if (!wanted || wanted->valid_until_ns <= bpf_ktime_get_ns()) return;
  __u8 tos = (__u8)(wanted->dscp << 2) | (packet->tos & ECN_BITS);
  if (tos == packet->tos) return;
  const __u32 ip = sizeof(struct ethhdr);
  bpf_l3_csum_replace(skb, ip + __builtin_offsetof(struct iphdr, check), bpf_htons(packet->tos), bpf_htons(tos), 2);
  bpf_skb_store_bytes(skb, ip + __builtin_offsetof(struct iphdr, tos), &tos, sizeof(tos), 0);
}

SEC("tc")
int orrery_host_egress(struct __sk_buff* skb) {
  struct headers packet;
  if (!parse(skb, &packet)) return TC_ACT_UNSPEC;
  struct orrery_host_flow_key key = {.local_address = packet.src,
                                     .remote_address = packet.dst,
                                     .local_port = packet.src_port,
                                     .remote_port = packet.dst_port,
                                     .protocol = packet.protocol};
  struct orrery_host_flow* flow = flow_of(&key);
  if (flow) {
    __sync_fetch_and_add(&flow->tx_bytes, skb->len);
    __sync_fetch_and_add(&flow->tx_packets, 1);
  }
  mark(skb, &packet);
  return TC_ACT_UNSPEC;
}

SEC("tc")
int orrery_host_ingress(struct __sk_buff* skb) {
  struct headers packet;
  if (!parse(skb, &packet)) return TC_ACT_UNSPEC;
  struct orrery_host_flow_key key = {.local_address = packet.dst,
                                     .remote_address = packet.src,
                                     .local_port = packet.dst_port,
                                     .remote_port = packet.src_port,
                                     .protocol = packet.protocol};
  struct orrery_host_flow* flow = flow_of(&key);
  if (flow) {
    __sync_fetch_and_add(&flow->rx_bytes, skb->len);
    __sync_fetch_and_add(&flow->rx_packets, 1);
  }
  return TC_ACT_UNSPEC;
}

/* The tracepoint sees every network namespace of the machine; only flows that this interface has carried are counted.
 */
SEC("raw_tp/tcp_retransmit_skb")
int orrery_host_retransmit(struct bpf_raw_tracepoint_args* ctx) {
  struct sock* sk = (struct sock*)ctx->args[0];
  struct orrery_host_flow_key key = {.local_address = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr),
                                     .remote_address = BPF_CORE_READ(sk, __sk_common.skc_daddr),
                                     .local_port = bpf_htons(BPF_CORE_READ(sk, __sk_common.skc_num)),
                                     .remote_port = BPF_CORE_READ(sk, __sk_common.skc_dport),
                                     .protocol = IPPROTO_TCP};
  struct orrery_host_flow* flow = bpf_map_lookup_elem(&flows, &key);
  if (flow) __sync_fetch_and_add(&flow->retransmits, 1);
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
