#include "tests/bench/lttng_session.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace orrery::bench {
namespace {

constexpr uid_t kNobody = 65534;

[[noreturn]] void become(const std::string& home, const std::vector<std::string>& command) {
  leave_root();
  setenv("LTTNG_HOME", home.c_str(), 1);
  setenv("HOME", home.c_str(), 1);
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

pid_t start_command(const std::string& home, const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child == 0) become(home, command);
  return child;
}

}  // namespace

void leave_root() {
  if (geteuid() != 0) return;
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(126);
}

LttngSession::LttngSession() {
  std::string pattern = (std::filesystem::temp_directory_path() / "orrery-lttng-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    fault_ = "no directory for it";
    return;
  }
  home_ = pattern;
  if (geteuid() == 0 && chown(home_.c_str(), kNobody, kNobody) != 0) fault_ = "its directory cannot be given away";
  if (fault_.empty()) start();
}

void LttngSession::start() {
  daemon_ = start_command(home_, {"lttng-sessiond", "--no-kernel"});
  for (int tries = 0; tries < 100; ++tries) {
    int status = 0;
    if (waitpid(daemon_, &status, WNOHANG) == daemon_) {
      daemon_ = -1;
      fault_ = WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "lttng-sessiond is not installed (package lttng-tools)"
                                                               : "lttng-sessiond does not run";
      return;
    }
    if (control({"list"})) break;
    usleep(50'000);
  }
  const bool records = control({"create", "bench", "--output=" + home_ + "/trace"}) &&
                       control({"enable-channel", "-u", "events", "--subbuf-size=1M", "--num-subbuf=4"}) &&
                       control({"enable-event", "-u", "orrery_bench:collective", "-c", "events"}) &&
                       control({"start", "bench"});
  if (!records) fault_ = "the lttng command does not make a session";
}

LttngSession::~LttngSession() {
  if (daemon_ > 0) {
    control({"destroy", "bench"});
    kill(daemon_, SIGTERM);
    waitpid(daemon_, nullptr, 0);
  }
  std::error_code ignored;
  if (!home_.empty()) std::filesystem::remove_all(home_, ignored);
}

bool LttngSession::control(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"lttng", "--no-sessiond"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  int status = -1;
  const pid_t child = start_command(home_, command);
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::pair<std::string, std::string>> LttngSession::environment() const {
  return {{"LTTNG_HOME", home_}, {"HOME", home_}, {"LTTNG_UST_REGISTER_TIMEOUT", "10000"}};
}

}  // namespace orrery::bench
