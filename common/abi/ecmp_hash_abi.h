/* The ECMP hash of orrery-switch, and the way a hash becomes a member of an equal-cost group.
 *
 * One definition for three users: the switch's BPF program, the fabric model that predicts where a flow goes, and the
 * preload that picks the source port whose hash takes a wanted path. All values are in host byte order; addresses are
 * IPv4.
 *
 * Hash: the five-tuple is folded into 32 bits with multiply-xorshift rounds (the finalizer of MurmurHash3: constants
 * 0x85ebca6b and 0xc2b2ae35), seeded per switch, so that two switches with different seeds decide independently.
 *
 * Group: members are numbered in the order of the switch's ports in the topology file. A flow whose member is down is
 * hashed again over the members that are up; all other flows stay where they are (resilient hashing). */
#ifndef ORRERY_COMMON_ABI_ECMP_HASH_ABI_H
#define ORRERY_COMMON_ABI_ECMP_HASH_ABI_H

#include "common/abi/types_abi.h"

#define ORRERY_ECMP_MAX_GROUP 64u
#define ORRERY_ECMP_NO_MEMBER 0xffffffffu

/* Values of orrery_plan_hop.hash_function and of `hash.function` in a topology file. */
enum orrery_hash_function { ORRERY_HASH_NONE = 0, ORRERY_HASH_MURMUR_5TUPLE = 1 };

static inline orrery_u32 orrery_hash_round(orrery_u32 hash, orrery_u32 word) {
  hash ^= word;
  hash ^= hash >> 16;
  hash *= 0x85ebca6bu;
  hash ^= hash >> 13;
  hash *= 0xc2b2ae35u;
  hash ^= hash >> 16;
  return hash;
}

static inline orrery_u32 orrery_ecmp_hash(orrery_u32 seed, orrery_u32 src_address, orrery_u32 dst_address,
                                          orrery_u16 src_port, orrery_u16 dst_port, orrery_u8 protocol) {
  orrery_u32 hash = orrery_hash_round(seed ^ protocol, src_address);
  hash = orrery_hash_round(hash, dst_address);
  return orrery_hash_round(hash, ((orrery_u32)src_port << 16) | dst_port);
}

/* Member of a group of `size` (1..ORRERY_ECMP_MAX_GROUP) for `hash`, every member being up. */
static inline orrery_u32 orrery_ecmp_member(orrery_u32 hash, orrery_u32 size) {
  return (orrery_u32)(((orrery_u64)hash * size) >> 32);
}

static inline orrery_u32 orrery_count_bits(orrery_u64 bits) {
  bits -= (bits >> 1) & 0x5555555555555555ull;
  bits = (bits & 0x3333333333333333ull) + ((bits >> 2) & 0x3333333333333333ull);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0full;
  return (orrery_u32)((bits * 0x0101010101010101ull) >> 56);
}

/* Position of the n-th bit that is set (n from 0). Precondition: n < orrery_count_bits(bits). Neither loops nor
 * branches, for the sake of the BPF verifier: it follows every combination of branches. */
static inline orrery_u32 orrery_nth_bit(orrery_u64 bits, orrery_u32 n) {
  orrery_u32 position = 0, below, past;
#define ORRERY_HALVE(width)                                                \
  below = orrery_count_bits((bits >> position) & ((1ull << (width)) - 1)); \
  past = (orrery_u32)(((orrery_u64)below - 1 - n) >> 63); /* n >= below */ \
  n -= below & (0u - past);                                                \
  position += (width) & (0u - past);
  ORRERY_HALVE(32)
  ORRERY_HALVE(16)
  ORRERY_HALVE(8)
  ORRERY_HALVE(4)
  ORRERY_HALVE(2)
  ORRERY_HALVE(1)
#undef ORRERY_HALVE
  return position;
}

/* The same when only the members whose bit is set in `up` can be used. ORRERY_ECMP_NO_MEMBER when none can. */
static inline orrery_u32 orrery_ecmp_live_member(orrery_u32 hash, orrery_u32 size, orrery_u64 up) {
  orrery_u32 member = orrery_ecmp_member(hash, size), live;
  if (up & (1ull << (member & 63u))) return member;
  if (size < ORRERY_ECMP_MAX_GROUP) up &= (1ull << (size & 63u)) - 1;
  live = orrery_count_bits(up);
  if (live == 0) return ORRERY_ECMP_NO_MEMBER;
  return orrery_nth_bit(up, orrery_ecmp_member(orrery_hash_round(hash, 0x9e3779b9u), live));
}

#endif
