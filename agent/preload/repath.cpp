#include "agent/preload/repath.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/preload/forward.h"
#include "agent/preload/qp_count.h"
#include "agent/preload/verbs_library.h"

namespace orrery::preload {
namespace {

constexpr uint16_t kFirstRocePort = 0xc000;
constexpr int kDrainLooks = 200;
constexpr int kReturnTries = 1000;

using ModifySport = int(ibv_qp*, uint16_t);

// From the libmlx5 that owns the queue pair: another copy would not know its objects.
ModifySport* sport_function(const Qp& qp) {
  return reinterpret_cast<ModifySport*>(
      symbol_beside(reinterpret_cast<void*>(qp.ops->post_send), "mlx5dv_modify_qp_udp_sport"));
}

// Everything that was ever posted has been polled as completed: completions come in order, so one of the last request
// speaks for all before it. Only for counts that are whole.
bool is_idle(const Qp& qp) {
  if (!qp.counted_whole || !is_counted(qp) || __atomic_load_n(&qp.spilled, __ATOMIC_ACQUIRE) != 0) return false;
  const uint64_t posted = shm::load_relaxed(&qp.counters->posted_sends);
  const uint64_t completed = shm::load_relaxed(&qp.counters->send_completions);
  return !shm::load_relaxed(&qp.last_unsignaled) && posted - qp.unsignaled_sends == completed;
}

int to_state(Qp& qp, ibv_qp_state state, const ibv_ah_attr* address = nullptr) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  if (address != nullptr) attributes.ah_attr = *address;
  return qp.modify(qp.qp, &attributes, IBV_QP_STATE | (address != nullptr ? IBV_QP_AV : 0));
}

// EINVAL while the driver has not noticed yet that its queue is empty.
int change_in_sqd(Qp& qp, const ibv_ah_attr& address) {
  int answer = EINVAL;
  for (int look = 0; look < kDrainLooks && answer == EINVAL; ++look) {
    if (look != 0) syscall(SYS_sched_yield);
    answer = to_state(qp, IBV_QPS_SQD, &address);
  }
  return answer;
}

bool back_to_rts(Qp& qp) {
  for (int attempt = 0; attempt < kReturnTries; ++attempt) {
    if (to_state(qp, IBV_QPS_RTS) == 0) return true;
    syscall(SYS_sched_yield);
  }
  return false;
}

Moved move_rxe(Qp& qp, const ibv_ah_attr& address) {
  if (!is_idle(qp)) return Moved::kNotNow;
  __atomic_fetch_add(&qp.drained_events, 1u, __ATOMIC_RELAXED);  // the program did not ask for that event
  if (to_state(qp, IBV_QPS_SQD) != 0) {
    __atomic_fetch_sub(&qp.drained_events, 1u, __ATOMIC_RELAXED);
    return Moved::kNever;
  }
  const bool changed = change_in_sqd(qp, address) == 0;
  if (!back_to_rts(qp)) {
    // It would take requests and never send them. The program must learn: the error state completes them.
    say(kLogError, "a queue pair did not come back from SQD, it is put into the error state");
    to_state(qp, IBV_QPS_ERR);
    return Moved::kNever;
  }
  return changed ? Moved::kDone : Moved::kNever;
}

Moved move_mlx5(Qp& qp, uint16_t port) {
  ModifySport* modify_sport = sport_function(qp);
  return modify_sport != nullptr && modify_sport(qp.qp, port) == 0 ? Moved::kDone : Moved::kNever;
}

}  // namespace

bool can_be_moved(const Qp& qp) {
  if (qp.type != IBV_QPT_RC || qp.loopback) return false;
  if (qp.ops->kind == kRxeProvider) return true;
  return qp.ops->kind == kMlx5Provider && sport_function(qp) != nullptr;
}

bool take_drained_event(Qp& qp) {
  uint32_t expected = __atomic_load_n(&qp.drained_events, __ATOMIC_RELAXED);
  while (expected != 0 && !__atomic_compare_exchange_n(&qp.drained_events, &expected, expected - 1, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return expected != 0;
}

void acknowledge_beside(int (*get)(ibv_context*, ibv_async_event*), ibv_async_event* event) {
  const int saved = errno;
  auto* acknowledge =
      reinterpret_cast<void (*)(ibv_async_event*)>(symbol_beside(reinterpret_cast<void*>(get), "ibv_ack_async_event"));
  if (acknowledge != nullptr) acknowledge(event);
  errno = saved;
}

Moved move_qp(Qp& qp, uint16_t port) {
  if (port < kFirstRocePort || qp.modify == nullptr) return Moved::kNever;
  const int saved = errno;
  ibv_ah_attr address = qp.address;
  address.grh.flow_label = flow_label_of(port);
  const Moved moved = qp.ops->kind == kRxeProvider ? move_rxe(qp, address) : move_mlx5(qp, port);
  if (moved == Moved::kDone) {
    qp.address = address;
    qp.flow_label = address.grh.flow_label;
    qp.udp_sport = qp.local.port = port;
    qp.label_ours = true;
  }
  if (moved == Moved::kNever) qp.can_move = false;
  if (moved != Moved::kNotNow) emit_qp_moved(qp);
  errno = saved;
  return moved;
}

}  // namespace orrery::preload
