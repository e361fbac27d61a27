#include "tools/preload_check/run_command.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"

namespace orrery::preload_check {
namespace {

// What the child wrote to descriptor 1 until it ended or its time was over, in which case it is killed.
Result<std::string> output_of_child(int seconds, const std::function<void()>& in_child) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(write_end.get(), STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    in_child();
    _exit(127);
  }
  write_end.reset();
  std::string output;
  const uint64_t deadline = monotonic_now_ns() + static_cast<uint64_t>(seconds) * 1'000'000'000;
  for (;;) {
    const uint64_t now = monotonic_now_ns();
    pollfd waiting{read_end.get(), POLLIN, 0};
    if (now >= deadline || poll(&waiting, 1, static_cast<int>((deadline - now) / 1'000'000) + 1) == 0) {
      kill(child, SIGKILL);
      break;
    }
    char buffer[4096];
    const ssize_t got = read(read_end.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{ErrorCode::kUnavailable, "the helper process failed or took too long"};
  return output;
}

}  // namespace

Result<std::string> run_command(const std::vector<std::string>& command, const std::string& setting) {
  return output_of_child(20, [&] {
    unsetenv("LD_PRELOAD");
    if (!setting.empty()) putenv(const_cast<char*>(setting.c_str()));
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
  });
}

int ask_nccl_version(const std::string& library) {
  const auto answer = output_of_child(10, [&] {
    const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);  // the library may print
    dup2(STDERR_FILENO, STDOUT_FILENO);
    void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    using GetVersion = int(int*);
    auto* get = handle != nullptr ? reinterpret_cast<GetVersion*>(dlsym(handle, "ncclGetVersion")) : nullptr;
    int version = 0;
    if (get == nullptr || get(&version) != 0) _exit(1);
    const std::string text = std::to_string(version);
    _exit(write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  });
  return answer ? std::atoi(answer->c_str()) : 0;
}

}  // namespace orrery::preload_check
