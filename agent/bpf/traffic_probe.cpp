#include "agent/bpf/traffic_probe.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "bpf/host_traffic.skel.h"

namespace orrery::bpf {
namespace {

// Marks the agent's filters among those of others, so that a restart finds and replaces them.
constexpr uint32_t kFilterHandle = 0x4f52;
constexpr uint32_t kFilterPriority = 20000;
constexpr uint8_t kLeaveDscp = 0xff;

Error load_error(int code) {
  if (code == EPERM || code == EACCES)
    return {ErrorCode::kUnavailable,
            "the kernel refuses BPF programs to this process; give it CAP_BPF, CAP_NET_ADMIN and "
            "CAP_PERFMON, or set bpf.mode to off"};
  return {ErrorCode::kUnavailable,
          fmt::format(
              "this kernel does not take the host's BPF program ({}); it needs Linux 5.13 or newer with BTF, or set "
              "bpf.mode to off",
              std::strerror(code))};
}

// libbpf writes to stderr by itself otherwise; what matters comes back as an error.
int log_quietly(enum libbpf_print_level, const char* format, va_list arguments) {
  char line[512];
  std::vsnprintf(line, sizeof line, format, arguments);
  spdlog::debug("libbpf: {}", std::string_view(line, std::strcspn(line, "\n")));
  return 0;
}

bpf_tc_hook hook_of(int ifindex, bpf_tc_attach_point point) {
  bpf_tc_hook hook{};
  hook.sz = sizeof hook;
  hook.ifindex = ifindex;
  hook.attach_point = point;
  return hook;
}

bpf_tc_opts filter() {
  bpf_tc_opts options{};
  options.sz = sizeof options;
  options.handle = kFilterHandle;
  options.priority = kFilterPriority;
  return options;
}

bool attach(int ifindex, bpf_tc_attach_point point, const bpf_program* program) {
  bpf_tc_hook hook = hook_of(ifindex, point);
  if (const int rc = bpf_tc_hook_create(&hook); rc != 0 && rc != -EEXIST) return false;
  bpf_tc_opts options = filter();
  options.prog_fd = bpf_program__fd(program);
  options.flags = BPF_TC_F_REPLACE;
  return bpf_tc_attach(&hook, &options) == 0;
}

void detach(int ifindex, bpf_tc_attach_point point) {
  bpf_tc_hook hook = hook_of(ifindex, point);
  bpf_tc_opts options = filter();
  bpf_tc_detach(&hook, &options);
}

std::optional<orrery_host_flow_key> key_of(const FiveTuple& tuple) {
  const auto src = tuple.src.v4(), dst = tuple.dst.v4();
  if (!src || !dst) return std::nullopt;
  orrery_host_flow_key key{};
  key.local_address = htonl(*src);
  key.remote_address = htonl(*dst);
  key.local_port = htons(tuple.src_port);
  key.remote_port = htons(tuple.dst_port);
  key.protocol = tuple.protocol;
  return key;
}

bool same(const orrery_host_mark_key& a, const orrery_host_mark_key& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

struct TrafficProbe::Programs {
  host_traffic_bpf* object = nullptr;
  bpf_link* retransmit = nullptr;
  int ifindex = 0;

  ~Programs() {
    bpf_link__destroy(retransmit);
    if (ifindex != 0) {
      detach(ifindex, BPF_TC_EGRESS);
      detach(ifindex, BPF_TC_INGRESS);
    }
    host_traffic_bpf__destroy(object);
  }
};

Result<TrafficProbe> TrafficProbe::create(const std::string& interface) {
  const int ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (ifindex == 0)
    return Error{ErrorCode::kInvalidArgument, fmt::format("agent.interface '{}' does not exist", interface)};
  libbpf_set_print(log_quietly);
  auto programs = std::make_unique<Programs>();
  programs->object = host_traffic_bpf__open();
  if (programs->object == nullptr) return load_error(errno);
  if (const int rc = host_traffic_bpf__load(programs->object); rc != 0) return load_error(-rc);
  programs->ifindex = ifindex;
  TrafficProbe probe(std::move(programs));
  if (probe.features_.empty())
    return Error{ErrorCode::kUnavailable,
                 fmt::format("no BPF program can be attached to '{}'; the kernel needs clsact and the BPF classifier "
                             "(CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF), or set bpf.mode to off",
                             interface)};
  return probe;
}

TrafficProbe::TrafficProbe(std::unique_ptr<Programs> programs) : programs_(std::move(programs)) {
  const host_traffic_bpf& object = *programs_->object;
  const bool ingress = attach(programs_->ifindex, BPF_TC_INGRESS, object.progs.orrery_host_ingress);
  const bool egress = attach(programs_->ifindex, BPF_TC_EGRESS, object.progs.orrery_host_egress);
  if (egress && ingress) features_.emplace_back("bpf-flows");
  if (egress) features_.emplace_back("bpf-dscp");
  if (egress || ingress)
    programs_->retransmit =
        bpf_program__attach_raw_tracepoint(object.progs.orrery_host_retransmit, "tcp_retransmit_skb");
  if (programs_->retransmit != nullptr) features_.emplace_back("bpf-retransmits");
}

TrafficProbe::TrafficProbe(TrafficProbe&&) noexcept = default;
TrafficProbe::~TrafficProbe() = default;

std::optional<orrery_host_flow> TrafficProbe::flow(const FiveTuple& tuple) const {
  const auto key = key_of(tuple);
  orrery_host_flow flow{};
  if (!key || bpf_map_lookup_elem(bpf_map__fd(programs_->object->maps.flows), &*key, &flow) != 0) return std::nullopt;
  return flow;
}

void TrafficProbe::set_marks(std::span<const orrery_plan_entry> plan, uint64_t valid_until_ns) {
  const int map = bpf_map__fd(programs_->object->maps.marks);
  std::vector<orrery_host_mark_key> marked;
  for (const orrery_plan_entry& entry : plan) {
    if (entry.dscp == kLeaveDscp || marked.size() == ORRERY_HOST_MARK_MAX) continue;
    const auto src = IpAddress::from_bytes(entry.local_address).v4(),
               dst = IpAddress::from_bytes(entry.remote_address).v4();
    if (!src || !dst) continue;
    orrery_host_mark_key key{};
    key.local_address = htonl(*src);
    key.remote_address = htonl(*dst);
    key.protocol = entry.protocol;
    const orrery_host_mark mark{valid_until_ns, entry.dscp, 0};
    if (bpf_map_update_elem(map, &key, &mark, BPF_ANY) == 0) marked.push_back(key);
  }
  for (const orrery_host_mark_key& old : marked_) {
    const bool kept = std::any_of(marked.begin(), marked.end(), [&](const auto& key) { return same(key, old); });
    if (!kept) bpf_map_delete_elem(map, &old);
  }
  marked_ = std::move(marked);
}

}  // namespace orrery::bpf
