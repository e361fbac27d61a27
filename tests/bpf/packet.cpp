#include "tests/bpf/packet.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace orrery::test {
namespace {

constexpr size_t kEthernetBytes = 14;

void put16(Bytes& bytes, size_t at, uint16_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

void put32(Bytes& bytes, size_t at, uint32_t value) {
  put16(bytes, at, static_cast<uint16_t>(value >> 16));
  put16(bytes, at + 2, static_cast<uint16_t>(value));
}

uint16_t sum_header(const Bytes& frame) {
  const size_t length = size_t{4} * (frame[kEthernetBytes] & 0xf);
  uint32_t sum = 0;
  for (size_t i = 0; i < length; i += 2)
    sum += uint32_t{frame[kEthernetBytes + i]} << 8 | frame[kEthernetBytes + i + 1];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

}  // namespace

Bytes make_packet(const PacketSpec& spec) {
  const size_t header = 20 + size_t{4} * spec.option_words, transport = 20;
  Bytes frame(kEthernetBytes + header + transport + spec.payload_bytes);
  for (size_t i = 0; i < 12; ++i) frame[i] = static_cast<uint8_t>(i < 6 ? 0x02 : 0x06);
  put16(frame, 12, spec.ether_type);
  frame[14] = static_cast<uint8_t>(0x40 | header / 4);
  put16(frame, 16, static_cast<uint16_t>(header + transport + spec.payload_bytes));
  put16(frame, 20, spec.fragment);
  frame[22] = spec.ttl;
  frame[23] = spec.tuple.protocol;
  put32(frame, 26, spec.tuple.src.v4().value_or(0));
  put32(frame, 30, spec.tuple.dst.v4().value_or(0));
  for (size_t i = 0; i < size_t{4} * spec.option_words; ++i) frame[34 + i] = 1;  // no operation
  put16(frame, kEthernetBytes + header, spec.tuple.src_port);
  put16(frame, kEthernetBytes + header + 2, spec.tuple.dst_port);
  put16(frame, 24, static_cast<uint16_t>(~sum_header(frame)));
  return frame;
}

uint16_t header_sum(const Bytes& frame) {
  return sum_header(frame);
}

RunResult run_program(int program_fd, const Bytes& frame, uint32_t ifindex, uint32_t repeat) {
  RunResult result;
  result.frame.resize(frame.size() + 256);
  __sk_buff context{};
  context.ifindex = ifindex;
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  options.data_in = frame.data();
  options.data_size_in = static_cast<uint32_t>(frame.size());
  options.data_out = result.frame.data();
  options.data_size_out = static_cast<uint32_t>(result.frame.size());
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  options.repeat = static_cast<int>(repeat);
  const int rc = bpf_prog_test_run_opts(program_fd, &options);
  if (rc != 0) throw std::runtime_error(std::string("BPF_PROG_TEST_RUN: ") + std::strerror(-rc));
  result.frame.resize(options.data_size_out);
  result.verdict = options.retval;
  result.duration_ns = options.duration;
  return result;
}

bool enter_private_network() {
  static const bool entered = unshare(CLONE_NEWNET) == 0;
  return entered;
}

SwitchUnderTest::SwitchUnderTest(const fabric::Graph& graph, const std::string& switch_name)
    : table_(drivers::ebpf::make_forwarding_table(graph, switch_name).value()) {
  if (!enter_private_network()) {
    std::fputs("skipped: needs root, for BPF and a network namespace of its own\n", stderr);
    std::exit(77);
  }
  libbpf_set_print(nullptr);
  plane_ = drivers::ebpf::DataPlane::load(table_).value();
  for (const auto& port : table_.ports) {
    if (if_nametoindex(port.name.c_str()) == 0 &&
        std::system(("ip link add " + port.name + " type veth peer name " + port.name + "peer").c_str()) != 0)
      throw std::runtime_error("cannot make interface " + port.name);
    ifindexes_.push_back(if_nametoindex(port.name.c_str()));
  }
  plane_->set_ports_up((uint64_t{1} << table_.ports.size()) - 1);
  for (size_t i = 0; i < ifindexes_.size(); ++i)
    if (!plane_->bind(static_cast<uint8_t>(i), ifindexes_[i]) || !plane_->attach(static_cast<uint8_t>(i)))
      throw std::runtime_error("cannot attach to " + table_.ports[i].name);
}

RunResult SwitchUnderTest::run(const std::string& in_port, const Bytes& frame, uint32_t repeat) {
  return run_program(plane_->forward_program_fd(), frame, ifindex(in_port), repeat);
}

std::optional<std::string> SwitchUnderTest::egress_of(const RunResult& result) const {
  if (result.verdict != TC_ACT_REDIRECT) return std::nullopt;
  for (const auto& port : table_.ports)
    if (std::memcmp(result.frame.data(), port.peer_mac.data(), 6) == 0) return port.name;
  throw std::runtime_error("redirected to an address that no port's peer has");
}

std::optional<std::string> SwitchUnderTest::forward(const std::string& in_port, const Bytes& frame) {
  return egress_of(run(in_port, frame));
}

}  // namespace orrery::test
