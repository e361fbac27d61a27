/* The maps of orrery-switch's two BPF objects. The control process creates them with the forwarding object and hands
 * them to the queue object, which declares the ones it shares by the same names. Layouts: common/abi/switch_abi.h. */
#ifndef ORRERY_CONTROLLER_DRIVERS_EBPF_SWITCH_MAPS_BPF_H
#define ORRERY_CONTROLLER_DRIVERS_EBPF_SWITCH_MAPS_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "common/abi/switch_abi.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct orrery_switch_config);
} switch_config SEC(".maps");

/* Interface index -> port index. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ORRERY_SWITCH_MAX_PORTS * 2);
  __type(key, __u32);
  __type(value, __u32);
} switch_port_by_if SEC(".maps");

static __always_inline struct orrery_switch_config* get_config(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&switch_config, &zero);
}

#define ORRERY_READ_ONCE(x) (*(volatile typeof(x)*)&(x))

#endif
