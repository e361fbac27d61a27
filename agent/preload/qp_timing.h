// Release and pace of queue pairs by deferral, and when their live path is changed: what the hooks of verbs call, and
// what the plan means for a queue pair's sends.
//
// A send whose time has not come is copied and answered with success; it is posted when its time has come, by a later
// post to the queue pair, a later poll of any completion queue or the release thread, whichever comes first. No thread
// of the program sleeps here.
#pragma once

#include "agent/preload/qp_table.h"
#include "common/shm/plan_reader.h"

namespace orrery::preload {

// From the environment, once, before anything else here.
void read_timing_settings();

// Whether sends of a new queue pair can be copied at all; of those that can, not all are (qp_timing.cpp).
bool can_be_held(const Qp& qp, const ibv_qp& made);

// In the post_send hook, instead of the provider's post, where Qp::timed says so. The answer, *bad_wr and
// errno are those of the provider, or success for what is held. `burst`: the pause before was longer than the flowlet
// gap. Counts what it posts. Attached or not (what is held must go), but never in a forked child before it attaches.
int timed_post_send(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool burst);

// How many queue pairs hold sends.
extern uint32_t held_qps;

// Before the provider's poll, while held_qps != 0, and in the release thread: posts what is due, of any queue pair.
// Returns when to look again; what the provider had no room for does not count.
uint64_t release_due_sends();

// Everything that is held goes now.
void drain_all_held_sends();

// The plan's answer for this queue pair has changed; null: there is none any more. Sets qp.timed.
void timing_plan_changed(Qp& qp, const shm::PlanAnswer* answer);

// The queue pair is about to leave the state it sends in (ERR, SQD by the program; `for_good`: RESET or destroy), or
// takes a request that could overtake what is held. That is posted now, in order, so that the program sees the
// completions it expects; what the provider has no room for is dropped for good, as a RESET would, or follows when
// there is room. False when there was not.
bool drain_held_sends(Qp& qp, bool for_good);

// The queue pair is gone, unnoticed: nothing of it may be posted any more.
void forget_held_sends(Qp& qp);

// The program has a provider leave out its locks: nobody but the thread that the program means may post.
void note_thread_domain();
// The same, where the environment says so. When a device has been opened, as providers look then.
void look_for_single_threaded_providers();

// In a forked child.
void forget_held_sends_of_parent();

}  // namespace orrery::preload
