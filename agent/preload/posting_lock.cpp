#include "agent/preload/posting_lock.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace orrery::preload {
namespace {

// In Qp::poster, where no thread is: the counters are everybody's, or about to be.
constexpr char everybody = 0, changing = 0;

enum Barrier : uint32_t { kUnasked, kUsable, kRefused };
constinit uint32_t barrier = kUnasked;

bool set_poster(Qp& qp, const void* from, const void* to) {
  return __atomic_compare_exchange_n(&qp.poster, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

// After it the poster either is seen at work, or sees that it is the poster no longer. Should the kernel have come to
// refuse what it has promised, that is as good as certain, and a count is at stake.
void take_away(Qp& qp) {
  const int saved = errno;
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  errno = saved;
  __atomic_store_n(&qp.poster, static_cast<const void*>(&everybody), __ATOMIC_RELEASE);
}

}  // namespace

void prepare_posting_locks() {
  if (__atomic_load_n(&barrier, __ATOMIC_RELAXED) != kUnasked) return;
  const int saved = errno;
  const bool usable = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  errno = saved;
  __atomic_store_n(&barrier, uint32_t{usable ? kUsable : kRefused}, __ATOMIC_RELAXED);
}

uint32_t* begin_sending_shared(Qp& qp) {
  const void* poster = __atomic_load_n(&qp.poster, __ATOMIC_ACQUIRE);
  if (poster == nullptr) {
    const bool usable = __atomic_load_n(&barrier, __ATOMIC_RELAXED) == kUsable;
    if (set_poster(qp, nullptr, usable ? static_cast<const void*>(&thread_state) : &everybody))
      return begin_sending(qp);
    return nullptr;
  }
  if (poster != &everybody) {
    if (poster == &changing || !set_poster(qp, poster, &changing)) return nullptr;
    take_away(qp);
  }
  if (__atomic_exchange_n(&qp.sending, 1u, __ATOMIC_ACQUIRE) != 0) return nullptr;
  if (__atomic_load_n(&qp.poster_at_work, __ATOMIC_ACQUIRE) == 0) return &qp.sending;
  end_sending(&qp.sending);
  return nullptr;
}

}  // namespace orrery::preload
