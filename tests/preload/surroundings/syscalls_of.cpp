#include "tests/preload/surroundings/syscalls_of.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace orrery {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, 1);
  dup2(nothing, 2);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  raise(SIGSTOP);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

std::map<long, int> syscalls_of(const std::vector<std::string>& command,
                                const std::vector<std::pair<std::string, std::string>>& environment) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) become(command, environment);
  int status = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  std::map<long, int> calls;
  bool started = false;
  int deliver = 0;
  for (;;) {
    ptrace(PTRACE_SYSCALL, child, nullptr, deliver);
    if (waitpid(child, &status, 0) != child || WIFEXITED(status) || WIFSIGNALED(status)) break;
    deliver = WSTOPSIG(status) == (SIGTRAP | 0x80) || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    if (WSTOPSIG(status) == SIGTRAP) started = true;  // the exec
    if (!started || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) ++calls[static_cast<long>(info.entry.nr)];
  }
  return calls;
}

}  // namespace orrery
