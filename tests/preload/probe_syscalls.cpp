#include "tests/preload/probe_syscalls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace orrery::probe {
namespace {

volatile long trapped = 0;

void on_trap(int, siginfo_t*, void* context) {
  trapped = trapped + 1;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -38;
}

sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter answer(uint32_t value) {
  return BPF_STMT(BPF_RET | BPF_K, value);
}
sock_filter skip_unless(uint32_t value, uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

void install(std::vector<sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    std::perror("seccomp");
    std::exit(77);
  }
}

// writev is let through everywhere: print_raw uses it.
void trap_all_but(std::initializer_list<long> allowed) {
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  std::vector<sock_filter> filter{load(offsetof(seccomp_data, nr))};
  const auto allow = [&](long call) {
    filter.push_back(skip_unless(static_cast<uint32_t>(call), 1));
    filter.push_back(answer(SECCOMP_RET_ALLOW));
  };
  for (long call : {long{SYS_exit_group}, long{SYS_exit}, long{SYS_rt_sigreturn}, long{SYS_writev}}) allow(call);
  for (long call : allowed) allow(call);
  filter.push_back(answer(SECCOMP_RET_TRAP));
  install(filter);
}

}  // namespace

void trap_all_syscalls() {
  trap_all_but({});
}
void trap_all_but_transfers() {
  trap_all_but({SYS_sendto, SYS_recvfrom, SYS_write, SYS_read, SYS_sendmsg, SYS_recvmsg});
}
void trap_all_but_looks_at_agent() {
  trap_all_but({SYS_getpid, SYS_fstat, SYS_recvfrom, SYS_sched_getscheduler, SYS_sched_yield, SYS_nanosleep});
}
long trapped_syscalls() {
  return trapped;
}

void refuse_port_range() {
  std::vector<sock_filter> filter;
  for (long call : {long{SYS_setsockopt}, long{SYS_getsockopt}}) {
    filter.push_back(load(offsetof(seccomp_data, nr)));
    filter.push_back(skip_unless(static_cast<uint32_t>(call), 5));
    filter.push_back(load(offsetof(seccomp_data, args[1])));
    filter.push_back(skip_unless(IPPROTO_IP, 3));
    filter.push_back(load(offsetof(seccomp_data, args[2])));
    filter.push_back(skip_unless(51, 1));
    filter.push_back(answer(SECCOMP_RET_ERRNO | 92));  // ENOPROTOOPT
  }
  filter.push_back(answer(SECCOMP_RET_ALLOW));
  install(filter);
}

void refuse_threads() {
  std::vector<sock_filter> filter{load(offsetof(seccomp_data, nr))};
  for (long call : {long{SYS_clone}, long{SYS_clone3}}) {
    filter.push_back(skip_unless(static_cast<uint32_t>(call), 1));
    filter.push_back(answer(SECCOMP_RET_ERRNO | 1));  // EPERM
  }
  filter.push_back(answer(SECCOMP_RET_ALLOW));
  install(filter);
}

void print_raw(const char* what, long value) {
  char line[64];
  const int bytes = std::snprintf(line, sizeof(line), "%s%ld\n", what, value);
  const struct {
    const void* base;
    size_t bytes;
  } part{line, static_cast<size_t>(bytes)};
  syscall(SYS_writev, 1, &part, 1);
}

void leave(int status) {
  syscall(SYS_exit_group, status);
  std::abort();
}

void itimerval_start(long microseconds) {
  const itimerval timer{{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void wait_until_gone(int thread) {
  while (syscall(SYS_tgkill, getpid(), thread, 0) == 0) sched_yield();
}

}  // namespace orrery::probe
