/* Fixed-width names usable both in user space and in BPF programs (where vmlinux.h already defines the __uN types). */
#ifndef ORRERY_COMMON_ABI_TYPES_ABI_H
#define ORRERY_COMMON_ABI_TYPES_ABI_H

#ifdef __bpf__
typedef __u8 orrery_u8;
typedef __u16 orrery_u16;
typedef __u32 orrery_u32;
typedef __u64 orrery_u64;
#else
#include <stdint.h>
typedef uint8_t orrery_u8;
typedef uint16_t orrery_u16;
typedef uint32_t orrery_u32;
typedef uint64_t orrery_u64;
#endif

#ifdef __cplusplus
#define ORRERY_ABI_ASSERT(condition, text) static_assert(condition, text)
#else
#define ORRERY_ABI_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#endif
