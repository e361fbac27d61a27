// SimAI's (ASTRA-sim's) text: a header of the parallelism, the number of layers, then per layer the computation and the
// collective of the forward, input-gradient and weight-gradient pass. Times are nanoseconds, sizes those of the array.
//
// An iteration is the forward pass of all layers in order, then the two backward passes from the last to the first.
// Collectives of the weight gradients overlap what follows; the others hold the ranks up. Forward and input-gradient
// collectives are of the model-parallel group (of all ranks where that is 1), weight gradients of the data-parallel
// one; the suffixes _EP and _DP_EP name expert groups.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/sim/workload/job_file.h"

namespace orrery::sim {
namespace {

struct Pass {
  Time compute = 0;
  std::optional<Collective> collective;
  std::string suffix;  // "", "_EP", "_DP_EP"
};

struct Layer {
  uint64_t line = 0;
  std::array<Pass, 3> passes;  // forward, input gradient, weight gradient
  Time update = 0;
};

class SimaiReader {
 public:
  SimaiReader(const Input& input, const ReadOptions& options) : input_(input), options_(options) {}

  Result<Workload> read() {
    size_t position = 0;
    while (position < input_.text.size()) {
      ++line_;
      const std::string_view line = trimmed(next_line(input_.text, position));
      if (line.empty() || line.front() == '#') continue;
      const auto tokens = words_of(line);
      if (kind_.empty() || tokens[0] == kind_) {
        ORRERY_TRY(read_header(tokens));
      } else if (tokens.size() == 1) {
        ORRERY_TRY(read_count(tokens[0]));
      } else {
        ORRERY_TRY(read_layer(tokens));
      }
    }
    return finish();
  }

 private:
  Error at(std::string_view what) const { return line_error(input_.name, line_, what); }

  // KIND key: value key: value ...
  Status read_header(const std::vector<std::string_view>& tokens) {
    kind_ = tokens[0];
    if (kind_.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != std::string::npos || kind_.size() > 64)
      return at(
          fmt::format("{} is no kind of workload; SimAI's files begin with HYBRID_TRANSFORMER_FWD_IN_BCKWD or "
                      "MICRO",
                      shown(kind_)));
    for (size_t i = 1; i + 1 < tokens.size(); ++i) {
      if (tokens[i].back() != ':') continue;
      uint64_t value = 0;
      if (!parse_whole(tokens[i + 1], value)) continue;
      if (value > kMaxFileRanks) return at(fmt::format("{} {} is too large", shown(tokens[i]), value));
      settings_[std::string(tokens[i].substr(0, tokens[i].size() - 1))] = static_cast<uint32_t>(value);
    }
    return {};
  }

  Status read_count(std::string_view token) {
    uint64_t count = 0;
    if (!parse_whole(token, count)) return at(fmt::format("{} is no number of layers", shown(token)));
    if (has_count_ && count != count_)
      return at(fmt::format("{} layers, but {} further up; split the file", count, count_));
    has_count_ = true;
    count_ = count;
    return {};
  }

  Status read_layer(const std::vector<std::string_view>& tokens) {
    constexpr size_t kFields = 12;
    if (!has_count_) return at("a layer before the number of layers, which is the line below the header");
    if (tokens.size() < kFields)
      return at(
          fmt::format("{} fields; a layer has {}: name, dependency, and time, collective and bytes of three "
                      "passes, and the update's time",
                      tokens.size(), kFields));
    Layer layer{.line = line_, .passes = {}, .update = 0};
    for (size_t pass = 0; pass < 3; ++pass)
      ORRERY_TRY(read_pass(tokens[2 + 3 * pass], tokens[3 + 3 * pass], tokens[4 + 3 * pass], layer.passes[pass]));
    ORRERY_TRY(read_time(tokens[11], layer.update));
    layers_.push_back(std::move(layer));
    return {};
  }

  Status read_time(std::string_view token, Time& time) {
    double ns = 0;
    if (!parse_real(token, ns) || ns < 0 || ns > static_cast<double>(kMaxComputeNs))
      return at(fmt::format("{} is no time in nanoseconds", shown(token)));
    time = static_cast<Time>(ns * static_cast<double>(kPerNs));
    return {};
  }

  Status read_pass(std::string_view time, std::string_view type, std::string_view size, Pass& pass) {
    ORRERY_TRY(read_time(time, pass.compute));
    uint64_t bytes = 0;
    if (!parse_whole(size, bytes) || bytes > kMaxCollectiveBytes)
      return at(fmt::format("{} is no number of bytes", shown(size)));
    if (type == "NONE") return {};
    for (const std::string_view suffix : {"_DP_EP", "_EP"})
      if (type.ends_with(suffix)) {
        pass.suffix = suffix;
        type.remove_suffix(suffix.size());
        break;
      }
    const auto op = op_of(type);
    if (!op)
      return at(
          fmt::format("the collective {} is unknown; take NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL, "
                      "BROADCAST or REDUCE",
                      shown(type)));
    if (bytes != 0) pass.collective = Collective{.op = *op, .bytes = bytes};
    return {};
  }

  uint32_t setting(const char* name, uint32_t otherwise) const {
    const auto found = settings_.find(name);
    return found == settings_.end() || found->second == 0 ? otherwise : found->second;
  }

  Result<Workload> finish() {
    if (kind_.empty()) return Error{ErrorCode::kInvalidArgument, input_.name + ": is empty"};
    if (layers_.size() != count_)
      return Error{ErrorCode::kInvalidArgument, fmt::format("{}: has {} layers and announces {}; is it cut off?",
                                                            input_.name, layers_.size(), count_)};
    if (layers_.empty()) return Error{ErrorCode::kInvalidArgument, input_.name + ": has no layers"};
    const uint32_t told = setting("all_gpus", 0), ranks = options_.ranks != 0 ? options_.ranks : told;
    if (told != 0 && told != ranks)
      return Error{ErrorCode::kInvalidArgument, fmt::format("{}: is of {} ranks (all_gpus:), not {}; leave {} out",
                                                            input_.name, told, ranks, options_.names.ranks)};
    if (ranks == 0)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: does not say how many ranks there are (all_gpus:); give {}", input_.name,
                               options_.names.ranks)};
    ORRERY_ASSIGN(Job job, job_of_file(input_.name, ranks, options_));
    for (const Layer& layer : layers_) ORRERY_TRY(add_step(layer, 0, job));
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      ORRERY_TRY(add_step(*layer, 1, job));
      ORRERY_TRY(add_step(*layer, 2, job));
    }
    return workload_of(std::move(job));
  }

  Status add_step(const Layer& layer, size_t pass_number, Job& job) {
    const Pass& pass = layer.passes[pass_number];
    const bool weights = pass_number == 2;
    JobStep step{.compute = pass.compute + (weights ? layer.update : 0), .collective = pass.collective};
    if (step.collective) {
      step.overlapped = weights && kind_ != "MICRO";
      step.group = group_of(pass, weights, job.ranks());
      ORRERY_TRY(check_group(input_.name, layer.line, step.group, job.ranks()));
    }
    if (step.collective || step.compute != 0) job.steps.push_back(step);
    return {};
  }

  Group group_of(const Pass& pass, bool weights, uint32_t ranks) const {
    const uint32_t model = setting("model_parallel_NPU_group", 1), expert = setting("ep", 1);
    const uint32_t stages = setting("pp", 1);
    const uint64_t data = std::max<uint64_t>(1, ranks / std::max<uint64_t>(1, uint64_t{model} * stages));
    if (pass.suffix == "_EP") return {expert, model};
    if (pass.suffix == "_DP_EP")
      return {static_cast<uint32_t>(std::max<uint64_t>(1, data / expert)),
              static_cast<uint32_t>(std::min<uint64_t>(uint64_t{model} * expert, kMaxFileRanks))};
    if (!weights && model > 1) return {model, 1};
    return {static_cast<uint32_t>(data), model};
  }

  const Input& input_;
  const ReadOptions& options_;
  uint64_t line_ = 0;
  std::string kind_;
  std::map<std::string, uint32_t> settings_;
  bool has_count_ = false;
  uint64_t count_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace

Result<Workload> read_simai(const Input& input, const ReadOptions& options) {
  return SimaiReader(input, options).read();
}

}  // namespace orrery::sim
