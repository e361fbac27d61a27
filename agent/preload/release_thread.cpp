#include "agent/preload/release_thread.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "agent/preload/forward.h"
#include "agent/preload/process.h"
#include "agent/preload/qp_timing.h"

namespace orrery::preload {

constinit uint64_t release_thread_stays_ns = 2'000'000'000;

namespace {

constexpr size_t kStackBytes = 256u << 10;  // untouched is not resident
constexpr uint64_t kLeastNapNs = 50'000, kMostNapNs = 100'000'000;
constexpr uint32_t kNapsBeforePark = 20;  // in vain: ten caps
constexpr unsigned long kTimerSlackNs = 1000;

// Whoever changes it from kNone makes the thread, whoever changes it from kParked wakes it. The thread parks and ends
// only when it sees nothing held after it has said so here; who holds looks here after it has said that it holds.
enum State : uint32_t { kNone, kAwake, kParked, kRefused };
constinit uint32_t state = kNone;

uint32_t recently_held = 0;

// Of libpthread.so.0 before glibc 2.34, which need not be there. `create` is the last to be found.
struct Pthread {
  int (*attr_init)(pthread_attr_t*);
  int (*attr_setstacksize)(pthread_attr_t*, size_t);
  int (*attr_setdetachstate)(pthread_attr_t*, int);
  int (*attr_destroy)(pthread_attr_t*);
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
};
constinit Pthread pthread{};
// glibc takes the program's thread-local storage out of the stack, and leaves the thread as little as 2 KiB.
constinit size_t tls_bytes = 0;

template <typename Function>
bool find(Function*& function, const char* name) {
  auto* found = reinterpret_cast<Function*>(global_symbol(name));
  __atomic_store_n(&function, found, __ATOMIC_RELEASE);
  return found != nullptr;
}

int add_tls(dl_phdr_info* object, size_t, void* sum) {
  for (unsigned i = 0; i < object->dlpi_phnum; ++i)
    if (object->dlpi_phdr[i].p_type == PT_TLS)
      *static_cast<size_t*>(sum) += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
  return 0;
}

long futex(int operation, uint32_t value, const timespec* patience) {
  return syscall(SYS_futex, &state, operation | FUTEX_PRIVATE_FLAG, value, patience, nullptr, 0);
}

// Until the word is not `value` any more and somebody says so, or the time is over, or a signal of the C library's.
bool timed_out(uint32_t value, uint64_t ns) {
  const timespec patience{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  return futex(FUTEX_WAIT, value, &patience) != 0 && errno == ETIMEDOUT;
}

bool change(uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// False when the thread is to end.
bool park() {
  __atomic_store_n(&state, uint32_t{kParked}, __ATOMIC_SEQ_CST);
  bool over = false;
  while (__atomic_load_n(&held_qps, __ATOMIC_SEQ_CST) == 0 && __atomic_load_n(&state, __ATOMIC_SEQ_CST) == kParked) {
    if (over && change(kParked, kNone)) return false;
    over = timed_out(kParked, release_thread_stays_ns);
  }
  change(kParked, kAwake);
  return true;
}

// A hold that is made while we sleep has at least the cap ahead of it or is due sooner, at the price of half a cap.
uint64_t nap_ns() {
  const uint64_t half = attachment.hold_cap_ns / 2;
  return half < kLeastNapNs ? kLeastNapNs : half > kMostNapNs ? kMostNapNs : half;
}

void* run(void*) {
  prctl(PR_SET_NAME, "orrery-release");
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  for (uint32_t in_vain = 0;;) {
    const uint64_t next = release_due_sends();
    const bool lately = __atomic_exchange_n(&recently_held, 0u, __ATOMIC_RELAXED) != 0;
    in_vain = lately || __atomic_load_n(&held_qps, __ATOMIC_RELAXED) != 0 ? 0 : in_vain + 1;
    if (in_vain > kNapsBeforePark) {
      if (!park()) return nullptr;
      in_vain = 0;
      continue;
    }
    const uint64_t now = now_ns(), nap = nap_ns();
    if (next > now) timed_out(kAwake, next - now < nap ? next - now : nap);
  }
}

// The signals of the program are for its own threads. Those of a thread's own faults (and of system calls that a filter
// traps) find the handler that the program has for them; the C library keeps its own two out of any mask.
bool make_thread() {
  pthread_attr_t attributes;
  if (__atomic_load_n(&pthread.create, __ATOMIC_ACQUIRE) == nullptr || pthread.attr_init(&attributes) != 0)
    return false;
  pthread.attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t ours, theirs;
  sigfillset(&ours);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&ours, fault);
  sigprocmask(SIG_SETMASK, &ours, &theirs);
  pthread_t thread;
  const bool made = pthread.attr_setstacksize(&attributes, kStackBytes + tls_bytes) == 0 &&
                    pthread.create(&thread, &attributes, run, nullptr) == 0;
  sigprocmask(SIG_SETMASK, &theirs, nullptr);
  pthread.attr_destroy(&attributes);
  return made;
}

// Who has just held and saw a thread in the making relies on it: what is held is drained after the word is out.
void do_without() {
  __atomic_store_n(&state, uint32_t{kRefused}, __ATOMIC_SEQ_CST);
  say(kLogError, "this process could not have one thread more, so no RDMA send is held back in it");
  drain_all_held_sends();
}

}  // namespace

void prepare_release_thread() {
  if (__atomic_load_n(&pthread.create, __ATOMIC_ACQUIRE) != nullptr) return;
  size_t bytes = 0;
  dl_iterate_phdr(add_tls, &bytes);
  __atomic_store_n(&tls_bytes, bytes, __ATOMIC_RELAXED);
  (void)(find(pthread.attr_init, "pthread_attr_init") && find(pthread.attr_setstacksize, "pthread_attr_setstacksize") &&
         find(pthread.attr_setdetachstate, "pthread_attr_setdetachstate") &&
         find(pthread.attr_destroy, "pthread_attr_destroy") && find(pthread.create, "pthread_create"));
}

bool release_thread_is_refused() {
  return __atomic_load_n(&state, __ATOMIC_RELAXED) == kRefused;
}

void rely_on_release_thread() {
  if (__atomic_load_n(&recently_held, __ATOMIC_RELAXED) == 0) __atomic_store_n(&recently_held, 1u, __ATOMIC_RELAXED);
  for (;;) {
    const uint32_t seen = __atomic_load_n(&state, __ATOMIC_SEQ_CST);
    if (seen == kAwake) return;
    if (seen == kRefused) return drain_all_held_sends();
    if (!change(seen, kAwake)) continue;
    const int saved = errno;
    if (seen == kParked)
      futex(FUTEX_WAKE, 1, nullptr);
    else if (!make_thread())
      do_without();
    errno = saved;
    return;
  }
}

void forget_release_thread_of_parent() {
  __atomic_store_n(&state, uint32_t{kNone}, __ATOMIC_RELAXED);
  __atomic_store_n(&recently_held, 0u, __ATOMIC_RELAXED);
}

}  // namespace orrery::preload
