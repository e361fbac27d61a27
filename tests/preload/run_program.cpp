#include "tests/preload/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>

namespace orrery {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    read = ends[0];
    write = ends[1];
  }
  int read, write;
};

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(const ProgramOptions& options) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    values[text.substr(0, equals)] = equals != std::string::npos ? text.substr(equals + 1) : "";
  }
  if (options.preload) values["LD_PRELOAD"] = preload_path();
  values["ORRERY_AGENT_SOCKET"] = options.agent_socket;
  values.erase("ASAN_OPTIONS");
  for (const auto& [name, value] : options.environment) values[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace

std::string preload_path() {
  return ORRERY_PRELOAD_LIBRARY;
}
std::string probe_path() {
  return ORRERY_PRELOAD_PROBE;
}

Program::Program(const std::vector<std::string>& command, const ProgramOptions& options) {
  Pipe in, out, err;
  // Nothing is allocated between fork and exec: a thread of the fake agent may hold the allocator's lock just then, and
  // the address sanitizer's stays locked in the child for good.
  std::vector<std::string> words = command, entries = environment_of(options);
  const std::vector<char*> arguments = pointers_to(words), environment = pointers_to(entries);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    dup2(in.read, 0);
    dup2(out.write, 1);
    dup2(err.write, 2);
    execvpe(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  close(in.read);
  close(out.write);
  close(err.write);
  in_ = in.write;
  out_ = out.read;
  err_ = err.read;
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (int fd : {in_, out_, err_})
    if (fd >= 0) close(fd);
}

void Program::read_some(int timeout_ms) {
  pollfd waiting[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  poll(waiting, 2, timeout_ms);
  char buffer[4096];
  const auto take = [&](pollfd& from, int& fd, std::string& into) {
    if (from.fd < 0 || from.revents == 0) return;
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      into.append(buffer, static_cast<size_t>(got));
    } else {
      close(fd);
      fd = -1;
    }
  };
  take(waiting[0], out_, result_.out);
  take(waiting[1], err_, result_.err);
}

bool Program::wait_for_output(const std::string& text) {
  while (result_.out.find(text) == std::string::npos) {
    if (out_ < 0) return false;
    read_some(1000);
  }
  return true;
}

void Program::say(const std::string& text) {
  if (write(in_, text.data(), text.size()) < 0) throw std::runtime_error("the program does not listen");
}

ProgramResult Program::finish() {
  close(in_);
  in_ = -1;
  while (out_ >= 0 || err_ >= 0) read_some(1000);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result_;
}

ProgramResult run_program(const std::vector<std::string>& command, const ProgramOptions& options) {
  return Program(command, options).finish();
}

ProgramResult run_probe(std::vector<std::string> arguments, const std::string& agent_socket) {
  arguments.insert(arguments.begin(), probe_path());
  return run_program(arguments, {.agent_socket = agent_socket});
}

std::string scratch_socket_path() {
  struct Directory {
    Directory() {
      std::string pattern = (std::filesystem::temp_directory_path() / "orrery-preload-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
      path = pattern;
    }
    ~Directory() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  };
  static const Directory directory;
  static int number = 0;
  return directory.path + "/agent-" + std::to_string(++number) + ".sock";
}

std::vector<long> values_of(const std::string& text, const std::string& name) {
  std::vector<long> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(name + " ", 0) == 0) values.push_back(std::stol(line.substr(name.size() + 1)));
  return values;
}

}  // namespace orrery
