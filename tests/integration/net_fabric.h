// A small fabric of network namespaces for tests of orrery-switch: hosts with one address each, switches with nothing
// but ports, veth links. Needs root. Everything it made is gone when it is destroyed; what a crashed test left behind
// goes with the next construction.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"
#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"

namespace orrery::test {

// Runs a command; a failure ends the test with the command in the message.
void run(const std::string& command);
bool is_root();

class NetFabric {
 public:
  explicit NetFabric(const fabric::LeafSpine& shape);
  NetFabric(const NetFabric&) = delete;
  ~NetFabric();

  const fabric::Graph& graph() const { return graph_; }
  fabric::Graph& graph() { return graph_; }
  const std::string& directory() const { return directory_; }
  std::string topology_file() const { return directory_ + "/topology.yaml"; }
  std::string stats_file(const std::string& node) const { return directory_ + "/" + node + ".json"; }
  std::string space(std::string_view node) const { return prefix_ + std::string(node); }
  std::string address(std::string_view host) const;

  // Starts orrery-switch in the switch's namespace and waits for its READY line.
  void start_switch(const std::string& name, const std::string& options = "");
  void start_switches(const std::string& options = "");
  pid_t switch_process(const std::string& name) const { return switches_.at(name); }
  // Sends a signal and waits for the end; the exit status as waitpid() has it.
  int stop_switch(const std::string& name, int signal);
  // The switch's counters now: asks with SIGUSR1.
  std::string read_stats(const std::string& name);
  void set_port(std::string_view node, std::string_view port, bool up);

  // A socket of the host's namespace.
  UniqueFd open_socket(std::string_view host, int type) const;

 private:
  void build();
  fabric::Topology topology_;
  fabric::Graph graph_;
  std::string prefix_;
  std::string directory_;
  std::map<std::string, pid_t> switches_;
};

}  // namespace orrery::test
