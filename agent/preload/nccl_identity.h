// The numbers by which NCCL itself tells communicators apart, predicted from what passes through its API.
//
// They are needed for ncclCommGrow alone. The new ranks of a grown communicator hold nothing but the unique id that one
// old rank asked for, and the other old ranks hold nothing but the parent. What both sides can know is the first word
// of that id, NCCL's "magic": a hash of the parent's magic and of how many children it had, which every old rank can
// compute. The parent's magic in turn is the first word of its own unique id, or, for a split or shrunk communicator,
// a hash along the way from there.
//
// Source: NCCL 2.29 and 2.30 (bootstrap.cc: bootstrapGetUniqueId; init.cc: ncclCommInitRankFunc, ncclCommGrow,
// ncclCommInitChildComm; bitops.h: eatHash). Another NCCL may do it otherwise: the rank that asks for the unique id
// sees whether the prediction holds.
#pragma once

#include <stdint.h>

#include "agent/preload/nccl_abi.h"

namespace orrery::preload {

struct NcclIdentity {
  uint64_t magic;  // 0: unknown, then neither is that of any descendant
  uint64_t hash;   // the communicator's name in NCCL's log and for its profiler
};

NcclIdentity nccl_identity_of(const ncclUniqueId& id);
// The first word of a unique id, by which a communicator is grown.
uint64_t nccl_magic_of(const ncclUniqueId& id);
// Of the `number`-th child (from 1) that ncclCommSplit makes; ncclCommShrink's all have number 0 and colour 0.
NcclIdentity nccl_identity_of_child(const NcclIdentity& parent, uint32_t number, int colour);
// Of the unique id for growing a communicator as its `number`-th child (from 1).
uint64_t nccl_grow_magic(const NcclIdentity& parent, uint32_t number);
NcclIdentity nccl_identity_of_grown(uint64_t grow_magic, int nranks);

}  // namespace orrery::preload
