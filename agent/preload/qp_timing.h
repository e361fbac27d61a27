// Release and pace of queue pairs by deferral, and the live change of their path: where the data path and the control
// path of verbs call them.
//
// Nothing here sleeps. Times are monotonic nanoseconds of process.h's clock, as verbs_clock.h reads them.
#pragma once

#include "agent/preload/qp_table.h"
#include "common/shm/plan_reader.h"

namespace orrery::preload {

// In the post_send hook, instead of the provider's post, for a queue pair that is `timed`. The answer, *bad_wr and
// errno are those of the provider, or success for what is held. `burst`: the pause before was longer than the flowlet
// gap. Counts what it posts with count_posted(). Called on the program's thread; attached or not (what is held must
// go).
int timed_post_send(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, uint64_t now, bool burst);

// In the poll_cq hook, before the provider's poll, while any queue pair holds sends (held_qps != 0): posts those of
// this completion queue's context whose time has come.
extern uint32_t held_qps;
void release_due_sends(const ibv_cq* cq, uint64_t now);

// The plan's answer for this queue pair has changed; null: there is none any more. Sets qp.timed, and moves the queue
// pair to the path the plan now wants, when it can be moved. Called at the start of a burst, before its first post.
void timing_plan_changed(Qp& qp, const shm::PlanAnswer* answer, uint64_t now);

// The queue pair is about to leave the state it sends in (ERR, RESET, SQD by the program, destroy): what is held is
// posted now, in order, so that the program sees the completions it expects.
void drain_held_sends(Qp& qp);

// After the agent or the plan's lease has gone: called from the hooks at most every kTickNs while held_qps != 0.
void drain_all_held_sends();

}  // namespace orrery::preload
