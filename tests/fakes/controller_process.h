// A real orrery-controller on sockets of the test's own, ended with the object.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "common/msg/control_messages.h"
#include "common/msg/socket.h"
#include "controller/fabric/topology.h"
#include "tests/fakes/scratch_directory.h"

namespace orrery::test {

class ControllerProcess {
 public:
  explicit ControllerProcess(std::vector<std::string> extra_arguments = {}) : extra_(std::move(extra_arguments)) {
    std::ofstream(directory_.file("topology.yaml")) << fabric::to_yaml(*fabric::generate_leaf_spine({}));
    start();
  }
  ~ControllerProcess() { end(SIGKILL); }
  ControllerProcess(const ControllerProcess&) = delete;
  ControllerProcess& operator=(const ControllerProcess&) = delete;

  std::string intents() const { return directory_.ipc("intents"); }
  std::string agents() const { return directory_.ipc("agents"); }
  std::string switches() const { return directory_.ipc("switches"); }
  std::string control() const { return directory_.ipc("control"); }
  std::string file(const std::string& name) const { return directory_.file(name); }

  // Waits for the READY line. False when the program ended first.
  bool start() {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0) return false;
    pid_ = ::fork();
    if (pid_ == 0) run(out[1]);
    ::close(out[1]);
    std::string line;
    char c = 0;
    while (c != '\n' && ::read(out[0], &c, 1) == 1) line += c;
    ::close(out[0]);
    ready_ = line.starts_with("READY orrery-controller");
    return ready_;
  }
  bool ready() const { return ready_; }
  void signal(int number) const { ::kill(pid_, number); }
  // Exit status as waitpid() gives it.
  int end(int signal) {
    if (pid_ <= 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  bool alive() const { return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }

  Result<msg::Response> ask(msg::Context& context, msg::Request request, int timeout_ms = 5000) const {
    ORRERY_ASSIGN(const std::string question, msg::encode(request));
    ORRERY_ASSIGN(const std::string answer, msg::ask(context, "control", control(), {}, question, timeout_ms));
    return msg::decode_response(answer);
  }
  msg::Health health(msg::Context& context) const {
    const auto response = ask(context, {msg::Request::Kind::kHealth});
    return response ? std::get<msg::Health>(*response) : msg::Health{};
  }

 private:
  [[noreturn]] void run(int out) {
    ::dup2(out, STDOUT_FILENO);
    std::vector<std::string> arguments = {ORRERY_CONTROLLER_PROGRAM,
                                          "--controller.topology_file",
                                          file("topology.yaml"),
                                          "--controller.intents_endpoint",
                                          intents(),
                                          "--controller.agents_endpoint",
                                          agents(),
                                          "--controller.switches_endpoint",
                                          switches(),
                                          "--controller.control_endpoint",
                                          control(),
                                          "--state.file",
                                          file("state.db"),
                                          "--metrics.listen_address",
                                          "",
                                          "--log.level",
                                          "error"};
    arguments.insert(arguments.end(), extra_.begin(), extra_.end());
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    ::execv(raw[0], raw.data());
    ::_exit(127);
  }

  ScratchDirectory directory_;
  std::vector<std::string> extra_;
  pid_t pid_ = -1;
  bool ready_ = false;
};

}  // namespace orrery::test
