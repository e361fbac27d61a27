// The kernel half of orrery-switch, seen from its control process: loads the BPF programs and their maps, attaches them
// to ports, keeps link state and rules in the maps, reads counters.
//
// The programs are attached by classic tc, so forwarding survives the control process however it ends. A new process
// loads programs with maps of its own, fills them completely (rules in force are taken over from the program it finds
// attached) and replaces the old programs port by port: every packet meets one or the other. Owned by one thread. Needs
// CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON (root has them).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/abi/switch_abi.h"
#include "common/base/result.h"
#include "controller/drivers/ebpf/forwarding_table.h"
#include "controller/drivers/ebpf/rule_store.h"

namespace orrery::drivers::ebpf {

struct QueueReading {
  uint64_t packets = 0;  // offered since the programs were loaded
  uint64_t bytes = 0;
  uint64_t backlog_bytes_sum = 0;
  uint64_t backlog_bytes_max = 0;  // since the last read_queues()
};

class DataPlane {
 public:
  // kUnavailable names the missing kernel feature or privilege. `table` is copied into the maps.
  static Result<DataPlane> load(const ForwardingTable& table);
  DataPlane(DataPlane&&) noexcept;
  DataPlane& operator=(DataPlane&&) noexcept;
  ~DataPlane();  // leaves attached programs attached

  // Takes over the rules of the program already attached to these interfaces (by port index, 0: none) if it is
  // orrery-switch's, of the same layout and with the same ports. True when it did. Call before attach().
  Result<bool> adopt_rules(std::span<const uint32_t> ifindexes);
  // Tells the maps which interface a port is. Bind every port before attaching the first: an attached program forwards
  // at once.
  Status bind(uint8_t port, uint32_t ifindex);
  // Attaches both programs to the port's interface, replacing what an earlier process attached.
  Status attach(uint8_t port);
  // Removes the programs from the port's interface.
  void detach(uint8_t port);
  void set_ports_up(uint64_t ports);
  uint64_t ports_up() const;

  RuleStore& rules();
  // False: the kernel cannot tell queue depths; readings are zero. The reason is in queue_problem().
  bool has_queue_depth() const;
  const std::string& queue_problem() const;
  Result<orrery_switch_port_counters> read_counters(uint8_t port) const;
  // Of every port, by index; starts a new interval for the maxima.
  Result<std::vector<QueueReading>> read_queues();

  // For tests and benchmarks: the forwarding program's descriptor.
  int forward_program_fd() const;

 private:
  struct State;
  explicit DataPlane(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace orrery::drivers::ebpf
