#include "tools/planning/estimate/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace orrery::planning {
namespace {

using sim::Op;

constexpr uint32_t kParts = 4;         // of the forward and of the backward pass
constexpr uint32_t kNicsPerLeaf = 32;  // of the fabric that is made
constexpr uint32_t kRingSteps = 8;     // rings in so many, for speed

class Writer {
 public:
  Writer(const Estimate& estimate, const ScenarioOptions& options) : e_(estimate), t_(estimate.training), o_(options) {}

  Result<std::string> write() {
    const uint64_t share = std::max(1u, t_.gpus_per_host / t_.nics_per_host);
    if (t_.ranks() % share != 0)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} GPUs do not divide over NICs that {} share", t_.ranks(), share)};
    const uint64_t hosts = t_.ranks() / share;
    if (hosts < 2) return Error{ErrorCode::kInvalidArgument, "all GPUs share one NIC: there is no traffic to simulate"};
    add("# {} with tensor {}, pipeline {}, data {}, expert {}; ZeRO {}; {} micro batches of {}\n", t_.model.name,
        t_.tensor, t_.pipeline, t_.data, t_.expert, t_.zero, e_.micro_batches, t_.micro_batch);
    add("# Made by 'orreryctl estimate'. A host is one NIC; what stays within a server is part of the computation.\n");
    if (t_.nics_per_host > 1 && t_.gpus_per_host > 1)
      add("# {} hosts are a server: 'orreryctl place --together {}' keeps them so.\n", nics_of_server(),
          nics_of_server());
    add_topology(hosts);
    add("schemes: [ecmp, orrery]\nseeds: 1\nengine: {{kind: fluid}}\njobs:\n");
    add("  - name: {}\n    hosts: {}\n    ranks_per_host: {}\n    iterations: {}\n    max_steps: {}\n    steps:\n",
        o_.name, hosts, share, o_.iterations, kRingSteps);
    add_steps();
    return std::move(text_);
  }

 private:
  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
  }

  uint32_t nics_of_server() const { return std::min(t_.gpus_per_host, t_.nics_per_host); }

  void add_topology(uint64_t hosts) {
    if (!o_.topology.empty()) {
      add("topology: {{file: \"{}\"}}\n", o_.topology);
      return;
    }
    const uint64_t leaves = std::max<uint64_t>(2, (hosts + kNicsPerLeaf - 1) / kNicsPerLeaf);
    const uint64_t per_leaf = (hosts + leaves - 1) / leaves;
    const uint64_t nics_per_gpu = std::max(1u, t_.nics_per_host / t_.gpus_per_host);
    add("topology: {{leaf_spine: {{leaves: {}, spines: {}, hosts: {}, rate_bps: {}}}}}\n", leaves, per_leaf,
        leaves * per_leaf, t_.nic_bps * nics_per_gpu);
  }

  void add_compute(double seconds) {
    if (seconds > 0) add("      - {{compute_us: {:.3f}}}\n", seconds * 1e6);
  }

  void add_step(Op op, double bytes, uint32_t size, uint32_t stride, bool overlapped, std::string_view more = "") {
    if (bytes < 1) return;
    add("      - {{op: {}, bytes: {:.0f}, group: {{size: {}, stride: {}}}{}{}}}\n", sim::name_of(op), bytes, size,
        stride, overlapped ? ", overlapped: true" : "", more);
  }

  // `share` of all that is sent of this kind. What goes round within a host is left out: of n ranks, g on each host,
  // n / g exchange what leaves the hosts.
  void add_share(const Communication& c, double share) {
    const double all = static_cast<double>(c.bytes) * static_cast<double>(c.count) * share;
    const bool overlapped = c.overlap != Overlap::kNone;
    if (c.group == "embedding") {
      // The first and the last of a pipeline's ranks, which are no group of equal strides.
      const uint32_t stride = t_.tensor * t_.data, last = t_.pipeline - 1;
      add_step(Op::kSendRecv, all, t_.pipeline, stride, overlapped, fmt::format(", root: 0, peer: {}", last));
      add_step(Op::kSendRecv, all, t_.pipeline, stride, overlapped, fmt::format(", root: {}, peer: 0", last));
      return;
    }
    const uint32_t hosts = c.size / c.together;
    double bytes = all;
    if (c.op != Op::kAllToAll && c.op != Op::kSendRecv) {
      const double of_all = static_cast<double>(c.size - 1) / c.size, of_hosts = static_cast<double>(hosts - 1) / hosts;
      bytes = all / c.together * of_all / of_hosts;
    }
    add_step(c.op, std::round(bytes), hosts, c.stride * c.together, overlapped);
  }

  template <typename Wanted>
  void add_all(double share, Wanted wanted) {
    for (const Communication& c : e_.communications)
      if (c.network && wanted(c)) add_share(c, share);
  }

  void add_steps() {
    const double inside = e_.exposed_s - e_.exposed_network_s;
    const double forward = e_.forward_s / (e_.forward_s + e_.backward_s);
    const double busy = e_.compute_s + e_.bubble_s + inside;
    const auto within = [](const Communication& c) {
      return c.overlap == Overlap::kPipeline || (c.overlap == Overlap::kNone && (c.group == "tp" || c.group == "ep"));
    };
    for (uint32_t i = 0; i < kParts; ++i) {
      add_all(1.0 / kParts, [](const Communication& c) { return c.overlap == Overlap::kForward; });
      add_compute(busy * forward / kParts);
      add_all(0.5 / kParts, within);
    }
    for (uint32_t i = 0; i < kParts; ++i) {
      add_compute(busy * (1 - forward) / kParts);
      add_all(0.5 / kParts, within);
      add_all(1.0 / kParts, [](const Communication& c) { return c.overlap == Overlap::kBackward; });
    }
    add_all(1, [&](const Communication& c) { return c.overlap == Overlap::kNone && !within(c); });
  }

  const Estimate& e_;
  const Training& t_;
  const ScenarioOptions& o_;
  std::string text_;
};

}  // namespace

Result<std::string> scenario_of(const Estimate& estimate, const ScenarioOptions& options) {
  return Writer(estimate, options).write();
}

}  // namespace orrery::planning
