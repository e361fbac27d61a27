// What a packet costs in orrery-switch's data plane, how long a flow is cut off when its link fails, and what the
// control process costs when nothing happens.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>

#include "common/base/clock.h"
#include "common/msg/socket.h"
#include "common/msg/switch_messages.h"
#include "controller/drivers/ebpf/rule_set.h"
#include "controller/fabric/topology.h"
#include "tests/bpf/packet.h"
#include "tests/integration/net_fabric.h"

namespace orrery::test {
namespace {

constexpr uint64_t kForever = ~uint64_t{0};
constexpr uint64_t kLeaseNs = 3'000'000'000;

class Figures {
 public:
  void add(const std::string& name, double value, const char* unit, std::optional<double> target,
           std::optional<double> baseline) {
    nlohmann::ordered_json figure{{"name", name}, {"value", value}, {"unit", unit}, {"better", "lower"}};
    figure["target"] = target ? nlohmann::ordered_json(*target) : nlohmann::ordered_json();
    figure["baseline"] = baseline ? nlohmann::ordered_json(*baseline) : nlohmann::ordered_json();
    figure["ratio"] = baseline && value > 0 ? nlohmann::ordered_json(*baseline / value) : nlohmann::ordered_json();
    figures_.push_back(figure);
    fmt::print(stderr, "  {}: {:.3f} {}\n", name, value, unit);
  }
  void print() const { fmt::print("{}\n", nlohmann::ordered_json{{"figures", figures_}}.dump(1)); }

 private:
  nlohmann::ordered_json figures_ = nlohmann::ordered_json::array();
};

// Median over runs of the mean of 200 repeats: the TTL lasts for no more.
double nanoseconds_per_packet(int program, const Bytes& frame, uint32_t ifindex) {
  std::vector<double> means;
  for (int i = 0; i < 500; ++i)
    means.push_back(static_cast<double>(run_program(program, frame, ifindex, 200).duration_ns));
  std::nth_element(means.begin(), means.begin() + 250, means.end());
  return means[250];
}

// The least a forwarding program can do: redirect everything to one port.
UniqueFd load_bare_redirect(uint32_t ifindex) {
  const bpf_insn program[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K,
       .dst_reg = BPF_REG_1,
       .src_reg = 0,
       .off = 0,
       .imm = static_cast<int32_t>(ifindex)},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_redirect},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  return UniqueFd(bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "bare_redirect", "GPL", program, 4, nullptr));
}

// `count` rules over `masks` kinds of match; the last kind has the one rule that `flow` meets, when `hit`.
std::vector<drivers::ebpf::RuleSpec> make_rules(uint32_t count, uint32_t masks, const FiveTuple& flow, bool hit) {
  std::vector<drivers::ebpf::RuleSpec> rules;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t kind = i % masks;
    drivers::ebpf::RuleSpec rule{.rule_id = i + 1,
                                 .src_address = 0x0b000000 + i / masks,
                                 .src_mask = ~0u << kind,
                                 .dst_address = *flow.dst.v4(),
                                 .dst_mask = ~0u};
    rule.src_address <<= kind;
    rule.egress_port = "p5";
    if (hit && i == masks - 1) rule.src_address = *flow.src.v4();
    rules.push_back(rule);
  }
  return rules;
}

void measure_packets(Figures& figures) {
  const auto graph = fabric::Graph::build(fabric::generate_leaf_spine({}).value());
  SwitchUnderTest leaf(graph, "leaf1");
  const FiveTuple flow{graph.nics()[0].address, graph.nics()[8].address, 40000, 5000, IPPROTO_TCP};
  const auto frame = make_packet({.tuple = flow, .ttl = 255, .payload_bytes = 1400});
  const auto bare = load_bare_redirect(leaf.ifindex("p5"));
  if (!bare) throw std::runtime_error("the kernel takes no BPF programs; run as root");
  const auto measure = [&](const std::string& name, std::optional<double> target) {
    const double baseline = nanoseconds_per_packet(bare.get(), frame, leaf.ifindex("p1"));
    figures.add(name, nanoseconds_per_packet(leaf.plane().forward_program_fd(), frame, leaf.ifindex("p1")), "ns",
                target, baseline);
  };
  const auto install = [&](uint32_t count, uint32_t masks, bool hit) {
    const auto set = drivers::ebpf::build_rule_set(leaf.table(), make_rules(count, masks, flow, hit));
    if (!set || !leaf.plane().rules().install(*set, kForever)) throw std::runtime_error("cannot install rules");
    leaf.plane().rules().purge();
    leaf.forward("p1", frame);
    const auto& counts = leaf.plane().rules().counts();
    const bool matched =
        std::any_of(counts.begin(), counts.end(), [](const auto& rule) { return rule.counters.packets > 0; });
    if (matched != hit) throw std::runtime_error("the benchmark's rules do not decide as meant");
  };
  measure("ecmp_ns_per_packet", 200);
  for (const uint32_t count : {16u, 1024u, 16384u}) {
    install(count, 1, true);
    measure(fmt::format("rule_hit_1_mask_{}_rules_ns_per_packet", count), 300);
  }
  for (const uint32_t count : {16u, 16384u}) {
    install(count, 8, true);
    measure(fmt::format("rule_hit_8_masks_{}_rules_ns_per_packet", count), 600);
  }
  install(16384, 8, false);
  measure("rule_miss_8_masks_16384_rules_ns_per_packet", 600);
}

sockaddr_in endpoint(const std::string& address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

// Longest pause between two arrivals of a steady stream from h1 to h3, in ms, while `disturb` does its work.
template <typename Disturb>
double longest_gap_ms(const NetFabric& net, uint64_t patience_ns, Disturb disturb) {
  const auto sender = net.open_socket("h1", SOCK_DGRAM), receiver = net.open_socket("h3", SOCK_DGRAM);
  const auto from = endpoint(net.address("h1"), 4000), to = endpoint(net.address("h3"), 5000);
  if (bind(sender.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)) != 0 ||
      bind(receiver.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0)
    throw std::runtime_error("cannot bind sockets");
  std::atomic<bool> stop = false;
  std::thread stream([&] {
    while (!stop) {
      sendto(sender.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  std::atomic<bool> disturbed = false;
  std::thread disturber([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    disturb();
    disturbed = true;
  });
  uint64_t last = monotonic_now_ns(), longest = 0, settled = 0;
  // Until traffic has flowed for 100 ms after the disturbance, or patience ends.
  for (const uint64_t end = last + patience_ns; last < end && settled < 100'000'000;) {
    pollfd wait{receiver.get(), POLLIN, 0};
    char byte = 0;
    const bool arrived = poll(&wait, 1, 200) == 1 && recv(receiver.get(), &byte, 1, 0) == 1;
    const uint64_t now = monotonic_now_ns();
    if (!arrived) {
      if (now >= end) break;
      continue;
    }
    longest = std::max(longest, now - last);
    settled = disturbed ? settled + (now - last < 20'000'000 ? now - last : 0) : 0;
    last = now;
  }
  stop = true;
  stream.join();
  disturber.join();
  return static_cast<double>(longest) / 1e6;
}

// Holds one rule at leaf1: the stream over p3, with p4 as its backup.
class RuleGiver {
 public:
  explicit RuleGiver(const NetFabric& net)
      : net_(net), socket_(msg::Socket::bind(context_, msg::SocketKind::kRouter, "bench", endpoint()).value()) {}
  std::string endpoint() const { return "ipc://" + net_.directory() + "/switches.sock"; }

  void pin(uint64_t revision, uint64_t lease_ns) {
    msg::Rule rule{.rule_id = 1, .egress_port = "p3", .backup_port = "p4"};
    const auto any = IpAddress::from_v4(0xffffffff);
    rule.match = {IpAddress::parse(net_.address("h1")).value(), IpAddress::parse(net_.address("h3")).value(), 0, 0,
                  IPPROTO_UDP};
    rule.mask = {any, any, 0, 0, 0xff};
    const auto frame = msg::encode(msg::SwitchCommand(msg::RuleSet{"leaf1", 1, revision, lease_ns, {rule}})).value();
    std::string peer;
    for (const uint64_t end = monotonic_now_ns() + 5'000'000'000; monotonic_now_ns() < end;) {
      const auto message = socket_.receive().value();
      if (!message) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      const auto said = msg::decode_switch_message(message->body).value();
      if (const auto* ack = std::get_if<msg::Ack>(&said); ack && ack->accepted && ack->revision == revision) return;
      if (std::holds_alternative<msg::SwitchHello>(said) && !socket_.send_to(message->peer, frame))
        throw std::runtime_error("cannot send rules");
    }
    throw std::runtime_error("leaf1 took no rules");
  }

 private:
  const NetFabric& net_;
  msg::Context context_;
  msg::Socket socket_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double reroute_ms(NetFabric& net, RuleGiver& rules, uint64_t& revision, const std::string& node,
                  const std::string& port) {
  std::vector<double> gaps;
  for (int i = 0; i < 7; ++i) {
    rules.pin(++revision, 30'000'000'000);
    gaps.push_back(longest_gap_ms(net, 5'000'000'000, [&] { net.set_port(node, port, false); }));
    net.set_port(node, port, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return median(gaps);
}

// Nobody follows the links: the flow stays cut off until its rule's lease ends.
double lease_gap_ms(NetFabric& net, RuleGiver& rules, uint64_t& revision) {
  rules.pin(++revision, kLeaseNs);
  net.stop_switch("leaf1", SIGKILL);
  const double gap = longest_gap_ms(net, 6'000'000'000, [&] { net.set_port("leaf1", "p3", false); });
  net.set_port("leaf1", "p3", true);
  return gap;
}

uint64_t cpu_ns(pid_t process) {
  uint64_t running = 0;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process))) {
    uint64_t ns = 0;
    std::ifstream(thread.path() / "schedstat") >> ns;
    running += ns;
  }
  return running;
}

double idle_cpu_percent(pid_t process) {
  const uint64_t used = cpu_ns(process), began = monotonic_now_ns();
  std::this_thread::sleep_for(std::chrono::seconds(4));
  return 100.0 * static_cast<double>(cpu_ns(process) - used) / static_cast<double>(monotonic_now_ns() - began);
}

void measure_fabric(Figures& figures) {
  // A seed for which plain ECMP takes p4, so that the flow can go on when the rule for p3 has ended.
  fabric::LeafSpine shape{.leaves = 2, .spines = 2, .hosts = 4};
  for (;; ++shape.hash_seed) {
    const auto graph = fabric::Graph::build(fabric::generate_leaf_spine(shape).value());
    const FiveTuple flow{graph.nics()[0].address, graph.nics()[2].address, 4000, 5000, IPPROTO_UDP};
    if (graph.link(graph.ecmp_path(flow).value()[1]).port == "p4") break;
  }
  NetFabric net(shape);
  RuleGiver rules(net);
  net.start_switches();
  figures.add("idle_cpu_percent", idle_cpu_percent(net.switch_process("spine1")), "%", 0.3, std::nullopt);
  net.stop_switch("leaf1", SIGTERM);
  net.start_switch("leaf1", "--controller " + rules.endpoint());
  uint64_t revision = 0;
  rules.pin(++revision, 30'000'000'000);
  figures.add("connected_cpu_percent", idle_cpu_percent(net.switch_process("leaf1")), "%", std::nullopt, std::nullopt);
  const double own = reroute_ms(net, rules, revision, "leaf1", "p3");
  const double remote = reroute_ms(net, rules, revision, "spine1", "p1");
  const double lease = lease_gap_ms(net, rules, revision);
  figures.add("local_reroute_own_port_ms", own, "ms", 50, lease);
  figures.add("local_reroute_peer_port_ms", remote, "ms", 50, lease);
}

}  // namespace
}  // namespace orrery::test

int main() {
  if (!orrery::test::is_root()) {
    std::fputs("skipped: needs root, for BPF and network namespaces\n", stderr);
    return 77;
  }
  try {
    orrery::test::Figures figures;
    orrery::test::measure_fabric(figures);
    orrery::test::measure_packets(figures);
    figures.print();
  } catch (const std::exception& error) {
    fmt::print(stderr, "switch_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
