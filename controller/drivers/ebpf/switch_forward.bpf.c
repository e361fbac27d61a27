/* The data plane of orrery-switch: one tc ingress program for every port.
 *
 * A packet leaves by the port that the first matching plan rule names (while the rules' lease lasts), else by the
 * rule's backup port, else by the member of its destination's equal-cost group that the switch's hash picks. The port
 * it came in by never counts as usable: only a neighbour that diverted the packet sends it where its group points back.
 * When no member is usable, a neighbour that reaches the destination another way gets the packet, once
 * (ORRERY_SWITCH_MAC_DIVERTED).
 *
 * Nothing is passed to the kernel's own stack: what cannot be forwarded is counted and dropped. */
#include "controller/drivers/ebpf/switch_maps.bpf.h"

#include <bpf/bpf_endian.h>

#include "common/abi/ecmp_hash_abi.h"

#define kEtherTypeIpv4 0x0800
#define kFragmentBits 0x3fff /* more-fragments flag and offset */
#define kActionDrop 2        /* TC_ACT_SHOT */
#define kNoMember ORRERY_ECMP_NO_MEMBER

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, ORRERY_SWITCH_MAX_PORTS);
  __type(key, __u32);
  __type(value, struct orrery_switch_port);
} switch_ports SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, ORRERY_SWITCH_MAX_PORTS);
  __type(key, __u32);
  __type(value, struct orrery_switch_port_counters);
} switch_counters SEC(".maps");

/* IPv4 destination address, network order -> group index. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ORRERY_SWITCH_MAX_ROUTES);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, __u32);
  __type(value, __u32);
} switch_routes SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, ORRERY_SWITCH_MAX_GROUPS);
  __type(key, __u32);
  __type(value, struct orrery_switch_group);
} switch_groups SEC(".maps");

/* Both rule sets: the old one stays until the new one is in force. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 2 * ORRERY_SWITCH_MAX_RULES);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct orrery_switch_tuple);
  __type(value, struct orrery_switch_rule);
} switch_rules SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 2 * ORRERY_SWITCH_MAX_RULES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct orrery_switch_rule_counters);
} rule_counters SEC(".maps");

struct frame {
  struct ethhdr* eth;
  struct iphdr* ip;
  struct orrery_switch_tuple tuple;
};

enum verdict { kForward, kUnsupported, kMalformed };

/* Read by these alone: the verifier wants the offsets of context fields as constants, the compiler would rather merge
 * them. */
#define ORRERY_READ_CONTEXT(skb, field)                                                                                \
  ({                                                                                                                   \
    void* value;                                                                                                       \
    asm volatile("%0 = *(u32 *)(%1 + %2)" : "=r"(value) : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, field))); \
    value;                                                                                                             \
  })

/* Makes the headers directly readable: at most `bytes`, less when the frame is shorter. */
static __always_inline int pull_headers(struct __sk_buff* skb, __u32 bytes) {
  if (ORRERY_READ_CONTEXT(skb, data) + bytes <= ORRERY_READ_CONTEXT(skb, data_end)) return 0;
  return bpf_skb_pull_data(skb, skb->len < bytes ? skb->len : bytes);
}

static __always_inline int read_ports(void* data_end, struct iphdr* ip, struct orrery_switch_tuple* tuple) {
  __u16* ports = (void*)ip + ip->ihl * 4;
  if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP) return 0;
  if (ip->frag_off & bpf_htons(kFragmentBits)) return 0;
  if (ip->ihl * 4 + 4 > bpf_ntohs(ip->tot_len) || (void*)(ports + 2) > data_end) return -1;
  tuple->src_port = ports[0];
  tuple->dst_port = ports[1];
  return 0;
}

static __always_inline enum verdict parse(struct __sk_buff* skb, struct frame* frame) {
  const __u32 shortest = sizeof(struct ethhdr) + sizeof(struct iphdr);
  const __u32 longest = sizeof(struct ethhdr) + 60 + 4;
  if (skb->vlan_present || skb->protocol != bpf_htons(kEtherTypeIpv4)) return kUnsupported;
  if (skb->len < shortest) return kMalformed;
  if (pull_headers(skb, shortest + 4) != 0) return kMalformed;

  void *data = ORRERY_READ_CONTEXT(skb, data), *data_end = ORRERY_READ_CONTEXT(skb, data_end);
  struct iphdr* ip = data + sizeof(struct ethhdr);
  if ((void*)(ip + 1) > data_end) return kMalformed;
  if (ip->ihl > 5) {
    if (pull_headers(skb, longest) != 0) return kMalformed;
    data = ORRERY_READ_CONTEXT(skb, data);
    data_end = ORRERY_READ_CONTEXT(skb, data_end);
    ip = data + sizeof(struct ethhdr);
    if ((void*)(ip + 1) > data_end) return kMalformed;
  }
  __u32 total = bpf_ntohs(ip->tot_len);
  if (ip->version != 4 || ip->ihl < 5 || total < ip->ihl * 4u || total > skb->len - sizeof(struct ethhdr))
    return kMalformed;

  frame->eth = data;
  frame->ip = ip;
  frame->tuple.src_address = ip->saddr;
  frame->tuple.dst_address = ip->daddr;
  frame->tuple.protocol = ip->protocol;
  return read_ports(data_end, ip, &frame->tuple) == 0 ? kForward : kMalformed;
}

static __always_inline struct orrery_switch_rule* find_rule(struct orrery_switch_config* config,
                                                            const struct orrery_switch_tuple* tuple) {
  __u32 active = ORRERY_READ_ONCE(config->active_set) & 1;
  struct orrery_switch_rule_set* set = &config->sets[active];
  for (__u32 i = 0; i < ORRERY_SWITCH_MAX_MASKS; i++) {
    if (i >= set->mask_count) break;
    const struct orrery_switch_tuple* mask = &set->masks[i];
    struct orrery_switch_tuple key = {
        .src_address = tuple->src_address & mask->src_address,
        .dst_address = tuple->dst_address & mask->dst_address,
        .src_port = tuple->src_port & mask->src_port,
        .dst_port = tuple->dst_port & mask->dst_port,
        .protocol = tuple->protocol & mask->protocol,
        .mask_index = i,
        .set = active,
    };
    struct orrery_switch_rule* rule = bpf_map_lookup_elem(&switch_rules, &key);
    if (rule) return rule;
  }
  return 0;
}

static __always_inline int is_up(__u64 usable, __u32 port) {
  return port < ORRERY_SWITCH_MAX_PORTS && (usable >> port & 1);
}

/* Port of the rule that can be used, or ORRERY_SWITCH_NO_PORT. Counts the hit. */
static __always_inline __u32 apply_rule(const struct orrery_switch_rule* rule, __u64 usable, __u32 bytes) {
  __u32 slot = rule->counter_slot;
  struct orrery_switch_rule_counters* counters = bpf_map_lookup_elem(&rule_counters, &slot);
  if (!counters) return ORRERY_SWITCH_NO_PORT;
  __sync_fetch_and_add(&counters->packets, 1);
  __sync_fetch_and_add(&counters->bytes, bytes);
  if (is_up(usable, rule->egress_port)) return rule->egress_port;
  if (is_up(usable, rule->backup_port)) {
    __sync_fetch_and_add(&counters->backup_packets, 1);
    return rule->backup_port;
  }
  __sync_fetch_and_add(&counters->ecmp_packets, 1);
  return ORRERY_SWITCH_NO_PORT;
}

/* The slow half of ECMP, when the hash's first choice cannot be used. Verified apart, once. */
__noinline __u32 pick_live_member(struct orrery_switch_group* group, __u32 hash, __u64 usable) {
  __u64 up = 0;
  if (!group) return ORRERY_SWITCH_NO_PORT;
  for (__u32 i = 0; i < ORRERY_SWITCH_MAX_PORTS; i++) up |= (usable >> (group->members[i] & 63) & 1) << i;
  __u32 member = orrery_ecmp_live_member(hash, group->size, up);
  return member == kNoMember ? ORRERY_SWITCH_NO_PORT : group->members[member & 63];
}

/* One of the ports whose bit is set, chosen by the hash. */
__noinline __u32 pick_detour(__u32 hash, __u64 ports) {
  return orrery_ecmp_live_member(hash, ORRERY_SWITCH_MAX_PORTS, ports);
}

static __always_inline __u32 pick_by_hash(struct orrery_switch_config* config, struct orrery_switch_group* group,
                                          const struct orrery_switch_tuple* tuple, __u64 usable, __u32* hash) {
  if (group->size == 0) return ORRERY_SWITCH_NO_PORT;
  *hash = orrery_ecmp_hash(config->hash_seed, bpf_ntohl(tuple->src_address), bpf_ntohl(tuple->dst_address),
                           bpf_ntohs(tuple->src_port), bpf_ntohs(tuple->dst_port), tuple->protocol);
  __u32 port = group->members[orrery_ecmp_member(*hash, group->size) & 63];
  return is_up(usable, port) ? port : pick_live_member(group, *hash, usable);
}

static __always_inline void decrement_ttl(struct iphdr* ip) {
  __u32 sum = (__u32)ip->check + bpf_htons(0x0100);
  ip->check = (__u16)(sum + (sum >= 0xffff));
  ip->ttl--;
}

static __always_inline int was_diverted(const struct frame* frame, __u32 in_port) {
  struct orrery_switch_port* in = bpf_map_lookup_elem(&switch_ports, &in_port);
  return in && ((frame->eth->h_source[0] ^ in->peer_mac[0]) & ORRERY_SWITCH_MAC_DIVERTED);
}

struct choice {
  __u32 port;
  __u32 diverted;
};

static __always_inline struct choice choose(struct __sk_buff* skb, struct orrery_switch_config* config,
                                            struct orrery_switch_port_counters* counters, struct frame* frame,
                                            __u32 in_port) {
  struct choice choice = {.port = ORRERY_SWITCH_NO_PORT};
  __u64 up = ORRERY_READ_ONCE(config->ports_up), usable = up & ~(1ull << (in_port & 63));
  if (config->sets[0].mask_count | config->sets[1].mask_count) {
    struct orrery_switch_rule* rule = 0;
    if (bpf_ktime_get_ns() < ORRERY_READ_ONCE(config->rules_valid_until_ns)) rule = find_rule(config, &frame->tuple);
    if (rule) {
      counters->rule_hits++;
      choice.port = apply_rule(rule, usable, skb->len);
      if (choice.port != ORRERY_SWITCH_NO_PORT) return choice;
    }
  }
  __u32* index = bpf_map_lookup_elem(&switch_routes, &frame->tuple.dst_address);
  if (!index) return choice;
  struct orrery_switch_group* group = bpf_map_lookup_elem(&switch_groups, index);
  if (!group) return choice;
  __u32 hash = 0;
  choice.port = pick_by_hash(config, group, &frame->tuple, usable, &hash);
  if (choice.port != ORRERY_SWITCH_NO_PORT || was_diverted(frame, in_port)) return choice;
  __u64 detours = group->detour_ports & usable;
  if (!detours) detours = group->detour_ports & up;
  if (!detours) return choice;
  choice.port = pick_detour(hash, detours);
  choice.diverted = 1;
  return choice;
}

SEC("tc")
int switch_ingress(struct __sk_buff* skb) {
  struct orrery_switch_config* config = get_config();
  __u32 ifindex = skb->ifindex;
  __u32* in_port = bpf_map_lookup_elem(&switch_port_by_if, &ifindex);
  if (!config || !in_port) return kActionDrop;
  struct orrery_switch_port_counters* counters = bpf_map_lookup_elem(&switch_counters, in_port);
  if (!counters) return kActionDrop;
  counters->rx_packets++;
  counters->rx_bytes += skb->len;

  struct frame frame = {};
  enum verdict verdict = parse(skb, &frame);
  if (verdict != kForward) {
    if (verdict == kUnsupported)
      counters->unsupported++;
    else
      counters->malformed++;
    return kActionDrop;
  }
  if (frame.ip->ttl <= 1) {
    counters->ttl_expired++;
    return kActionDrop;
  }
  struct choice choice = choose(skb, config, counters, &frame, *in_port);
  struct orrery_switch_port* out = bpf_map_lookup_elem(&switch_ports, &choice.port);
  if (!out || out->ifindex == 0) {
    counters->no_route++;
    return kActionDrop;
  }
  decrement_ttl(frame.ip);
  __builtin_memcpy(frame.eth->h_dest, out->peer_mac, 6);
  __builtin_memcpy(frame.eth->h_source, out->own_mac, 6);
  if (choice.diverted) {
    frame.eth->h_source[0] ^= ORRERY_SWITCH_MAC_DIVERTED;
    counters->diverted++;
  }
  return bpf_redirect(out->ifindex, 0);
}
