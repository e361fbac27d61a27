// Programs that have nothing to do with training do not notice the library.
#include <catch2/catch.hpp>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"

namespace orrery {
namespace {

const std::vector<std::vector<std::string>> kPrograms{
    {"/bin/true"},
    {"/bin/false"},
    {"/bin/ls", "-lA", "/etc/skel"},
    {"/bin/ls", "/nonexistent"},
    {"/bin/bash", "-c", "x=$(echo a | tr a b); echo $x; echo to-stderr >&2; (exit 7)"},
    {"/bin/bash", "-c", "exec 5</etc/passwd; head -1 <&5; ls -l /proc/self/fd | wc -l; ulimit -n"},
    {"/bin/bash", "-c", "for i in 1 2 3; do sleep 0 & done; wait; echo done; kill -9 $$"},
    {"/bin/bash", "-c", "unset LD_PRELOAD; env | sort"},
    {"/bin/sleep", "0.01"},
    {"/usr/bin/git", "--version"},
    {"/usr/bin/env", "-u", "LD_PRELOAD", "/bin/echo", "gone"},
    {"/usr/bin/python3", "-c", "import os, sys; print(sys.version); print(sorted(os.listdir('/proc/self/fd')))"},
    {"/usr/bin/python3", "-c",
     "import subprocess\n"
     "for close in (True, False):\n"
     "  print(subprocess.run(['/bin/echo', 'child'], capture_output=True, close_fds=close))"},
    {"/usr/bin/python3", "-c",
     "import socket, threading\n"
     "listener = socket.create_server(('127.0.0.1', 0))\n"
     "client = socket.create_connection(listener.getsockname())\n"
     "server, peer = listener.accept()\n"
     "threading.Thread(target=client.sendall, args=(b'x' * 100000,)).start()\n"
     "got = 0\n"
     "while got < 100000: got += len(server.recv(4096))\n"
     "print(got, client.fileno(), server.fileno())\n"
     "try: socket.create_connection(('127.0.0.1', 1))\n"
     "except OSError as error: print(error)\n"
     "try: socket.create_connection(('192.0.2.1', 80), timeout=0.001)\n"
     "except OSError: print('no answer, or a refusal: as the network here has it')"},
};

void check_unchanged(const std::string& agent_socket,
                     const std::vector<std::pair<std::string, std::string>>& environment) {
  for (const auto& program : kPrograms) {
    const auto plain =
        run_program(program, {.preload = false, .agent_socket = agent_socket, .environment = environment});
    const auto loaded = run_program(program, {.agent_socket = agent_socket, .environment = environment});
    INFO(program[0] << " " << (program.size() > 2 ? program[2] : ""));
    CHECK(loaded.status == plain.status);
    CHECK(loaded.out == plain.out);
    CHECK(loaded.err == plain.err);
  }
}

}  // namespace

TEST_CASE("ordinary programs are the same with the library and without an agent") {
  check_unchanged("/nonexistent/orrery/agent.sock", {});
}

TEST_CASE("ordinary programs are the same with the library and an agent") {
  const std::string path = scratch_socket_path();
  fakes::FakeAgent agent(path, {});
  check_unchanged(path, {});
}

TEST_CASE("ordinary programs are the same with the kill switch and with logging") {
  check_unchanged("/nonexistent/orrery/agent.sock", {{"ORRERY_DISABLE", "1"}});
  check_unchanged("/nonexistent/orrery/agent.sock", {{"ORRERY_LOG", "info"}});
}

TEST_CASE("a program that never calls what concerns us never calls the agent") {
  const std::string path = scratch_socket_path();
  fakes::FakeAgent agent(path, {});
  run_program({"/bin/bash", "-c", "ls / >/dev/null; echo x | cat"}, {.agent_socket = path});
  run_program({"/usr/bin/python3", "-c", "import socket; socket.create_server(('127.0.0.1', 0))"},
              {.agent_socket = path});
  CHECK(agent.attachments() == 0);
  CHECK(agent.hang_ups() == 0);
}

TEST_CASE("where there is no NCCL, dlsym finds none of its functions, and no more than NCCL has where there is") {
  const std::string script =
      "import ctypes\n"
      "own = ctypes.CDLL(None)\n"
      "print(hasattr(own, 'ncclGetVersion'), hasattr(own, 'ncclGroupStart'))\n"
      "private = ctypes.CDLL('" +
      std::string(ORRERY_FAKE_NCCL) +
      "')\n"
      "version = ctypes.c_int()\n"
      "print(private.ncclGetVersion(ctypes.byref(version)), version.value)\n"
      "print(hasattr(private, 'ncclCommSplit'), hasattr(private, 'ncclCommGrow'))\n"
      "print(hasattr(own, 'ncclGetVersion'))";
  const std::vector<std::string> command{"/usr/bin/python3", "-c", script};
  const auto result = run_program(command);
  CHECK(result.out == "False False\n0 21806\nTrue False\nFalse\n");
  CHECK(result.out == run_program(command, {.preload = false}).out);
  CHECK(result.err.empty());
}

}  // namespace orrery
