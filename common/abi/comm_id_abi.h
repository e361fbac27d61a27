/* The identity of a communicator: equal on all its ranks without asking anyone, on every host and in every version of
 * this code.
 *
 * ncclCommInitRank and its kin: hash of the 128 bytes of the unique id (of all ids, in order, for
 * ncclCommInitRankScalable).
 * ncclCommSplit: hash of (parent, how often this rank had split or grown the parent before, colour).
 * ncclCommShrink, in which the excluded ranks take no part: hash of (parent, the set of excluded ranks, how often in a
 * row the parent had been shrunk by the same set before).
 * ncclCommGrow: hash of the first 8 bytes of the unique id that the new ranks are given and of the new number of ranks;
 * the old ranks predict these bytes (agent/preload/nccl_identity.h).
 * Never 0. */
#ifndef ORRERY_COMMON_ABI_COMM_ID_ABI_H
#define ORRERY_COMMON_ABI_COMM_ID_ABI_H

#include "common/abi/types_abi.h"

#define ORRERY_UNIQUE_ID_BYTES 128u

static inline orrery_u64 orrery_comm_id_round(orrery_u64 hash, orrery_u64 word) {
  hash ^= word;
  hash *= 0xff51afd7ed558ccdull;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53ull;
  hash ^= hash >> 29;
  return hash;
}

/* `bytes` is a multiple of 8; words are read as little-endian. */
static inline orrery_u64 orrery_comm_id(const orrery_u8* data, orrery_u64 bytes) {
  orrery_u64 hash = 0x6f72726572796964ull, word, i;
  for (i = 0; i + 8 <= bytes; i += 8) {
    int b;
    word = 0;
    for (b = 7; b >= 0; b--) word = (word << 8) | data[i + (orrery_u64)b];
    hash = orrery_comm_id_round(hash, word);
  }
  return hash ? hash : 1;
}

static inline orrery_u64 orrery_child_comm_id(orrery_u64 parent_id, orrery_u32 child_index, orrery_u32 colour) {
  orrery_u64 hash = orrery_comm_id_round(0x6368696c64ull, parent_id);
  hash = orrery_comm_id_round(hash, ((orrery_u64)child_index << 32) | colour);
  return hash ? hash : 1;
}

/* Of a set, whatever the order of its members: the sum of this over all of them. */
static inline orrery_u64 orrery_comm_id_of_excluded(orrery_u32 rank) {
  return orrery_comm_id_round(0x6578636c756465ull, rank);
}

static inline orrery_u64 orrery_shrunk_comm_id(orrery_u64 parent_id, orrery_u64 excluded, orrery_u32 repeats) {
  orrery_u64 hash = orrery_comm_id_round(0x736872756e6bull, parent_id);
  hash = orrery_comm_id_round(hash, excluded);
  hash = orrery_comm_id_round(hash, repeats);
  return hash ? hash : 1;
}

static inline orrery_u64 orrery_grown_comm_id(orrery_u64 id_head, orrery_u32 nranks) {
  orrery_u64 hash = orrery_comm_id_round(0x67726f776eull, id_head);
  hash = orrery_comm_id_round(hash, nranks);
  return hash ? hash : 1;
}

#endif
