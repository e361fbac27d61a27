#include "tests/integration/net_fabric.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace orrery::test {
namespace {

constexpr std::string_view kPrefix = "orrtest";

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what);
}

// Namespaces of test processes that are no more.
void sweep() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", ignored)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const auto pid = std::strtol(name.c_str() + kPrefix.size(), nullptr, 10);
    if (pid > 0 && kill(static_cast<pid_t>(pid), 0) != 0) run("ip netns delete " + name);
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

}  // namespace

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) fail("command failed: " + command);
}

bool is_root() {
  return geteuid() == 0;
}

NetFabric::NetFabric(const fabric::LeafSpine& shape) : topology_(fabric::generate_leaf_spine(shape).value()) {
  sweep();
  graph_ = fabric::Graph::build(topology_);
  prefix_ = fmt::format("{}{}-", kPrefix, getpid());
  char path[] = "/tmp/orrery-test-XXXXXX";
  if (!mkdtemp(path)) fail("no temporary directory");
  directory_ = path;
  std::ofstream(topology_file()) << fabric::to_yaml(topology_);
  build();
}

void NetFabric::build() {
  std::ostringstream spaces, links, hosts;
  for (const auto& node : graph_.nodes()) {
    run("ip netns add " + space(node.name));
    run(fmt::format("ip netns exec {} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
                    space(node.name)));
  }
  for (const auto& cable : topology_.links)
    links << fmt::format(
        "link add name {} netns {} address {} mtu {} type veth peer name {} netns {} address {} mtu {}\n", cable.a.port,
        space(cable.a.node), fabric::port_mac(cable.a.node, cable.a.port), topology_.mtu_bytes, cable.b.port,
        space(cable.b.node), fabric::port_mac(cable.b.node, cable.b.port), topology_.mtu_bytes);
  std::ofstream(directory_ + "/links") << links.str();
  run(fmt::format("ip -batch {}/links", directory_));
  for (const auto& node : graph_.nodes()) {
    std::ostringstream batch;
    for (const auto id : node.egress) batch << fmt::format("link set {} up\n", graph_.link(id).port);
    if (node.kind == fabric::NodeKind::kHost) {
      const auto& uplink = graph_.link(node.egress[0]);
      batch << fmt::format("addr add {}/32 dev {}\n", address(node.name), uplink.port);
      batch << fmt::format("route add 169.254.1.1 dev {0} scope link\nroute add default via 169.254.1.1 dev {0}\n",
                           uplink.port);
      batch << fmt::format("neigh replace 169.254.1.1 lladdr {} nud permanent dev {}\n",
                           fabric::port_mac(graph_.node(uplink.to).name, uplink.peer_port), uplink.port);
    }
    std::ofstream(directory_ + "/batch") << batch.str();
    run(fmt::format("ip -n {} -batch {}/batch", space(node.name), directory_));
    for (const auto id : node.egress)
      run(fmt::format("ip netns exec {} ethtool -K {} tso off gso off gro off tx off rx off >/dev/null",
                      space(node.name), graph_.link(id).port));
  }
}

NetFabric::~NetFabric() {
  for (const auto& [name, pid] : switches_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  for (const auto& node : graph_.nodes())
    static_cast<void>(!std::system(("ip netns delete " + space(node.name)).c_str()));
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string NetFabric::address(std::string_view host) const {
  const auto id = graph_.find_node(host);
  for (const auto& nic : graph_.nics())
    if (id && nic.host == *id) return nic.address.to_string();
  fail(fmt::format("no host {}", host));
}

void NetFabric::start_switch(const std::string& name, const std::string& options) {
  const auto log = fmt::format("{}/{}.out", directory_, name);
  const auto command =
      fmt::format("exec ip netns exec {} {} --topology {} --switch {} --stats-file {} {} >{} 2>{}.err", space(name),
                  ORRERY_SWITCH_PROGRAM, topology_file(), name, stats_file(name), options, log, log);
  std::remove(log.c_str());
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 500; ++i, pause_ms(10)) {
    if (read_file(log).starts_with("READY")) {
      switches_[name] = pid;
      return;
    }
    if (waitpid(pid, nullptr, WNOHANG) == pid)
      fail(fmt::format("orrery-switch {} ended: {}", name, read_file(log + ".err")));
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  fail(fmt::format("orrery-switch {} is not ready after 5 s", name));
}

void NetFabric::start_switches(const std::string& options) {
  for (const auto& node : graph_.nodes())
    if (node.kind == fabric::NodeKind::kSwitch) start_switch(node.name, options);
}

int NetFabric::stop_switch(const std::string& name, int signal) {
  const pid_t pid = switches_.at(name);
  switches_.erase(name);
  kill(pid, signal);
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

std::string NetFabric::read_stats(const std::string& name) {
  pause_ms(20);  // packets under way
  std::error_code ignored;
  std::filesystem::remove(stats_file(name), ignored);
  kill(switches_.at(name), SIGUSR1);
  for (int i = 0; i < 500; ++i, pause_ms(10))
    if (std::filesystem::exists(stats_file(name))) return read_file(stats_file(name));
  fail(fmt::format("orrery-switch {} writes no counters", name));
}

void NetFabric::set_port(std::string_view node, std::string_view port, bool up) {
  run(fmt::format("ip -n {} link set {} {}", space(node), port, up ? "up" : "down"));
}

UniqueFd NetFabric::open_socket(std::string_view host, int type) const {
  const UniqueFd here(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  const UniqueFd there(open(("/run/netns/" + space(host)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!here || !there || setns(there.get(), CLONE_NEWNET) != 0)
    fail(fmt::format("cannot enter the namespace of {}", host));
  UniqueFd fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  if (setns(here.get(), CLONE_NEWNET) != 0) std::abort();
  return fd;
}

}  // namespace orrery::test
