#include "tools/planning/estimate/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::planning {
namespace {

using sim::Op;

Error wrong(std::string text) {
  return {ErrorCode::kInvalidArgument, std::move(text)};
}

uint64_t padded_vocabulary(const Training& training) {
  const uint64_t step = training.tensor > 1 ? 128ull * training.tensor : 1;  // as Megatron pads
  return (training.model.vocabulary + step - 1) / step * step;
}

Status check_parallelism(const Training& t) {
  if (t.tensor == 0 || t.pipeline == 0 || t.data == 0 || t.expert == 0 || t.virtual_stages == 0)
    return wrong("every kind of parallelism is 1 at least");
  if (t.ranks() > 16u << 20) return wrong(fmt::format("{} GPUs; at most {}", t.ranks(), 16u << 20));
  if (t.model.heads % t.tensor != 0)
    return wrong(fmt::format("{} heads do not divide over {} tensor-parallel ranks", t.model.heads, t.tensor));
  const uint64_t stages = uint64_t{t.pipeline} * t.virtual_stages;
  if (stages > t.model.layers)
    return wrong(fmt::format("{} layers are fewer than {} pipeline stages", t.model.layers, stages));
  if (t.virtual_stages > 1 && t.pipeline == 1) return wrong("virtual stages need --pp of 2 or more");
  if (t.data % t.expert != 0)
    return wrong(
        fmt::format("{} data-parallel ranks do not divide into groups of {} expert-parallel ones", t.data, t.expert));
  if (t.model.experts % t.expert != 0)
    return wrong(fmt::format("{} experts do not divide over {} expert-parallel ranks", t.model.experts, t.expert));
  if (t.zero > 3) return wrong(fmt::format("ZeRO has the stages 0 to 3, not {}", t.zero));
  if (t.zero >= 2 && t.pipeline > 1)
    return wrong(fmt::format("ZeRO {} gives away gradients that a pipeline still adds to; take --zero 1 with --pp {}",
                             t.zero, t.pipeline));
  return {};
}

Status check_machines(const Training& t) {
  if (t.gpus_per_host == 0 || t.nics_per_host == 0 || t.nic_bps == 0 || t.nvlink_bps == 0)
    return wrong("hosts have at least one GPU and one NIC, of a rate above 0");
  if (t.gpus_per_host % t.nics_per_host != 0 && t.nics_per_host % t.gpus_per_host != 0)
    return wrong(fmt::format("{} NICs do not divide among {} GPUs", t.nics_per_host, t.gpus_per_host));
  if (t.gpus_per_host % t.tensor != 0 && t.tensor % t.gpus_per_host != 0)
    return wrong(
        fmt::format("tensor-parallel groups of {} do not divide among hosts of {} GPUs", t.tensor, t.gpus_per_host));
  if (!(t.gpu_flops > 0) || !(t.utilisation > 0 && t.utilisation <= 1))
    return wrong("GPUs have operations per second, of which more than 0 and at most all are reached");
  if (!(t.allowed_overhead > 0)) return wrong("the allowed overhead is above 0");
  return {};
}

Result<uint32_t> micro_batches(const Training& t) {
  const uint64_t step = uint64_t{t.micro_batch} * t.data;
  if (t.micro_batch == 0) return wrong("a micro batch has one sequence at least");
  const uint64_t global = t.global_batch != 0 ? t.global_batch : step * t.pipeline;
  if (global % step != 0)
    return wrong(fmt::format("a global batch of {} does not divide into {} micro batches of {}; take {} or {}", global,
                             t.data, t.micro_batch, std::max<uint64_t>(step, global / step * step),
                             (global / step + 1) * step));
  return static_cast<uint32_t>(global / step);
}

double wire_factor(Op op, uint32_t ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Op::kAllReduce:
      return 2 * share;
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllToAll:
      return share;
    default:
      return 1;
  }
}

class Estimator {
 public:
  Estimator(const Training& training, uint32_t batches) : t_(training), m_(training.model) {
    e_.training = training;
    e_.micro_batches = batches;
  }

  Estimate run() {
    count_parameters();
    compute();
    tensor_parallel();
    expert_parallel();
    pipeline_parallel();
    data_parallel("gradients", "weights", "dp", t_.data, t_.tensor, dense_);
    if (t_.expert > 1)
      data_parallel("expert gradients", "expert weights", "edp", t_.data / t_.expert, t_.tensor * t_.expert, experts_);
    sum();
    return std::move(e_);
  }

 private:
  uint32_t stage_layers() const { return (m_.layers + t_.pipeline - 1) / t_.pipeline; }
  uint64_t activation_bytes() const { return uint64_t{m_.sequence} * t_.micro_batch * m_.hidden * t_.weight_bytes; }
  bool sequence_parallel() const { return t_.sequence_parallel && t_.tensor > 1; }
  // Whatever is waited for in a micro batch is waited for in the bubble too.
  double bubble_factor() const {
    return 1 + static_cast<double>(t_.pipeline - 1) / (static_cast<double>(t_.virtual_stages) * e_.micro_batches);
  }

  void count_parameters() {
    const LayerParameters layer = layer_parameters(m_);
    const EndParameters ends = end_parameters(m_, padded_vocabulary(t_));
    e_.parameters = total_parameters(m_);
    const uint64_t local_experts = m_.experts / t_.expert;
    dense_ = stage_layers() * (layer.attention / t_.tensor + layer.norms + layer.other);
    const uint64_t all_experts = stage_layers() * local_experts * layer.feed_forward / t_.tensor;
    (t_.expert > 1 ? experts_ : dense_) += all_experts;
    dense_ += ends.embedding / t_.tensor + ends.positions;
    if (t_.pipeline == 1) dense_ += ends.output / t_.tensor + ends.norm;
    norms_ = stage_layers() * layer.norms;
    e_.rank_parameters = dense_ + experts_;
  }

  void compute() {
    const double tokens = static_cast<double>(m_.sequence) * t_.micro_batch;
    const double rate = t_.gpu_flops * t_.utilisation * t_.tensor * t_.pipeline;
    e_.forward_s = forward_flops_per_token(m_) * tokens / rate;
    e_.backward_s = e_.forward_s * (t_.recompute ? 3 : 2);
    e_.compute_s = (e_.forward_s + e_.backward_s) * e_.micro_batches;
    e_.bubble_s = e_.compute_s * (bubble_factor() - 1);
  }

  void tensor_parallel() {
    if (t_.tensor == 1) return;
    const uint64_t layers = uint64_t{stage_layers()} * e_.micro_batches, bytes = activation_bytes();
    // An expert sees top_k times as many tokens as the part without experts.
    const uint64_t expert_bytes = bytes * m_.top_k;
    const auto add = [&](std::string purpose, Op op, uint64_t count, uint64_t each) {
      add_communication(
          {.purpose = std::move(purpose), .op = op, .group = "tp", .size = t_.tensor, .count = count, .bytes = each});
    };
    if (sequence_parallel()) {
      add("attention", Op::kAllGather, 3 * layers, bytes);
      add("attention", Op::kReduceScatter, 2 * layers, bytes);
      add("feed-forward", Op::kAllGather, 3 * layers, expert_bytes);
      add("feed-forward", Op::kReduceScatter, 2 * layers, expert_bytes);
      add("gradients of norms", Op::kAllReduce, 1, norms_ * t_.gradient_bytes);
    } else {
      add("attention", Op::kAllReduce, 2 * layers, bytes);
      add("feed-forward", Op::kAllReduce, 2 * layers, expert_bytes);
    }
    // Once in the first stage and once in the last.
    add("embedding and output", Op::kAllReduce, (t_.pipeline == 1 ? 2 : 1) * uint64_t{e_.micro_batches}, bytes);
    add("loss", Op::kAllReduce, 3ull * e_.micro_batches, uint64_t{m_.sequence} * t_.micro_batch * 4);
  }

  void expert_parallel() {
    if (t_.expert == 1) return;
    add_communication({.purpose = "tokens to experts and back",
                       .op = Op::kAllToAll,
                       .group = "ep",
                       .size = t_.expert,
                       .stride = t_.tensor,
                       .count = 4ull * stage_layers() * e_.micro_batches,
                       .bytes = activation_bytes() * m_.top_k / (sequence_parallel() ? t_.tensor : 1)});
  }

  void pipeline_parallel() {
    if (t_.pipeline == 1) return;
    const uint32_t stride = t_.tensor * t_.data;
    add_communication({.purpose = "activations and their gradients",
                       .op = Op::kSendRecv,
                       .group = "pp",
                       .size = t_.pipeline,
                       .stride = stride,
                       .count = 2ull * t_.virtual_stages * e_.micro_batches,
                       .bytes = activation_bytes() / t_.tensor,
                       .overlap = Overlap::kPipeline});
    if (m_.tied)
      add_communication({.purpose = "gradients of the embedding",
                         .op = Op::kAllReduce,
                         .group = "embedding",
                         .size = 2,
                         .stride = stride * (t_.pipeline - 1),
                         .count = 1,
                         .bytes = end_parameters(m_, padded_vocabulary(t_)).embedding / t_.tensor * t_.gradient_bytes});
  }

  // `parameters` of one rank, over `size` ranks that have the same.
  void data_parallel(const std::string& gradients, const std::string& weights, const std::string& group, uint32_t size,
                     uint32_t stride, uint64_t parameters) {
    if (size == 1 || parameters == 0) return;
    const auto add = [&](const std::string& purpose, Op op, uint64_t count, uint64_t each, Overlap overlap) {
      add_communication({.purpose = purpose,
                         .op = op,
                         .group = group,
                         .size = size,
                         .stride = stride,
                         .count = count,
                         .bytes = each,
                         .overlap = overlap});
    };
    const uint64_t reduced = parameters * t_.gradient_bytes, gathered = parameters * t_.weight_bytes;
    const bool all_reduce = t_.zero == 0 || (t_.zero == 2 && t_.bucket_all_reduce);
    // Who gives gradients away cannot add to them: reduced after every micro batch.
    add(gradients, all_reduce ? Op::kAllReduce : Op::kReduceScatter, t_.zero >= 2 ? e_.micro_batches : 1, reduced,
        Overlap::kBackward);
    if (t_.zero == 1 || t_.zero == 2)
      add(weights, Op::kAllGather, 1, gathered, t_.overlap_gather ? Overlap::kForward : Overlap::kNone);
    if (t_.zero == 3) {
      add(weights, Op::kAllGather, e_.micro_batches, gathered, Overlap::kForward);
      add(weights, Op::kAllGather, e_.micro_batches, gathered, Overlap::kBackward);
    }
  }

  void add_communication(Communication c) {
    c.together = std::clamp(t_.gpus_per_host / c.stride, 1u, c.size);
    const double all = static_cast<double>(c.bytes) * static_cast<double>(c.count);
    c.network = c.together < c.size;
    c.wire_bytes = wire_factor(c.op, c.size) * all;
    if (c.network) {
      const double gpus_per_nic = static_cast<double>(t_.gpus_per_host) / t_.nics_per_host;
      // Rings leave a host once for all its ranks of the group; all-to-alls and sends leave from each.
      const double leaving = c.op == Op::kAllToAll   ? all * (c.size - c.together) / c.size
                             : c.op == Op::kSendRecv ? all
                                                     : c.wire_bytes / c.together;
      c.nic_bytes = leaving * gpus_per_nic;
    }
    e_.communications.push_back(std::move(c));
  }

  double seconds(const Communication& c, double nic_bps) const {
    const double inside = c.together > 1 ? c.wire_bytes * 8 / static_cast<double>(t_.nvlink_bps) : 0;
    return std::max(inside, c.nic_bytes * 8 / nic_bps);
  }

  double window(const Communication& c) const {
    switch (c.overlap) {
      case Overlap::kBackward:
        return e_.backward_s * static_cast<double>(c.count);
      case Overlap::kForward:
        return e_.forward_s * static_cast<double>(c.count);
      case Overlap::kPipeline:
        return e_.forward_s / t_.virtual_stages * static_cast<double>(c.count);
      default:
        return 0;
    }
  }

  // Of several that overlap with one pass, each has its share of it, by time.
  double exposed(const Communication& c, double nic_bps) const {
    const double time = seconds(c, nic_bps);
    if (c.overlap == Overlap::kNone) return c.count > 1 ? time * bubble_factor() : time;
    if (c.overlap == Overlap::kPipeline) {
      const double filling = time / static_cast<double>(c.count) * 2 * (t_.pipeline - 1);
      return filling + std::max(0.0, time - window(c));
    }
    double rivals = 0;
    for (const Communication& other : e_.communications)
      if (other.overlap == c.overlap) rivals += seconds(other, nic_bps);
    const double own_window = rivals > 0 ? window(c) * time / rivals : 0;
    // Nothing hides the part of the layer that is reduced last or gathered first.
    return std::max(time / stage_layers(), time - own_window);
  }

  double network_exposure(double nic_bps) const {
    double all = 0;
    for (const Communication& c : e_.communications)
      if (c.network) all += exposed(c, nic_bps);
    return all;
  }

  double needed_rate(double most_exposed_s) const {
    double low = 1e6, high = 1e16;
    if (network_exposure(low) <= most_exposed_s) return 0;
    if (network_exposure(high) > most_exposed_s) return INFINITY;  // NVLink alone takes longer
    for (int i = 0; i < 100; ++i) {
      const double middle = std::sqrt(low * high);
      (network_exposure(middle) > most_exposed_s ? low : high) = middle;
    }
    return high;
  }

  void sum() {
    const auto nic_bps = static_cast<double>(t_.nic_bps);
    for (Communication& c : e_.communications) {
      c.seconds = seconds(c, nic_bps);
      c.window_s = window(c);
      c.exposed_s = exposed(c, nic_bps);
      double nic_bytes = 0;  // of all that share the window
      for (const Communication& other : e_.communications)
        if (other.overlap == c.overlap) nic_bytes += other.nic_bytes;
      if (c.window_s > 0 && c.network) c.needed_bps = nic_bytes * 8 / c.window_s;
      e_.exposed_s += c.exposed_s;
      if (c.network) e_.exposed_network_s += c.exposed_s;
    }
    e_.iteration_s = e_.compute_s + e_.bubble_s + e_.exposed_s;
    e_.tokens_per_s = static_cast<double>(m_.sequence) * t_.micro_batch * t_.data * e_.micro_batches / e_.iteration_s;
    e_.needed_nic_bps = needed_rate(t_.allowed_overhead * e_.compute_s);
  }

  const Training& t_;
  const Model& m_;
  uint64_t dense_ = 0, experts_ = 0, norms_ = 0;  // parameters of a rank
  Estimate e_;
};

}  // namespace

std::string_view name_of(Overlap overlap) {
  constexpr std::array<std::string_view, 4> kNames{"nothing", "backward", "forward", "pipeline"};
  return kNames[static_cast<size_t>(overlap)];
}

Result<Estimate> estimate(const Training& training) {
  ORRERY_TRY(check(training.model));
  ORRERY_TRY(check_parallelism(training));
  ORRERY_TRY(check_machines(training));
  ORRERY_ASSIGN(const uint32_t batches, micro_batches(training));
  return Estimator(training, batches).run();
}

}  // namespace orrery::planning
