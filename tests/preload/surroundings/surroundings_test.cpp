// The same program with and without the library, in the company and under the limits that programs live with.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"
#include "tests/preload/surroundings/syscalls_of.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

std::string part(const std::string& name) {
  return std::string(ORRERY_SURROUNDINGS_DIRECTORY) + "/" + name;
}

Command operator+(Command a, const Command& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// `preload` is put into LD_PRELOAD as it is; an agent answers whoever calls.
ProgramResult run_with(const Command& command, const std::string& preload, Environment environment = {}) {
  const std::string path = scratch_socket_path();
  fakes::FakeAgent agent(path, {});
  if (!preload.empty()) environment.emplace_back("LD_PRELOAD", preload);
  return run_program(command, {.preload = false, .agent_socket = path, .environment = environment});
}

void check_same(const Command& command, const std::string& with, const std::string& without,
                const Environment& environment = {}) {
  const ProgramResult expected = run_with(command, without, environment), got = run_with(command, with, environment);
  CAPTURE(command, with, without);
  CHECK(got.status == expected.status);
  CHECK(got.out == expected.out);
  CHECK(got.err == expected.err);
}

const Command kTour{probe_path(), "nccl-tour"};
const Command kThreads{probe_path(), "many-threads", "12", "20"};
const std::string kPython = "/usr/bin/python3";

}  // namespace

TEST_CASE("other allocators work beside the library, whichever comes first") {
  for (const std::string allocator : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4"})
    for (const Command& command : {kTour, kThreads, Command{"/bin/bash", "-c", "echo $(ls / | wc -l); exit 3"}})
      for (const std::string& order : {allocator + ":" + preload_path(), preload_path() + ":" + allocator}) {
        const ProgramResult alone = run_with(command, allocator);
        REQUIRE(alone.err.empty());  // the allocator is installed
        check_same(command, order, allocator);
      }
}

// Leaks are not looked for: a communicator that the program forgets is still in our table.
TEST_CASE("a sanitized program works with the library behind the sanitizer") {
  for (const Command& command :
       {Command{part("sanitized_probe"), "nccl-tour"}, Command{part("sanitized_probe"), "many-threads", "6", "3"}})
    check_same(command, std::string(ORRERY_ASAN_LIBRARY) + ":" + preload_path(), ORRERY_ASAN_LIBRARY,
               {{"ASAN_OPTIONS", "detect_leaks=0"}});
}

TEST_CASE("a static program does not notice the library") {
  check_same({part("static_program")}, preload_path(), "");
}

TEST_CASE("a program that runs with more rights than its user does not notice the library", "[root]") {
  const fs::path program = part("setuid_id");
  fs::copy_file("/usr/bin/id", program, fs::copy_options::overwrite_existing);
  REQUIRE(chown(program.c_str(), 65534, 65534) == 0);
  REQUIRE(chmod(program.c_str(), 04755) == 0);
  const ProgramResult alone = run_with({program}, "");
  CHECK(alone.out.find("euid=65534") != std::string::npos);  // else the file system has taken the right away
  check_same({program}, preload_path(), "");
  fs::remove(program);
}

TEST_CASE("a filter that denies system calls leaves the program as it is without the library") {
  for (const char* call : {"connect", "fcntl", "getpid", "gettid", "madvise", "poll", "prctl", "recvfrom", "recvmsg",
                           "sendto", "setsockopt", "socket"})
    for (const Command& command : {kTour, kThreads})
      check_same(Command{part("forbid"), call, "deny"} + command, preload_path(), "");
}

TEST_CASE("switched off, the library never makes the call that a filter would kill for") {
  check_same(Command{part("forbid"), "socket", "kill"} + kTour, preload_path(), "", {{"ORRERY_DISABLE", "1"}});
}

TEST_CASE("tight limits leave the program as it is without the library") {
  for (const char* limit : {"--nofile=8:8", "--nofile=40:40", "--as=70000000", "--data=30000000", "--memlock=0",
                            "--fsize=0", "--stack=262144", "--core=0"})
    check_same(Command{"/usr/bin/prlimit", limit} + kTour, preload_path(), "");
}

TEST_CASE("without standard descriptors the program is the same") {
  check_same(Command{"/bin/bash", "-c", "exec \"$@\" <&- 2>&-", "bash"} + kTour, preload_path(), "");
  check_same(Command{"/bin/bash", "-c", "exec \"$@\" >&-; ", "bash"} + kTour, preload_path(), "");
}

TEST_CASE("a library opened with RTLD_DEEPBIND keeps to its own NCCL and dlsym") {
  check_same(
      {kPython, "-c", "import ctypes, os\nctypes.CDLL('" + part("libdeep.so") + "', os.RTLD_DEEPBIND).deep_tour()"},
      preload_path(), "");
  check_same({kPython, "-c", "import ctypes, os\nctypes.CDLL('" + part("libdeep.so") + "', os.RTLD_LOCAL).deep_tour()"},
             preload_path(), "");
}

TEST_CASE("closing the library, preloaded or opened, takes nothing from under the program") {
  const std::string script =
      "import _ctypes, ctypes, socket\n"
      "for i in range(3):\n"
      "  handle = ctypes.CDLL('" +
      preload_path() +
      "')._handle\n"
      "  for j in range(2): _ctypes.dlclose(handle) if j == 0 else None\n"
      "ctypes.CDLL('" +
      part("libdeep.so") +
      "').deep_tour()\n"
      "listener = socket.create_server(('127.0.0.1', 0))\n"
      "client = socket.create_connection(listener.getsockname())\n"
      "client.sendall(b'x')\n"
      "print(listener.accept()[0].recv(1))\n";
  const ProgramResult preloaded = run_with({kPython, "-c", script}, preload_path());
  const ProgramResult opened = run_with({kPython, "-c", script}, "");
  CHECK(preloaded.status == 0);
  CHECK(preloaded.err.empty());
  CHECK(preloaded.out.ends_with("b'x'\n"));
  CHECK(opened.status == 0);
  CHECK(opened.out == preloaded.out);
}

TEST_CASE("children by fork, vfork, posix_spawn and exec are the same") {
  const std::string script =
      "import os, subprocess\n"
      "for use in (True, False):\n"
      "  subprocess._USE_POSIX_SPAWN = subprocess._USE_VFORK = use\n"
      "  print(subprocess.run(['/bin/echo', 'child'], capture_output=True, close_fds=False).stdout, flush=True)\n"
      "child = os.fork()\n"
      "if child == 0: os.execv('" +
      probe_path() +
      "', ['probe', 'nccl-tour'])\n"
      "print(os.waitpid(child, 0)[1], flush=True)\n"
      "child = os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 4'], os.environ)\n"
      "print(os.waitpid(child, 0)[1], flush=True)\n"
      "os.execv('" +
      probe_path() + "', ['probe', 'nccl-tour'])\n";
  check_same({kPython, "-c", script}, preload_path(), "");
}

TEST_CASE("in a program that nothing of it concerns, the library makes no system call but those that load it") {
  const Command program{"/bin/ls", "/"};
  const auto without = syscalls_of(program, {});
  auto with = syscalls_of(program, {{"LD_PRELOAD", preload_path()}});
  REQUIRE(without.size() > 5);
  for (const auto& [call, count] : without) with[call] -= count;
  for (long loading : {SYS_openat, SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_mmap, SYS_mprotect, SYS_munmap,
                       SYS_close, SYS_access, SYS_brk})
    with.erase(loading);
  for (const auto& [call, count] : with) {
    INFO("system call " << call);
    CHECK(count == 0);
  }
}

}  // namespace orrery
