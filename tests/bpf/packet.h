// Packets for tests and benchmarks of the switch's data plane, and a way to push one through it (BPF_PROG_TEST_RUN).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ip_address.h"
#include "controller/drivers/ebpf/data_plane.h"
#include "controller/drivers/ebpf/forwarding_table.h"

namespace orrery::test {

using Bytes = std::vector<uint8_t>;

struct PacketSpec {
  FiveTuple tuple;
  uint8_t ttl = 64;
  uint16_t fragment = 0;     // flags and offset, host order
  uint8_t option_words = 0;  // IP options, in words of four bytes
  uint16_t payload_bytes = 64;
  uint16_t ether_type = 0x0800;
};
// An Ethernet frame with a right IP checksum. Ports go where TCP and UDP have them, also in fragments.
Bytes make_packet(const PacketSpec& spec);
// Sum of the IP header as a receiver computes it: 0xffff when it is right.
uint16_t header_sum(const Bytes& frame);

struct RunResult {
  uint32_t verdict = 0;  // TC_ACT_*
  Bytes frame;
  uint64_t duration_ns = 0;  // mean of the repeats
};
// `ifindex`: the interface it comes in by.
RunResult run_program(int program_fd, const Bytes& frame, uint32_t ifindex, uint32_t repeat = 1);

// A data plane for one switch of a topology, in a network namespace of its own (the calling process moves there, once).
// Needs root.
class SwitchUnderTest {
 public:
  SwitchUnderTest(const fabric::Graph& graph, const std::string& switch_name);

  drivers::ebpf::DataPlane& plane() { return *plane_; }
  const drivers::ebpf::ForwardingTable& table() const { return table_; }
  uint32_t ifindex(const std::string& port) const { return ifindexes_[*table_.find_port(port)]; }
  // The port the frame leaves by; nothing when it is dropped. Checks nothing else.
  std::optional<std::string> forward(const std::string& in_port, const Bytes& frame);
  RunResult run(const std::string& in_port, const Bytes& frame, uint32_t repeat = 1);
  std::optional<std::string> egress_of(const RunResult& result) const;

 private:
  drivers::ebpf::ForwardingTable table_;
  std::optional<drivers::ebpf::DataPlane> plane_;
  std::vector<uint32_t> ifindexes_;
};

// True in a network namespace of the caller's own; false without the privilege.
bool enter_private_network();

}  // namespace orrery::test
