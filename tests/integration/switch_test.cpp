// orrery-switch in a fabric of namespaces: forwards, follows rules and links, survives its control process.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/msg/socket.h"
#include "common/msg/switch_messages.h"
#include "tests/integration/net_fabric.h"

namespace orrery::test {
namespace {

constexpr fabric::LeafSpine kSmall{.leaves = 2, .spines = 2, .hosts = 4};
constexpr uint64_t kLeaseNs = 60'000'000'000;     // longer than any case
constexpr uint64_t kPatienceNs = 60'000'000'000;  // with what never comes

sockaddr_in endpoint(const std::string& address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

// A UDP flow between two hosts with fixed ports, so that the test knows its five-tuple.
class UdpFlow {
 public:
  UdpFlow(const NetFabric& net, const std::string& src, const std::string& dst, uint16_t src_port, uint16_t dst_port)
      : sender_(net.open_socket(src, SOCK_DGRAM)), receiver_(net.open_socket(dst, SOCK_DGRAM)) {
    tuple_ = {IpAddress::parse(net.address(src)).value(), IpAddress::parse(net.address(dst)).value(), src_port,
              dst_port, IPPROTO_UDP};
    const auto from = endpoint(net.address(src), src_port), to = endpoint(net.address(dst), dst_port);
    REQUIRE(bind(sender_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0);
    REQUIRE(bind(receiver_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    REQUIRE(connect(sender_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  }
  const FiveTuple& tuple() const { return tuple_; }

  // How many of `count` datagrams arrive, each given half a second.
  int exchange(int count) {
    int arrived = 0;
    for (int i = 0; i < count; ++i) {
      const uint32_t number = next_++;
      if (send(sender_.get(), &number, sizeof(number), 0) != sizeof(number)) continue;
      pollfd wait{receiver_.get(), POLLIN, 0};
      uint32_t got = 0;
      while (poll(&wait, 1, 500) == 1 && recv(receiver_.get(), &got, sizeof(got), 0) == sizeof(got) && got != number) {
      }
      arrived += got == number;
    }
    return arrived;
  }

 private:
  UniqueFd sender_, receiver_;
  FiveTuple tuple_;
  uint32_t next_ = 1;
};

nlohmann::json stats_of(NetFabric& net, const std::string& node) {
  return nlohmann::json::parse(net.read_stats(node));
}

nlohmann::json port_of(NetFabric& net, const std::string& node, const std::string& port) {
  const auto stats = stats_of(net, node);
  for (const auto& entry : stats["ports"])
    if (entry["name"] == port) return entry;
  FAIL("no port " << port);
  return {};
}

uint64_t sent_by(NetFabric& net, const std::string& node, const std::string& port) {
  return port_of(net, node, port)["tx_packets"];
}

// The controller's end of the conversation.
class FakeController {
 public:
  explicit FakeController(const NetFabric& net)
      : endpoint_("ipc://" + net.directory() + "/switches.sock"),
        socket_(msg::Socket::bind(context_, msg::SocketKind::kRouter, "test", endpoint_).value()) {}
  const std::string& endpoint() const { return endpoint_; }

  // The next message of kind `Kind` from the switch, whatever comes between.
  template <typename Kind>
  Kind expect(const std::string& name) {
    for (const uint64_t end = monotonic_now_ns() + kPatienceNs; monotonic_now_ns() < end;) {
      auto message = socket_.receive().value();
      if (!message) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      const auto decoded = msg::decode_switch_message(message->body).value();
      if (const auto* hello = std::get_if<msg::SwitchHello>(&decoded)) peers_[hello->switch_name] = message->peer;
      if (const auto* wanted = std::get_if<Kind>(&decoded);
          wanted && peers_.contains(name) && message->peer == peers_[name])
        return *wanted;
    }
    throw std::runtime_error("no answer from " + name);
  }
  msg::Ack command(const std::string& name, const msg::SwitchCommand& command) {
    tell(name, command);
    return expect<msg::Ack>(name);
  }
  void tell(const std::string& name, const msg::SwitchCommand& command) {
    if (!peers_.contains(name)) expect<msg::SwitchHello>(name);
    REQUIRE(socket_.send_to(peers_[name], msg::encode(command).value()));
  }
  // The switch's next hello comes over a new connection.
  void forget(const std::string& name) { peers_.erase(name); }
  void send_raw(const std::string& name, const std::string& bytes) { REQUIRE(socket_.send_to(peers_.at(name), bytes)); }

 private:
  msg::Context context_;
  std::string endpoint_;
  msg::Socket socket_;
  std::map<std::string, std::string> peers_;
};

IpAddress all_ones() {
  return IpAddress::from_v4(0xffffffff);
}

msg::RuleSet pin(const std::string& name, const FiveTuple& tuple, const std::string& port, const std::string& backup,
                 uint64_t revision, uint64_t lease_ns = kLeaseNs) {
  msg::Rule rule{.rule_id = 1, .match = tuple, .egress_port = port, .backup_port = backup};
  rule.match.src_port = rule.match.dst_port = 0;
  rule.mask = {all_ones(), all_ones(), 0, 0, 0xff};
  return {.switch_name = name, .term = 1, .revision = revision, .lease_ns = lease_ns, .rules = {rule}};
}

// The uplink of leaf1 that the flow would not take by ECMP.
std::string other_uplink(const NetFabric& net, const FiveTuple& tuple) {
  return net.graph().link(net.graph().ecmp_path(tuple).value()[1]).port == "p3" ? "p4" : "p3";
}

void skip_without_root() {
  if (is_root()) return;
  std::fputs("skipped: needs root, for network namespaces\n", stderr);
  std::exit(77);
}

template <typename Condition>
bool becomes_true(Condition condition) {
  for (const uint64_t end = monotonic_now_ns() + kPatienceNs; monotonic_now_ns() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("every host reaches every other through the fabric, by the paths the graph predicts") {
  skip_without_root();
  NetFabric net(kSmall);
  net.start_switches();
  for (const std::string src : {"h1", "h2", "h3", "h4"})
    for (const std::string dst : {"h1", "h2", "h3", "h4"}) {
      if (src == dst) continue;
      UdpFlow flow(net, src, dst, 4000, 5000);
      INFO(src << " to " << dst);
      CHECK(flow.exchange(3) == 3);
    }
  UdpFlow flow(net, "h1", "h4", 4001, 5001);
  const auto path = net.graph().ecmp_path(flow.tuple()).value();
  const auto& uplink = net.graph().link(path[1]);
  const auto before = sent_by(net, "leaf1", uplink.port);
  CHECK(flow.exchange(50) == 50);
  CHECK(sent_by(net, "leaf1", uplink.port) - before == 50);
}

TEST_CASE("the counters of both ends of every link agree") {
  skip_without_root();
  NetFabric net(kSmall);
  net.start_switches();
  UdpFlow flow(net, "h1", "h3", 4000, 5000), back(net, "h3", "h1", 4000, 5000);
  CHECK(flow.exchange(100) == 100);
  CHECK(back.exchange(70) == 70);
  for (const std::string spine : {"spine1", "spine2"}) {
    const auto stats = stats_of(net, spine);
    for (size_t leaf = 0; leaf < 2; ++leaf) {
      const auto& port = stats["ports"][leaf];
      const auto peer = net.graph().link(*net.graph().find_link(spine + ":" + port["name"].get<std::string>()));
      const auto other = port_of(net, net.graph().node(peer.to).name, peer.peer_port);
      CHECK(port["tx_packets"] == other["rx_packets"]);
      CHECK(port["rx_bytes"] == other["tx_bytes"]);
      CHECK(port["no_route"] == 0);
    }
  }
}

TEST_CASE("TCP moves data whole over the fabric") {
  skip_without_root();
  NetFabric net(kSmall);
  net.start_switches();
  const auto listener = net.open_socket("h4", SOCK_STREAM), client = net.open_socket("h1", SOCK_STREAM);
  const auto to = endpoint(net.address("h4"), 6000);
  REQUIRE(bind(listener.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  REQUIRE(listen(listener.get(), 1) == 0);
  REQUIRE(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  const UniqueFd server(accept(listener.get(), nullptr, nullptr));
  constexpr size_t kBytes = 16 << 20;
  std::thread sender([&] {
    std::vector<uint32_t> block(16384);
    for (size_t sent = 0; sent < kBytes; sent += block.size() * 4) {
      for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<uint32_t>(sent / 4 + i);
      if (send(client.get(), block.data(), block.size() * 4, MSG_NOSIGNAL) != static_cast<ssize_t>(block.size() * 4))
        return;
    }
  });
  std::vector<uint32_t> got(kBytes / 4);
  size_t received = 0;
  while (received < kBytes) {
    const ssize_t more = recv(server.get(), reinterpret_cast<char*>(got.data()) + received, kBytes - received, 0);
    if (more <= 0) break;
    received += static_cast<size_t>(more);
  }
  sender.join();
  CHECK(received == kBytes);
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != i;
  CHECK(wrong == 0);
}

TEST_CASE("a rule pins a flow to the other spine, and its end gives the flow back to ECMP") {
  skip_without_root();
  NetFabric net(kSmall);
  FakeController controller(net);
  net.start_switches("--controller " + controller.endpoint());
  UdpFlow flow(net, "h1", "h3", 4000, 5000);
  const auto port = other_uplink(net, flow.tuple());
  const auto moved = [&] {
    const auto before = sent_by(net, "leaf1", port);
    REQUIRE(flow.exchange(20) == 20);
    return sent_by(net, "leaf1", port) - before;
  };
  CHECK(moved() == 0);
  const auto ack = controller.command("leaf1", pin("leaf1", flow.tuple(), port, "", 1));
  CHECK((ack.accepted && ack.entries == 1));
  CHECK(moved() == 20);
  SECTION("by its lease, with nobody's help") {
    const auto soon = pin("leaf1", flow.tuple(), port, "", 2, 300'000'000);
    CHECK(controller.command("leaf1", soon).accepted);
    std::this_thread::sleep_for(std::chrono::milliseconds(350));
    CHECK(moved() == 0);
    controller.tell("leaf1", msg::Lease{1, 2, kLeaseNs});
    CHECK(becomes_true([&] { return moved() == 20; }));
  }
  SECTION("by a withdrawal") {
    CHECK(controller.command("leaf1", msg::Withdraw{{1, 1, 0}}).accepted);
    CHECK(moved() == 0);
    CHECK(!controller.command("leaf1", msg::Lease{1, 1, kLeaseNs}).accepted);
  }
  SECTION("by an empty set") {
    CHECK(controller.command("leaf1", msg::RuleSet{"leaf1", 1, 2, kLeaseNs, {}}).accepted);
    CHECK(moved() == 0);
  }
}

TEST_CASE("commands that are wrong, old or for another switch are refused and change nothing") {
  skip_without_root();
  NetFabric net(kSmall);
  FakeController controller(net);
  net.start_switch("leaf1", "--controller " + controller.endpoint());
  const FiveTuple tuple{IpAddress::parse(net.address("h1")).value(), IpAddress::parse(net.address("h3")).value(), 0, 0,
                        17};
  const auto make = [&](const std::string& name, const std::string& port, uint64_t revision,
                        uint64_t lease_ns = kLeaseNs) {
    auto set = pin(name, tuple, port, port == "p3" ? "p4" : "", revision, lease_ns);
    set.term = 2;
    return set;
  };
  CHECK(controller.command("leaf1", make("leaf1", "p3", 5)).accepted);
  auto old_term = make("leaf1", "p4", 9);
  old_term.term = 1;
  auto two = make("leaf1", "p4", 6);
  two.rules.push_back(two.rules[0]);
  for (const auto& wrong : {old_term, two, make("leaf1", "p4", 4), make("leaf2", "p4", 6), make("leaf1", "p9", 6)}) {
    INFO("revision " << wrong.revision << ", " << wrong.rules.size() << " rules");
    const auto ack = controller.command("leaf1", wrong);
    CHECK((!ack.accepted && !ack.reason.empty()));
    CHECK(ack.entries == 1);
  }
  for (const std::string& garbage :
       {std::string(), std::string("hello"), std::string(64, '\xff'), std::string(4096, '\0')})
    controller.send_raw("leaf1", garbage);
  CHECK(controller.command("leaf1", make("leaf1", "p4", 6)).accepted);
}

TEST_CASE("with an uplink down traffic goes on over the backup, in both directions and without a controller") {
  skip_without_root();
  NetFabric net(kSmall);
  FakeController controller(net);
  net.start_switches("--controller " + controller.endpoint());
  UdpFlow flow(net, "h1", "h3", 4000, 5000), back(net, "h3", "h1", 4000, 5000);
  CHECK(controller.command("leaf1", pin("leaf1", flow.tuple(), "p3", "p4", 1)).accepted);
  CHECK(controller.command("leaf2", pin("leaf2", back.tuple(), "p3", "", 1)).accepted);
  CHECK(flow.exchange(20) == 20);
  const auto before = sent_by(net, "leaf1", "p4");
  const std::string node = GENERATE("leaf1", "spine1");
  INFO("down at " << node);
  net.set_port(node, node == "leaf1" ? "p3" : "p1", false);
  REQUIRE(becomes_true([&] {
    return !port_of(net, "leaf1", "p3")["up"].get<bool>() && !port_of(net, "spine1", "p1")["up"].get<bool>();
  }));
  CHECK(flow.exchange(50) == 50);
  CHECK(sent_by(net, "leaf1", "p4") - before >= 50);
  CHECK(stats_of(net, "leaf1")["rules"][0]["backup_packets"] == 50);
  CHECK(back.exchange(50) == 50);  // leaf2's rule leads to spine1, which hands the packets back
  CHECK(port_of(net, "spine1", "p2")["diverted"] == 50);
  net.set_port(node, node == "leaf1" ? "p3" : "p1", true);
  REQUIRE(becomes_true(
      [&] { return port_of(net, "leaf1", "p3")["up"].get<bool>() && port_of(net, "spine1", "p1")["up"].get<bool>(); }));
  CHECK(flow.exchange(20) == 20);
  CHECK(stats_of(net, "leaf1")["rules"][0]["backup_packets"] == 50);
}

TEST_CASE("telemetry tells links, queues, rules and the backup's use") {
  skip_without_root();
  NetFabric net(kSmall);
  FakeController controller(net);
  net.start_switches("--controller " + controller.endpoint());
  UdpFlow flow(net, "h1", "h3", 4000, 5000);
  const auto hello = controller.expect<msg::SwitchHello>("leaf1");
  CHECK(hello.ports == std::vector<std::string>{"p1", "p2", "p3", "p4"});
  CHECK(hello.hash_seed == net.graph().node(*net.graph().find_node("leaf1")).hash_seed);
  CHECK(controller.command("leaf1", pin("leaf1", flow.tuple(), "p3", "p4", 1)).accepted);
  CHECK(flow.exchange(20) == 20);
  net.set_port("leaf1", "p3", false);
  REQUIRE(becomes_true([&] { return !port_of(net, "leaf1", "p3")["up"].get<bool>(); }));
  CHECK(flow.exchange(20) == 20);
  bool down = false, backup = false, ruled = false, linked = false;
  CHECK(becomes_true([&] {
    const auto told = controller.expect<msg::SwitchTelemetry>("leaf1");
    for (const auto& event : told.events) {
      down |= event.kind == msg::PathEvent::Kind::kPortDown && event.port == "leaf1:p3";
      backup |= event.kind == msg::PathEvent::Kind::kBackupInUse && event.detail == "rule 1";
    }
    for (const auto& rule : told.rules) ruled |= rule.packets == 40 && rule.backup_packets == 20;
    for (const auto& link : told.links) linked |= link.port == "leaf1:p4" && link.up && link.tx_packets >= 20;
    return down && backup && ruled && linked;
  }));
}

TEST_CASE("a full queue's drops and depth are counted") {
  skip_without_root();
  NetFabric net(kSmall);
  net.start_switches();
  const auto port = net.graph().link(net.graph().node(*net.graph().find_node("h3")).egress[0]).peer_port;
  run("tc -n " + net.space("leaf2") + " qdisc add dev " + port +
      " root tbf rate 200kbit burst 10k limit 30000");  // slower than any sender
  const auto sender = net.open_socket("h1", SOCK_DGRAM);
  const auto to = endpoint(net.address("h3"), 9);
  const std::vector<char> payload(1400);
  for (int i = 0; i < 200; ++i)
    sendto(sender.get(), payload.data(), payload.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto counted = port_of(net, "leaf2", port);
  CHECK(counted["drops"] > 100);
  CHECK(counted["queue_max_bytes"] > 20000);
  CHECK(counted["queue_max_bytes"] <= 30000);
  CHECK(counted["queue_mean_bytes"] > 0);
}

TEST_CASE("forwarding outlives a killed control process, and a new one takes over rules and ports without a loss") {
  skip_without_root();
  NetFabric net(kSmall);
  FakeController controller(net);
  net.start_switches("--controller " + controller.endpoint());
  UdpFlow flow(net, "h1", "h3", 4000, 5000);
  const auto port = other_uplink(net, flow.tuple());
  CHECK(controller.command("leaf1", pin("leaf1", flow.tuple(), port, "", 3)).accepted);
  CHECK(WIFSIGNALED(net.stop_switch("leaf1", SIGKILL)));
  CHECK(flow.exchange(50) == 50);
  CHECK_THROWS(net.start_switch("leaf9"));

  std::atomic<bool> stop = false;
  std::atomic<int> sent = 0, arrived = 0;
  std::thread traffic([&] {
    while (!stop) ++sent, arrived += flow.exchange(1);
  });
  net.start_switch("leaf1", "--controller " + controller.endpoint());
  for (const int so_far = sent; sent <= so_far + 10;) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  stop = true;
  traffic.join();
  controller.forget("leaf1");
  CHECK(arrived == sent);
  const auto before = sent_by(net, "leaf1", port);
  CHECK(flow.exchange(20) == 20);
  CHECK(sent_by(net, "leaf1", port) - before == 20);
  CHECK(!controller.command("leaf1", pin("leaf1", flow.tuple(), "p3", "", 2)).accepted);  // it still knows revision 3
}

TEST_CASE("a second control process for the same switch is refused") {
  skip_without_root();
  NetFabric net(kSmall);
  net.start_switch("leaf1");
  CHECK_THROWS_WITH(net.start_switch("leaf1"), Catch::Contains("runs in this network namespace already"));
}

TEST_CASE("told to stop, the switch detaches its programs, with --keep it leaves them") {
  skip_without_root();
  NetFabric net(kSmall);
  net.start_switches("--keep");
  UdpFlow flow(net, "h1", "h2", 4000, 5000);
  CHECK(net.stop_switch("leaf1", SIGTERM) == 0);
  CHECK(flow.exchange(10) == 10);
  net.start_switch("leaf1");
  CHECK(flow.exchange(10) == 10);
  CHECK(net.stop_switch("leaf1", SIGTERM) == 0);
  CHECK(flow.exchange(1) == 0);
}

}  // namespace orrery::test
