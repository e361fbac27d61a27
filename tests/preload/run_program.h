// Runs a program with or without the library and keeps what it said.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace orrery {

struct ProgramResult {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

struct ProgramOptions {
  bool preload = true;
  std::string agent_socket = "/nonexistent/orrery/agent.sock";
  std::vector<std::pair<std::string, std::string>> environment;
};

std::string preload_path();
std::string probe_path();

// A running program. Its standard input ends with finish().
class Program {
 public:
  Program(const std::vector<std::string>& command, const ProgramOptions& options);
  ~Program();  // kills it if finish() was not called
  // Waits until standard output holds `text`. False when the program ends first.
  bool wait_for_output(const std::string& text);
  void say(const std::string& text);
  ProgramResult finish();
  pid_t pid() const { return pid_; }
  const std::string& output() const { return result_.out; }  // so far

 private:
  void read_some(int timeout_ms);
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  ProgramResult result_;
};

ProgramResult run_program(const std::vector<std::string>& command, const ProgramOptions& options = {});
// The probe with the library.
ProgramResult run_probe(std::vector<std::string> arguments, const std::string& agent_socket);

// Unique per test process; removed at its end.
std::string scratch_socket_path();

// Every "name VALUE" line of `text`.
std::vector<long> values_of(const std::string& text, const std::string& name);

}  // namespace orrery
