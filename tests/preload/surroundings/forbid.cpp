// forbid SYSCALL deny|kill COMMAND...: runs a command under a seccomp filter against one system call, as sandboxes do;
// `socket` and `connect` are meant of AF_UNIX where the filter can see the family.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

const struct {
  const char* name;
  long number;
} kCalls[] = {{"connect", SYS_connect}, {"fcntl", SYS_fcntl},     {"getpid", SYS_getpid},
              {"gettid", SYS_gettid},   {"madvise", SYS_madvise}, {"membarrier", SYS_membarrier},
              {"poll", SYS_poll},       {"prctl", SYS_prctl},     {"recvfrom", SYS_recvfrom},
              {"recvmsg", SYS_recvmsg}, {"sendto", SYS_sendto},   {"setsockopt", SYS_setsockopt},
              {"socket", SYS_socket}};

long number_of(const char* name) {
  for (const auto& call : kCalls)
    if (strcmp(call.name, name) == 0) return call.number;
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  const long number = argc > 3 ? number_of(argv[1]) : -1;
  if (number < 0) return 2;
  const bool kill = strcmp(argv[2], "kill") == 0;
  const unsigned family = AF_UNIX;
  // A call other than socket() is judged by its number alone.
  const unsigned char by_family = number == SYS_socket ? 0 : 2;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 4),
      BPF_JUMP(BPF_JMP | BPF_JA, by_family, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, family, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(filter) / sizeof(filter[0]), filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    perror("forbid: seccomp");
    return 2;
  }
  execvp(argv[3], argv + 3);
  perror("forbid: exec");
  return 2;
}
