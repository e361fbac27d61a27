// Control path of verbs: who opens a device, who makes a queue pair and where it leads.
//
// Every function is wrapped twice: exported, for programs that link libibverbs, and through the dlsym hook, for those
// that look it up (NCCL). There may be several copies of the libraries; a wrapper of the second kind forwards to the
// copy that was asked.
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "agent/preload/attach.h"
#include "agent/preload/flow_table.h"
#include "agent/preload/hook_names.h"
#include "agent/preload/posting_lock.h"
#include "agent/preload/process.h"
#include "agent/preload/qp_timing.h"
#include "agent/preload/release_thread.h"
#include "agent/preload/repath.h"
#include "agent/preload/verbs_clock.h"
#include "agent/preload/verbs_context.h"
#include "agent/preload/verbs_extended.h"
#include "agent/preload/verbs_library.h"
#include "agent/preload/verbs_path.h"

namespace orrery::preload {
namespace {

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }

 private:
  const int saved_;
};

void look_at_agent() {
  calibrate_clock();
  tick(now_ns());
}

ibv_context* note_context(ibv_context* context) {
  const KeepErrno keep;
  if (context == nullptr || !become_interested()) return context;
  adopt_context(context);
  look_at_agent();
  return context;
}

ibv_context* traced_open_device(ibv_context* (*real)(ibv_device*), ibv_device* device) {
  return note_context(real(device));
}

ibv_context* traced_import_device(ibv_context* (*real)(int), int fd) {
  return note_context(real(fd));
}

ibv_context* traced_mlx5_open_device(ibv_context* (*real)(ibv_device*, mlx5dv_context_attr*), ibv_device* device,
                                     mlx5dv_context_attr* attributes) {
  return note_context(real(device, attributes));
}

int traced_close_device(int (*real)(ibv_context*), ibv_context* context) {
  if (arm() == kOff) return real(context);
  release_context(context);
  const int result = real(context);
  if (result != 0) note_context(context);  // it stays open
  return result;
}

ibv_qp* traced_create_qp(ibv_qp* (*real)(ibv_pd*, ibv_qp_init_attr*), ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp* qp = real(pd, attributes);
  if (qp != nullptr) note_qp_created(qp, attributes->sq_sig_all != 0, attributes->cap);
  return qp;
}

ibv_qp* traced_mlx5_create_qp(ibv_qp* (*real)(ibv_context*, ibv_qp_init_attr_ex*, mlx5dv_qp_init_attr*),
                              ibv_context* context, ibv_qp_init_attr_ex* attributes, mlx5dv_qp_init_attr* own) {
  ibv_qp* qp = real(context, attributes, own);
  if (qp != nullptr) note_qp_created(qp, attributes->sq_sig_all != 0, attributes->cap);
  return qp;
}

int traced_destroy_qp(int (*real)(ibv_qp*), ibv_qp* qp) {
  if (arm() == kOff) return real(qp);
  Qp* known = find_qp(qp);
  const uint32_t birth = known != nullptr ? known->birth : 0;
  if (known != nullptr) drain_held_sends(*known, true);
  auto* extended = reinterpret_cast<ibv_qp_ex*>(qp);
  const bool was_extended = release_extended_qp(qp);
  const int result = real(qp);
  const KeepErrno keep;
  if (result != 0) {
    if (was_extended) adopt_extended_qp(extended);
  } else if (known != nullptr) {
    remove_qp(*known, birth);
  }
  return result;
}

ibv_qp_ex* traced_qp_to_qp_ex(ibv_qp_ex* (*real)(ibv_qp*), ibv_qp* qp) {
  ibv_qp_ex* extended = real(qp);
  if (arm() != kOff) adopt_extended_qp(extended);
  return extended;
}

ibv_cq_ex* traced_mlx5_create_cq(ibv_cq_ex* (*real)(ibv_context*, ibv_cq_init_attr_ex*, mlx5dv_cq_init_attr*),
                                 ibv_context* context, ibv_cq_init_attr_ex* attributes, mlx5dv_cq_init_attr* own) {
  ibv_cq_ex* cq = real(context, attributes, own);
  if (arm() != kOff) adopt_extended_cq(cq);
  return cq;
}

int traced_destroy_cq(int (*real)(ibv_cq*), ibv_cq* cq) {
  if (arm() == kOff) return real(cq);
  const bool was_extended = release_extended_cq(cq);
  const int result = real(cq);
  if (result != 0 && was_extended) adopt_extended_cq(reinterpret_cast<ibv_cq_ex*>(cq));
  return result;
}

// A copy that leaves the caller's struct alone. It may be one of an older header, which ends before rate_limit.
ibv_qp_attr copy_of(const ibv_qp_attr& attributes) {
  ibv_qp_attr copy{};
  memcpy(&copy, &attributes, offsetof(ibv_qp_attr, alt_timeout) + sizeof(attributes.alt_timeout));
  return copy;
}

bool timed_out(int result) {
  return result == ETIMEDOUT || (result == -1 && errno == ETIMEDOUT);
}

// The plan's wish is tried first. When the provider does not take it, the call is made as the program made it; a
// timeout (the address did not resolve) is an answer about the peer, and programs repeat the call then.
int make_ready(ModifyQp real, Qp& known, ibv_qp_attr* attributes, int mask) {
  QpPath path;
  if (!describe_path(known, known.qp->context, *attributes, real, &path)) return real(known.qp, attributes, mask);
  const int saved = errno;
  QpPath planned = path;
  if ((mask & IBV_QP_RATE_LIMIT) == 0 && attached() && plan_path(known, &planned)) {
    ibv_qp_attr changed = copy_of(*attributes);
    changed.ah_attr = planned.address;
    errno = saved;
    const int result = real(known.qp, &changed, mask);
    const KeepErrno keep;
    if (result == 0) begin_flow(known, planned);
    if (result == 0 || timed_out(result)) return result;
  }
  errno = saved;
  const int result = real(known.qp, attributes, mask);
  const KeepErrno keep;
  if (result == 0) begin_flow(known, path);
  return result;
}

Qp* known_or_new(ibv_qp* qp) {
  if (Qp* known = find_qp(qp)) return known;
  note_qp_created(qp, false, {});
  return find_qp(qp);
}

int traced_modify_qp(ModifyQp real, ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  if (arm() == kOff || (mask & IBV_QP_STATE) == 0) return real(qp, attributes, mask);
  const int saved = errno;
  look_at_agent();
  Qp* known = known_or_new(qp);
  errno = saved;
  if (known == nullptr) return real(qp, attributes, mask);
  known->modify = real;
  constexpr int kNamesPeer = IBV_QP_AV | IBV_QP_DEST_QPN;
  const ibv_qp_state state = attributes->qp_state;
  if (state == IBV_QPS_RTR && (mask & kNamesPeer) == kNamesPeer) return make_ready(real, *known, attributes, mask);
  if (state == IBV_QPS_SQD) known->drained_events = 0;  // from now on they are the program's
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS) drain_held_sends(*known, state == IBV_QPS_RESET);
  const int result = real(qp, attributes, mask);
  const KeepErrno keep;
  if (state == IBV_QPS_RESET && result == 0) end_flow(*known);
  return result;
}

// What moves of ours have caused is none of the program's business.
int traced_get_async_event(int (*real)(ibv_context*, ibv_async_event*), ibv_context* context, ibv_async_event* event) {
  for (;;) {
    const int result = real(context, event);
    if (result != 0 || event->event_type != IBV_EVENT_SQ_DRAINED || arm() == kOff) return result;
    Qp* known = find_qp(event->element.qp);
    if (known == nullptr || !take_drained_event(*known)) return result;
    acknowledge_beside(real, event);
  }
}

// The wrappers of one function for the copies that were looked up. No lock, no allocation: the hook of dlsym calls it.
template <auto kTraced>
struct Wrapped;

template <typename R, typename... A, R (*kTraced)(R (*)(A...), A...)>
struct Wrapped<kTraced> {
  using Function = R (*)(A...);
  static constexpr size_t kCopies = 4;
  static inline Function reals[kCopies];

  template <size_t kCopy>
  static R wrapper(A... arguments) {
    return kTraced(reals[kCopy], arguments...);
  }

  // The function itself when there are more copies than wrappers.
  static void* wrapper_for(void* found) {
    static constexpr Function kWrappers[kCopies] = {wrapper<0>, wrapper<1>, wrapper<2>, wrapper<3>};
    const auto real = reinterpret_cast<Function>(found);
    for (size_t copy = 0; copy < kCopies; ++copy) {
      Function seen = __atomic_load_n(&reals[copy], __ATOMIC_ACQUIRE);
      if (seen == nullptr &&
          __atomic_compare_exchange_n(&reals[copy], &seen, real, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        seen = real;
      if (seen == real) return reinterpret_cast<void*>(kWrappers[copy]);
    }
    return found;
  }
};

constexpr HookedName kNames[] = {
    {"ibv_close_device", "IBVERBS_1.1", Wrapped<traced_close_device>::wrapper_for},
    {"ibv_create_qp", "IBVERBS_1.1", Wrapped<traced_create_qp>::wrapper_for},
    {"ibv_destroy_cq", "IBVERBS_1.1", Wrapped<traced_destroy_cq>::wrapper_for},
    {"ibv_destroy_qp", "IBVERBS_1.1", Wrapped<traced_destroy_qp>::wrapper_for},
    {"ibv_get_async_event", "IBVERBS_1.1", Wrapped<traced_get_async_event>::wrapper_for},
    {"ibv_import_device", "IBVERBS_1.10", Wrapped<traced_import_device>::wrapper_for},
    {"ibv_modify_qp", "IBVERBS_1.1", Wrapped<traced_modify_qp>::wrapper_for},
    {"ibv_open_device", "IBVERBS_1.1", Wrapped<traced_open_device>::wrapper_for},
    {"ibv_qp_to_qp_ex", "IBVERBS_1.6", Wrapped<traced_qp_to_qp_ex>::wrapper_for},
    {"mlx5dv_create_cq", "MLX5_1.1", Wrapped<traced_mlx5_create_cq>::wrapper_for},
    {"mlx5dv_create_qp", "MLX5_1.3", Wrapped<traced_mlx5_create_qp>::wrapper_for},
    {"mlx5dv_open_device", "MLX5_1.7", Wrapped<traced_mlx5_open_device>::wrapper_for},
};

// The library that the program linked is gone or was never there: what it would have said itself.
template <typename R>
R missing(R answer) {
  errno = ENOSYS;
  return answer;
}

}  // namespace

HookTable verbs_hook_table() {
  return {kNames, sizeof(kNames) / sizeof(kNames[0])};
}

void note_qp_created(ibv_qp* qp, bool sig_all, const ibv_qp_cap& cap) {
  const KeepErrno keep;
  if (!become_interested()) return;
  prepare_release_thread();
  const ProviderOps* ops = adopt_context(qp->context);
  if (ops != nullptr) add_qp({qp, ops, sig_all, cap});
  look_at_agent();
  if (attached()) prepare_posting_locks();
}

}  // namespace orrery::preload

using namespace orrery::preload;

#define ORRERY_FORWARD(function, traced, failed, ...)                       \
  do {                                                                      \
    static constinit RealVerbs<decltype(function)> real{#function};         \
    auto* found = real.get();                                               \
    return found != nullptr ? traced(found, __VA_ARGS__) : missing(failed); \
  } while (false)

ORRERY_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  ORRERY_FORWARD(ibv_open_device, traced_open_device, static_cast<ibv_context*>(nullptr), device);
}

ORRERY_EXPORT ibv_context* ibv_import_device(int fd) {
  ORRERY_FORWARD(ibv_import_device, traced_import_device, static_cast<ibv_context*>(nullptr), fd);
}

ORRERY_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  ORRERY_FORWARD(ibv_get_async_event, traced_get_async_event, -1, context, event);
}

ORRERY_EXPORT int ibv_close_device(ibv_context* context) {
  ORRERY_FORWARD(ibv_close_device, traced_close_device, ENOSYS, context);
}

ORRERY_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ORRERY_FORWARD(ibv_create_qp, traced_create_qp, static_cast<ibv_qp*>(nullptr), pd, attributes);
}

ORRERY_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  ORRERY_FORWARD(ibv_modify_qp, traced_modify_qp, ENOSYS, qp, attributes, mask);
}

ORRERY_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  ORRERY_FORWARD(ibv_destroy_qp, traced_destroy_qp, ENOSYS, qp);
}

ORRERY_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  ORRERY_FORWARD(ibv_destroy_cq, traced_destroy_cq, ENOSYS, cq);
}

ORRERY_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  ORRERY_FORWARD(ibv_qp_to_qp_ex, traced_qp_to_qp_ex, static_cast<ibv_qp_ex*>(nullptr), qp);
}

ORRERY_EXPORT ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attributes) {
  ORRERY_FORWARD(mlx5dv_open_device, traced_mlx5_open_device, static_cast<ibv_context*>(nullptr), device, attributes);
}

ORRERY_EXPORT ibv_qp* mlx5dv_create_qp(ibv_context* context, ibv_qp_init_attr_ex* attributes,
                                       mlx5dv_qp_init_attr* own) {
  ORRERY_FORWARD(mlx5dv_create_qp, traced_mlx5_create_qp, static_cast<ibv_qp*>(nullptr), context, attributes, own);
}

ORRERY_EXPORT ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attributes,
                                          mlx5dv_cq_init_attr* own) {
  ORRERY_FORWARD(mlx5dv_create_cq, traced_mlx5_create_cq, static_cast<ibv_cq_ex*>(nullptr), context, attributes, own);
}
