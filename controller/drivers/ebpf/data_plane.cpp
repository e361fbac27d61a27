#include "controller/drivers/ebpf/data_plane.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bpf/switch_forward.skel.h"
#include "bpf/switch_queue.skel.h"
#include "common/base/unique_fd.h"

namespace orrery::drivers::ebpf {
namespace {

constexpr uint32_t kFilterHandle = 1;
constexpr uint32_t kFilterPriority = 1;

struct DestroyForward {
  void operator()(switch_forward_bpf* object) const { switch_forward_bpf__destroy(object); }
};
struct DestroyQueue {
  void operator()(switch_queue_bpf* object) const { switch_queue_bpf__destroy(object); }
};

Error load_error(int code) {
  if (code == EPERM || code == EACCES)
    return {
        ErrorCode::kUnavailable,
        fmt::format("the kernel refused the forwarding program ({}): run as root, or with CAP_BPF, CAP_NET_ADMIN and "
                    "CAP_PERFMON",
                    std::strerror(code))};
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
    return {ErrorCode::kUnavailable,
            "this kernel has no BTF (/sys/kernel/btf/vmlinux): use one built with CONFIG_DEBUG_INFO_BTF"};
  return {ErrorCode::kUnavailable,
          fmt::format("the kernel does not take the forwarding program ({}): it needs Linux 5.13 or newer with "
                      "CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF",
                      std::strerror(code))};
}

Error attach_error(uint32_t ifindex, const char* what, int code) {
  if (code == ENOENT || code == EOPNOTSUPP)
    return {ErrorCode::kUnavailable,
            fmt::format("cannot {} on interface {} ({}): the kernel needs the clsact queueing discipline and the BPF "
                        "classifier (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF)",
                        what, ifindex, std::strerror(code))};
  return system_error(fmt::format("cannot {} on interface {}", what, ifindex), code);
}

bpf_tc_hook make_hook(uint32_t ifindex, bpf_tc_attach_point point) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = static_cast<int>(ifindex);
  hook.attach_point = point;
  return hook;
}

bpf_tc_opts make_filter(int program_fd = 0, uint32_t flags = 0) {
  bpf_tc_opts filter{};
  filter.sz = sizeof(filter);
  filter.prog_fd = program_fd;
  filter.flags = flags;
  filter.handle = kFilterHandle;
  filter.priority = kFilterPriority;
  return filter;
}

Status attach_program(uint32_t ifindex, bpf_tc_attach_point point, int program_fd) {
  const auto hook = make_hook(ifindex, point);
  auto filter = make_filter(program_fd, BPF_TC_F_REPLACE);
  const int rc = bpf_tc_attach(&hook, &filter);
  if (rc != 0)
    return attach_error(ifindex, point == BPF_TC_INGRESS ? "attach the forwarding program" : "attach the queue program",
                        -rc);
  return {};
}

// Maps of the program attached to an interface's ingress, by name.
class AttachedMaps {
 public:
  explicit AttachedMaps(uint32_t ifindex) {
    const auto hook = make_hook(ifindex, BPF_TC_INGRESS);
    auto filter = make_filter();
    if (bpf_tc_query(&hook, &filter) != 0) return;
    const UniqueFd program(bpf_prog_get_fd_by_id(filter.prog_id));
    if (!program) return;
    uint32_t ids[32] = {};
    bpf_prog_info info{};
    info.nr_map_ids = 32;
    info.map_ids = reinterpret_cast<uint64_t>(ids);
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(program.get(), &info, &size) != 0) return;
    for (uint32_t i = 0; i < std::min(info.nr_map_ids, 32u); ++i) maps_.emplace_back(bpf_map_get_fd_by_id(ids[i]));
  }

  // -1 when there is none of that name and layout.
  int find(const char* name, uint32_t key_size, uint32_t value_size) const {
    for (const auto& map : maps_) {
      bpf_map_info info{};
      uint32_t size = sizeof(info);
      if (!map || bpf_obj_get_info_by_fd(map.get(), &info, &size) != 0) continue;
      if (std::strcmp(info.name, name) == 0 && info.key_size == key_size && info.value_size == value_size)
        return map.get();
    }
    return -1;
  }

 private:
  std::vector<UniqueFd> maps_;
};

}  // namespace

struct DataPlane::State {
  std::unique_ptr<switch_forward_bpf, DestroyForward> forward;
  std::unique_ptr<switch_queue_bpf, DestroyQueue> queue;  // null: no queue depth on this kernel
  std::string queue_problem;
  ForwardingTable table;
  std::vector<uint32_t> ifindexes;
  BpfMap port_by_if, ports, counters, routes, groups, queues;
  MappedArray config_memory, counter_memory;
  orrery_switch_config* config = nullptr;
  RuleStore rules;

  Status load_forward();
  void load_queue();
  Status fill_tables();
};

Status DataPlane::State::load_forward() {
  forward.reset(switch_forward_bpf__open());
  if (!forward) return load_error(errno);
  if (const int rc = switch_forward_bpf__load(forward.get()); rc != 0) return load_error(-rc);
  const auto& maps = forward->maps;
  port_by_if = BpfMap(bpf_map__fd(maps.switch_port_by_if), "switch_port_by_if");
  ports = BpfMap(bpf_map__fd(maps.switch_ports), "switch_ports");
  counters = BpfMap(bpf_map__fd(maps.switch_counters), "switch_counters");
  routes = BpfMap(bpf_map__fd(maps.switch_routes), "switch_routes");
  groups = BpfMap(bpf_map__fd(maps.switch_groups), "switch_groups");
  ORRERY_ASSIGN(config_memory,
                MappedArray::map(bpf_map__fd(maps.switch_config), sizeof(orrery_switch_config), "switch_config"));
  ORRERY_ASSIGN(counter_memory,
                MappedArray::map(bpf_map__fd(maps.rule_counters),
                                 2 * ORRERY_SWITCH_MAX_RULES * sizeof(orrery_switch_rule_counters), "rule_counters"));
  config = static_cast<orrery_switch_config*>(config_memory.data());
  config->abi_version = ORRERY_SWITCH_ABI_VERSION;
  config->hash_seed = table.hash_seed;
  rules = RuleStore(BpfMap(bpf_map__fd(maps.switch_rules), "switch_rules"), config,
                    static_cast<orrery_switch_rule_counters*>(counter_memory.data()));
  return {};
}

void DataPlane::State::load_queue() {
  queue.reset(switch_queue_bpf__open());
  int rc = queue ? 0 : -errno;
  if (rc == 0) rc = bpf_map__reuse_fd(queue->maps.switch_config, bpf_map__fd(forward->maps.switch_config));
  if (rc == 0) rc = bpf_map__reuse_fd(queue->maps.switch_port_by_if, bpf_map__fd(forward->maps.switch_port_by_if));
  if (rc == 0) rc = switch_queue_bpf__load(queue.get());
  if (rc == 0) {
    queues = BpfMap(bpf_map__fd(queue->maps.switch_queues), "switch_queues");
    return;
  }
  queue.reset();
  queue_problem = fmt::format(
      "queue depth is not measured: the kernel does not take the egress program ({}); it needs BTF of the kernel "
      "(CONFIG_DEBUG_INFO_BTF) and CAP_PERFMON",
      std::strerror(-rc));
}

Status DataPlane::State::fill_tables() {
  for (uint32_t i = 0; i < table.groups.size(); ++i) {
    orrery_switch_group group{};
    group.size = static_cast<uint32_t>(table.groups[i].members.size());
    group.detour_ports = table.groups[i].detour_ports;
    std::copy(table.groups[i].members.begin(), table.groups[i].members.end(), group.members);
    ORRERY_TRY(groups.put(&i, &group));
  }
  for (const auto& route : table.routes) {
    const uint32_t address = htonl(route.address);
    ORRERY_TRY(routes.put(&address, &route.group));
  }
  return {};
}

DataPlane::DataPlane(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataPlane::DataPlane(DataPlane&&) noexcept = default;
DataPlane& DataPlane::operator=(DataPlane&&) noexcept = default;
DataPlane::~DataPlane() = default;

Result<DataPlane> DataPlane::load(const ForwardingTable& table) {
  auto state = std::make_unique<State>();
  state->table = table;
  state->ifindexes.resize(table.ports.size());
  ORRERY_TRY(state->load_forward());
  state->load_queue();
  ORRERY_TRY(state->fill_tables());
  return DataPlane(std::move(state));
}

Result<bool> DataPlane::adopt_rules(std::span<const uint32_t> ifindexes) {
  const auto bound = std::find_if(ifindexes.begin(), ifindexes.end(), [](uint32_t ifindex) { return ifindex != 0; });
  if (bound == ifindexes.end()) return false;
  const AttachedMaps maps(*bound);
  const BpfMap config(maps.find("switch_config", 4, sizeof(orrery_switch_config)), "switch_config");
  const BpfMap ports(maps.find("switch_ports", 4, sizeof(orrery_switch_port)), "switch_ports");
  const BpfMap rules(maps.find("switch_rules", sizeof(orrery_switch_tuple), sizeof(orrery_switch_rule)),
                     "switch_rules");
  if (config.fd() < 0 || ports.fd() < 0 || rules.fd() < 0) return false;
  const uint32_t zero = 0;
  orrery_switch_config old{};
  ORRERY_TRY(config.get(&zero, &old));
  if (old.abi_version != ORRERY_SWITCH_ABI_VERSION) return false;
  for (uint32_t i = 0; i < ifindexes.size(); ++i) {
    orrery_switch_port port{};
    ORRERY_TRY(ports.get(&i, &port));
    if (port.ifindex != ifindexes[i]) return false;
  }
  ORRERY_TRY(state_->rules.adopt(rules, old));
  return true;
}

Status DataPlane::bind(uint8_t port, uint32_t ifindex) {
  auto& state = *state_;
  const uint32_t index = port;
  orrery_switch_port entry{};
  entry.ifindex = ifindex;
  std::copy_n(state.table.ports[port].own_mac.begin(), 6, entry.own_mac);
  std::copy_n(state.table.ports[port].peer_mac.begin(), 6, entry.peer_mac);
  if (state.ifindexes[port] != 0 && state.ifindexes[port] != ifindex) state.port_by_if.erase(&state.ifindexes[port]);
  ORRERY_TRY(state.ports.put(&index, &entry));
  ORRERY_TRY(state.port_by_if.put(&ifindex, &index));
  state.ifindexes[port] = ifindex;
  return {};
}

Status DataPlane::attach(uint8_t port) {
  const auto& state = *state_;
  const uint32_t ifindex = state.ifindexes[port];
  auto hook = make_hook(ifindex, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
  if (const int rc = bpf_tc_hook_create(&hook); rc != 0 && rc != -EEXIST)
    return attach_error(ifindex, "create the clsact hook", -rc);
  if (state.queue)
    ORRERY_TRY(attach_program(ifindex, BPF_TC_EGRESS, bpf_program__fd(state.queue->progs.switch_egress)));
  return attach_program(ifindex, BPF_TC_INGRESS, forward_program_fd());
}

void DataPlane::detach(uint8_t port) {
  const uint32_t ifindex = std::exchange(state_->ifindexes[port], 0);
  if (ifindex == 0) return;
  for (const auto point : {BPF_TC_INGRESS, BPF_TC_EGRESS}) {
    const auto hook = make_hook(ifindex, point);
    const auto filter = make_filter();
    bpf_tc_detach(&hook, &filter);
  }
}

void DataPlane::set_ports_up(uint64_t ports) {
  __atomic_store_n(&state_->config->ports_up, ports, __ATOMIC_RELEASE);
}
uint64_t DataPlane::ports_up() const {
  return state_->config->ports_up;
}
RuleStore& DataPlane::rules() {
  return state_->rules;
}
bool DataPlane::has_queue_depth() const {
  return state_->queue != nullptr;
}
const std::string& DataPlane::queue_problem() const {
  return state_->queue_problem;
}
int DataPlane::forward_program_fd() const {
  return bpf_program__fd(state_->forward->progs.switch_ingress);
}

Result<orrery_switch_port_counters> DataPlane::read_counters(uint8_t port) const {
  ORRERY_ASSIGN(const auto per_cpu, state_->counters.get_per_cpu<orrery_switch_port_counters>(port));
  orrery_switch_port_counters sum{};
  for (const auto& cpu : per_cpu) {
    sum.rx_packets += cpu.rx_packets;
    sum.rx_bytes += cpu.rx_bytes;
    sum.no_route += cpu.no_route;
    sum.ttl_expired += cpu.ttl_expired;
    sum.unsupported += cpu.unsupported;
    sum.malformed += cpu.malformed;
    sum.rule_hits += cpu.rule_hits;
    sum.diverted += cpu.diverted;
  }
  return sum;
}

Result<std::vector<QueueReading>> DataPlane::read_queues() {
  std::vector<QueueReading> readings(state_->table.ports.size());
  if (!state_->queue) return readings;
  const uint32_t epoch = state_->config->queue_epoch, parity = epoch & 1;
  __atomic_store_n(&state_->config->queue_epoch, epoch + 1, __ATOMIC_RELEASE);
  for (size_t i = 0; i < readings.size(); ++i) {
    ORRERY_ASSIGN(const auto per_cpu, state_->queues.get_per_cpu<orrery_switch_queue>(static_cast<uint32_t>(i)));
    for (const auto& cpu : per_cpu) {
      readings[i].packets += cpu.packets;
      readings[i].bytes += cpu.bytes;
      readings[i].backlog_bytes_sum += cpu.backlog_bytes_sum;
      if (cpu.max_epoch[parity] == epoch)
        readings[i].backlog_bytes_max = std::max(readings[i].backlog_bytes_max, cpu.backlog_bytes_max[parity]);
    }
  }
  return readings;
}

}  // namespace orrery::drivers::ebpf
