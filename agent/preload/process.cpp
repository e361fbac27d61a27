#include "agent/preload/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/preload/attach.h"
#include "agent/preload/comm_table.h"
#include "agent/preload/dl_hook.h"
#include "agent/preload/flow_table.h"
#include "agent/preload/kill_switch.h"
#include "agent/preload/nccl_pending.h"
#include "agent/preload/plan_use.h"
#include "agent/preload/qp_table.h"
#include "agent/preload/qp_timing.h"

extern "C" {
// What glibc's pthread_atfork, a piece of code in each object, calls. musl has only pthread_atfork itself.
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* object) __attribute__((weak));
extern void* __dso_handle __attribute__((visibility("hidden")));
}

namespace orrery::preload {

constinit ForkWiped fork_wiped;
constinit Attachment attachment{};
__thread Thread thread_state __attribute__((tls_model("initial-exec")));

namespace {

// kDeciding comes with the kernel's number of the thread that decides.
enum Interest : uint32_t { kUndecided = 0, kInterested = 1, kDisabled = 2, kDeciding = 1u << 31 };
uint32_t interest = kUndecided;
constexpr uint64_t kDecisionNs = 1'000'000'000;
pid_t interested_pid = 0;
LogLevel log_level = kLogNone;

LogLevel parse_log_level(const char* value) {
  if (value == nullptr) return kLogNone;
  if (strcmp(value, "error") == 0 || strcmp(value, "1") == 0) return kLogError;
  if (strcmp(value, "info") == 0 || strcmp(value, "2") == 0) return kLogInfo;
  return kLogNone;
}

void child_after_fork() {
  __atomic_store_n(&fork_wiped.arm, uint32_t{kOff}, __ATOMIC_RELAXED);
  drop_connection_in_child();
  lift_all_paces_in_child();
}

bool call_in_children(void (*handler)()) {
  if (&__register_atfork != nullptr) return __register_atfork(nullptr, nullptr, handler, &__dso_handle) == 0;
  using Atfork = int(void (*)(), void (*)(), void (*)());
  auto* atfork = reinterpret_cast<Atfork*>(loader_symbol(RTLD_NEXT, "pthread_atfork"));
  return atfork != nullptr && atfork(nullptr, nullptr, handler) == 0;
}

bool decide() {
  if (is_switched_off()) return false;
  log_level = parse_log_level(getenv("ORRERY_LOG"));
  choose_agent_socket(getenv("ORRERY_AGENT_SOCKET"));
  read_timing_settings();
  interested_pid = getpid();
  madvise(&fork_wiped, sizeof(fork_wiped), MADV_WIPEONFORK);  // older kernels: the handler below
  return call_in_children(child_after_fork);
}

// The parent's connection, flows and communicators are the parent's: it goes on reporting them.
void start_anew_in_child() {
  interested_pid = static_cast<pid_t>(syscall(SYS_getpid));
  forget_connection_of_parent();
  forget_flows_of_parent();
  forget_qps_of_parent();
  forget_comms_of_parent();
  forget_pending_comms();
}

void write_line(const char* what, const char* detail) {
  const int saved = errno;
  const char prefix[] = "orrery: ";
  iovec parts[] = {{const_cast<char*>(prefix), sizeof(prefix) - 1},
                   {const_cast<char*>(what), strlen(what)},
                   {const_cast<char*>(detail), strlen(detail)},
                   {const_cast<char*>("\n"), 1}};
  syscall(SYS_writev, STDERR_FILENO, parts, 4);
  errno = saved;
}

bool thread_is_alive(uint32_t thread) {
  return syscall(SYS_tgkill, interested_pid, thread, 0) == 0 || errno != ESRCH;
}

uint32_t deciding_as_this_thread() {
  return kDeciding | static_cast<uint32_t>(syscall(SYS_gettid));
}

// What this thread begins while another one decides is to be seen, too, and the other one makes a few system calls. But
// it may be one that only the parent of a forked child has, or may never come back from a signal handler.
uint32_t wait_for_decision() {
  const uint32_t mine = deciding_as_this_thread();
  const uint64_t give_up = now_ns() + kDecisionNs;
  uint32_t state = __atomic_load_n(&interest, __ATOMIC_ACQUIRE);
  while ((state & kDeciding) != 0 && state != mine && now_ns() < give_up &&
         syscall(SYS_tgkill, getpid(), state & ~kDeciding, 0) == 0) {
    syscall(SYS_sched_yield);
    state = __atomic_load_n(&interest, __ATOMIC_ACQUIRE);
  }
  return state;
}

uint32_t decide_interest(uint32_t state) {
  const bool in_child = state == kInterested;
  if (!__atomic_compare_exchange_n(&interest, &state, deciding_as_this_thread(), false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return (state & kDeciding) != 0 ? wait_for_decision() : state;
  bool interested = true;
  if (!in_child)
    interested = decide();
  else if (arm() == kOff)  // else another thread of the child was faster
    start_anew_in_child();
  if (interested && arm() == kOff) __atomic_store_n(&fork_wiped.arm, uint32_t{kSeeking}, __ATOMIC_RELEASE);
  state = interested ? kInterested : kDisabled;
  __atomic_store_n(&interest, state, __ATOMIC_RELEASE);
  return state;
}

__attribute__((noinline)) void claim_ring_slow(Thread& self) {
  const int saved = errno;
  self.id = static_cast<uint32_t>(syscall(SYS_gettid));
  self.ring = attachment.segment.claim_ring(self.id, thread_is_alive);
  self.ring_generation = generation();
  errno = saved;
}

}  // namespace

bool become_interested() {
  uint32_t state = __atomic_load_n(&interest, __ATOMIC_ACQUIRE);
  if (state == kDisabled || (state == kInterested && arm() != kOff)) return state == kInterested;
  const int saved = errno;
  state = (state & kDeciding) != 0 ? wait_for_decision() : decide_interest(state);
  errno = saved;
  return state == kInterested && arm() != kOff;
}

bool is_own_process() {
  return interested_pid == 0 || static_cast<pid_t>(syscall(SYS_getpid)) == interested_pid;
}

void emit(orrery_event& event) {
  Thread& self = thread_state;
  if (self.pushing) [[unlikely]] {  // a signal handler interrupted a push of its own thread
    attachment.segment.count_no_ring();
    return;
  }
  self.pushing = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (self.ring_generation != generation()) [[unlikely]]
    claim_ring_slow(self);
  event.thread = self.id;
  if (self.ring != nullptr) [[likely]]
    attachment.segment.push(self.ring, event);
  else
    attachment.segment.count_no_ring();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  self.pushing = false;
}

void say(LogLevel level, const char* what, const char* detail) {
  if (level <= log_level) write_line(what, detail);
}

void say_always(const char* what, const char* detail) {
  write_line(what, detail);
}

}  // namespace orrery::preload
