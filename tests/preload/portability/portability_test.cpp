// The library in other C libraries: each case runs a program of another root (ORRERY_PORTABILITY_ROOT, see in_root), or
// one of musl's, attached to an agent outside, and compares it with itself without the library.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;

const std::string kReady = "ready\n";
constexpr uint32_t kCollectives = 6;

// A directory inside the root with all that the programs need. Removed at the end.
class Stage {
 public:
  explicit Stage(const std::string& programs) {
    const char* root = std::getenv("ORRERY_PORTABILITY_ROOT");
    root_ = root != nullptr ? root : "";
    inside_ = "/tmp/orrery-portability-" + std::to_string(getpid());
    fs::create_directories(root_ + inside_);
    fs::copy_file(preload_path(), root_ + inside_ + "/liborrery_preload.so");
    for (const char* file : {"linked", "opened", "libnccl.so.2"})
      fs::copy_file(fs::path(ORRERY_PORTABILITY_DIRECTORY) / programs / file, root_ + inside_ + "/" + file);
  }
  ~Stage() {
    std::error_code ignored;
    fs::remove_all(root_ + inside_, ignored);
  }

  const std::string& inside() const { return inside_; }
  std::string agent_socket() const { return root_ + inside_ + "/agent.sock"; }

  // What runs `command` in the root. The variables are set inside: the library's path has no meaning outside.
  std::vector<std::string> wrapped(bool preload, bool waits, const std::vector<std::string>& command) const {
    std::vector<std::string> all;
    if (!root_.empty()) all = {"chroot", root_};
    all.insert(all.end(), {"/usr/bin/env", "ORRERY_AGENT_SOCKET=" + inside_ + "/agent.sock"});
    all.push_back("LD_LIBRARY_PATH=" + inside_);  // $ORIGIN needs /proc
    if (waits) all.push_back("PROBE_WAITS_FOR_AGENT=1");
    // Last of all, so that a program of another C library does not get it in between.
    if (preload) all.push_back("LD_PRELOAD=" + inside_ + "/liborrery_preload.so");
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }

  ProgramResult run(bool preload, const std::vector<std::string>& command) const {
    return run_program(wrapped(preload, false, command), {.preload = false});
  }

 private:
  std::string root_, inside_;
};

// Runs the program so that it is attached before it begins; its output without the first line is comparable.
ProgramResult run_attached(const Stage& stage, const fakes::FakeAgent& agent, const std::vector<std::string>& command) {
  Program program(stage.wrapped(true, true, command), {.preload = false});
  const bool ready = program.wait_for_output(kReady);
  if (ready && agent.wait_for([&] { return agent.attachments() == 1; })) program.say("\n");
  ProgramResult result = program.finish();
  CHECK(ready);
  agent.wait_for([&] { return agent.hang_ups() >= 1; });
  const size_t line = result.out.find(kReady);
  if (line != std::string::npos) result.out.erase(line, kReady.size());
  return result;
}

void check_same(const ProgramResult& with, const ProgramResult& without) {
  CHECK(with.status == without.status);
  CHECK(with.out == without.out);
  CHECK(with.err == without.err);
}

void check_seen(const Stage& stage, const std::vector<std::string>& command, uint32_t layers) {
  fakes::FakeAgent agent(stage.agent_socket(), {});
  const ProgramResult with = run_attached(stage, agent, command);
  fs::remove(stage.agent_socket());
  const ProgramResult without = stage.run(false, command);
  INFO(with.out << with.err);
  check_same(with, without);
  CHECK((agent.layers() & layers) == layers);
  CHECK(agent.events_of(ORRERY_EVENT_COMM_INIT).size() >= 1);
  CHECK(agent.events_of(ORRERY_EVENT_COLLECTIVE).size() >= kCollectives);
  CHECK(agent.dropped() == 0);
}

constexpr uint32_t kEverywhere = ORRERY_LAYER_NCCL | ORRERY_LAYER_SOCKETS;

// Every name that the library exports is found exactly where it is without the library. The plug-in's entries are there
// for NCCL's sake, which looks them up in the whole program.
void check_names(const Stage& stage) {
  std::vector<std::string> names;
  std::ifstream golden(ORRERY_PRELOAD_GOLDEN "/exports.txt");
  for (std::string name; std::getline(golden, name);)
    if (!name.starts_with("IBVERBS_") && !name.starts_with("MLX5_") && !name.starts_with("ncclProfiler_"))
      names.push_back(name.substr(0, name.find('@')));
  REQUIRE(names.size() > 50);
  for (const char* program : {"/linked", "/opened"})
    for (const char* when : {"names-first", "names"}) {
      std::vector<std::string> command{stage.inside() + program, when};
      command.insert(command.end(), names.begin(), names.end());
      check_same(stage.run(true, command), stage.run(false, command));
    }
}

// vLLM's way to NCCL.
std::string python_script(const Stage& stage) {
  return "import ctypes, os, sys\n"
         "nccl = ctypes.CDLL('" +
         stage.inside() +
         "/libnccl.so.2')\n"
         "class Id(ctypes.Structure): _fields_ = [('internal', ctypes.c_byte * 128)]\n"
         "nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]\n"
         "nccl.ncclAllReduce.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t, ctypes.c_int, ctypes.c_int] + "
         "[ctypes.c_void_p] * 2\n"
         "nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]\n"
         "if 'PROBE_WAITS_FOR_AGENT' in os.environ:\n"
         "  nccl.ncclCommInitRank(None, 0, Id(), 0)\n"
         "  print('ready', flush=True)\n"
         "  sys.stdin.readline()\n"
         "  nccl.ncclCommInitRank(None, 0, Id(), 0)\n"
         "version = ctypes.c_int()\n"
         "print(nccl.ncclGetVersion(ctypes.byref(version)), version.value)\n"
         "id, comm = Id(), ctypes.c_void_p()\n"
         "nccl.ncclGetUniqueId(ctypes.byref(id))\n"
         "print(nccl.ncclCommInitRank(ctypes.byref(comm), 2, id, 0))\n"
         "for i in range(6): nccl.ncclAllReduce(None, None, 1000, 7, 0, comm, None)\n"
         "print(nccl.ncclCommDestroy(comm))\n"
         "for name in 'ncclCommSplit', 'ncclAlltoAll', 'ncclNothing':\n"
         "  for library in nccl, ctypes.CDLL(None):\n"
         "    print(name, hasattr(library, name))\n"
         "print(sorted(os.listdir('/tmp')) != [], os.getpid() > 0)\n";
}

}  // namespace

TEST_CASE("in the root of another Debian, a program linked with NCCL is seen and notices nothing", "[glibc]") {
  const Stage stage("");
  check_seen(stage, {stage.inside() + "/linked"}, kEverywhere | ORRERY_LAYER_DLSYM);
}

TEST_CASE("in the root of another Debian, a program that opens NCCL is seen and notices nothing", "[glibc]") {
  const Stage stage("");
  check_seen(stage, {stage.inside() + "/opened"}, kEverywhere | ORRERY_LAYER_DLSYM);
}

TEST_CASE("in the root of another Debian, python that opens NCCL is seen and notices nothing", "[glibc]") {
  const Stage stage("");
  check_seen(stage, {"/usr/bin/python3", "-c", python_script(stage)}, kEverywhere | ORRERY_LAYER_DLSYM);
}

TEST_CASE("in the root of another Debian, ordinary programs notice nothing", "[glibc]") {
  const Stage stage("");
  const std::vector<std::vector<std::string>> commands{
      {"/bin/true"},
      {"/bin/ls", "-la", "/usr/lib"},
      {"/bin/bash", "-c", "x=$(echo a | tr a b); echo $x; exec 5</etc/debian_version; head -c 3 <&5; (exit 7)"},
      {"/bin/bash", "-c", "for i in 1 2 3; do sleep 0 & done; wait; echo done; kill -9 $$"},
      {"/usr/bin/dpkg", "--version"},
      {"/usr/bin/perl", "-e",
       "print join(',', sort keys %INC), $], fork() // 'no', \"\\n\" if 0; print `echo child`; exit 4"},
      {stage.inside() + "/linked", "exec"},
      {"/usr/bin/python3", "-c",
       "import subprocess, sys; print(sys.version); print(subprocess.run(['/bin/echo', 'child'], "
       "capture_output=True))"},
  };
  for (const auto& command : commands) {
    INFO(command[0] << " " << command.back());
    check_same(stage.run(true, command), stage.run(false, command));
  }
}

TEST_CASE("in the root of another Debian, nothing that only the library exports is found", "[glibc]") {
  check_names(Stage(""));
}

TEST_CASE("under musl, nothing that only the library exports is found", "[musl]") {
  check_names(Stage("musl"));
}

TEST_CASE("under musl, a program linked with NCCL is seen and notices nothing", "[musl]") {
  const Stage stage("musl");
  check_seen(stage, {stage.inside() + "/linked"}, kEverywhere);
}

TEST_CASE("under musl, where there is no hook of dlsym, a program that opens NCCL notices nothing", "[musl]") {
  const Stage stage("musl");
  const std::vector<std::string> command{stage.inside() + "/opened", "exec"};
  check_same(stage.run(true, command), stage.run(false, command));
}

}  // namespace orrery
