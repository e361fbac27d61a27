// A fake libibverbs.so.1 (and the part of libmlx5 that opens and makes things), for programs under test: devices of
// software whose queue pairs lead to each other within the process, with real completions, and failures that a test
// orders. Versioned like the real one, with IBVERBS_1.0 bodies beside the 1.1 ones that only count their calls.
//
// Devices, in this order: "fake0" (Ethernet), "mlx5_0" (Ethernet, a second provider with functions of its own),
// "ib0" (InfiniBand), "mlx5_bond_0" (Ethernet, bonded). GIDs of each: 0 RoCE v1, 1 RoCE v2 10.9.0.1, 2 RoCE v2 an IPv6
// address, 3 RoCE v2 on the bond "bond7". Their directory in sysfs is below $FAKE_IBVERBS_SYSFS.
//
// In the error state requests are taken and completed as flushed. $FAKE_IBVERBS_PROVIDER: a library whose functions
// stand before these in the contexts' tables (fake_provider.cpp).
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#define FAKE_IBVERBS_API extern "C" __attribute__((visibility("default")))

struct FakeVerbsOrders {
  int modify_error;           // what ibv_modify_qp to RTR answers, 0: success
  int modify_failures;        // to how many calls
  bool modify_only_labelled;  // only to calls with a flow label
  int destroy_error;          // of ibv_destroy_qp, ibv_destroy_cq and ibv_close_device, once
  int sqd_av_error;           // what ibv_modify_qp within SQD with an address answers, 0: success
  int sqd_av_failures;        // to how many calls
  uint64_t refused_wr_id;     // a request of this id is refused with EINVAL (unless it is empty); 0: none
  void (*after_post)();       // called when a post has taken what it takes, before it returns; null: nothing
};

struct FakeVerbsSeen {
  ibv_qp_attr modify;  // of the last ibv_modify_qp
  int modify_mask;
  int modify_calls;
  int old_calls;  // of the bodies of IBVERBS_1.0
};

FAKE_IBVERBS_API void fake_ibverbs_order(const FakeVerbsOrders* orders);
FAKE_IBVERBS_API void fake_ibverbs_seen(FakeVerbsSeen* seen);
// The queue pair takes `requests` more send requests; -1: any number.
FAKE_IBVERBS_API void fake_ibverbs_set_room(ibv_qp* qp, int requests);
// Posts to the queue pair, and polls of its completion queues, do nothing from now on, successfully; a poll finds the
// completion of a send. For measuring.
FAKE_IBVERBS_API void fake_ibverbs_make_hollow(ibv_qp* qp);
// The next device whose context has no post_send (a provider with a table that is not understood).
FAKE_IBVERBS_API void fake_ibverbs_break_table();
