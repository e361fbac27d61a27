// AICB's CSV: a header, then a line per collective, as one rank of a training run issues them.
//
// Lines up to the first epoch_end are set-up, those of each further epoch an iteration; epochs that differ make one
// long iteration. Groups are laid out as Megatron does: tensor-parallel ranks next to each other, then expert-, then
// data-parallel ones, then pipeline stages. Sizes are those of the whole array. Times of computations are nanoseconds
// (AICB's measured microseconds, times 1000). An isend of the pipeline is one of every rank to the next stage, and the
// irecv its other end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/sim/workload/job_file.h"

namespace orrery::sim {
namespace {

constexpr std::array<std::string_view, 6> kColumns{"comm_type", "comm_group",    "comm_group_size",
                                                   "msg_size",  "_elapsed_time", "count"};
enum Column : size_t { kType, kGroup, kSize, kBytes, kElapsed, kCount };

struct Row {
  uint64_t line = 0;
  JobStep step;
  std::string group;  // resolved when all sizes are known
  uint64_t count = 1;
};

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

bool is_header(std::string_view line) {
  return line.find("comm_type") != std::string_view::npos && line.find("comm_group") != std::string_view::npos;
}

class AicbReader {
 public:
  AicbReader(const Input& input, const ReadOptions& options) : input_(input), options_(options) {}

  Result<Workload> read() {
    size_t position = 0;
    epochs_.emplace_back();
    while (position < input_.text.size()) {
      ++line_;
      const std::string_view line = trimmed(next_line(input_.text, position));
      last_line_ = position == input_.text.size() && input_.text.back() != '\n';
      if (line.empty()) continue;
      if (line.front() == '[') {
        ORRERY_TRY(read_ranks(line));
      } else if (is_header(line)) {
        ORRERY_TRY(read_header(line));
      } else {
        ORRERY_TRY(read_row(line));
      }
    }
    return finish();
  }

 private:
  Error at(std::string_view what) const { return line_error(input_.name, line_, what); }

  // [rank0 ~ rank127]
  Status read_ranks(std::string_view line) {
    const size_t last = line.rfind("rank");
    uint64_t number = 0;
    if (last == std::string_view::npos || line.back() != ']' ||
        !parse_whole(line.substr(last + 4, line.size() - last - 5), number) || number >= kMaxFileRanks)
      return at(fmt::format("{} names no ranks; write [rank0 ~ rank127]", shown(line)));
    const auto ranks = static_cast<uint32_t>(number + 1);
    if (ranks_ != 0 && ranks_ != ranks)
      return at(fmt::format("{} ranks, but {} further up; split the file", ranks, ranks_));
    ranks_ = ranks;
    return {};
  }

  // Shapes of computations are written with brackets, and the commas inside them are no ends of fields.
  static std::vector<std::string_view> split(std::string_view line) {
    std::vector<std::string_view> fields;
    size_t start = 0, depth = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '(') ++depth;
      if (line[i] == ')' && depth > 0) --depth;
      if (line[i] != ',' || depth > 0) continue;
      fields.push_back(trimmed(line.substr(start, i - start)));
      start = i + 1;
    }
    fields.push_back(trimmed(line.substr(start)));
    return fields;
  }

  Status read_header(std::string_view line) {
    const auto names = split(line);
    for (size_t i = 0; i < kColumns.size(); ++i) {
      const auto found = std::find(names.begin(), names.end(), kColumns[i]);
      columns_[i] = found == names.end() ? SIZE_MAX : static_cast<size_t>(found - names.begin());
      if (columns_[i] == SIZE_MAX && i <= kBytes) return at(fmt::format("the header lacks the column {}", kColumns[i]));
    }
    has_header_ = true;
    header_fields_ = names.size();
    return {};
  }

  Status read_row(std::string_view line) {
    if (!has_header_)
      return at(
          fmt::format("a line before the header; the header begins with comm_type,comm_group,...; a file of another "
                      "tool needs its {}",
                      options_.names.format));
    const auto fields = split(line);
    const auto field = [&](Column column) {
      return columns_[column] < fields.size() ? fields[columns_[column]] : std::string_view();
    };
    if (fields.size() <= *std::max_element(columns_.begin(), columns_.begin() + kBytes + 1))
      return at(fmt::format("{} fields, fewer than the header has; is the file cut off?", fields.size()));
    // What is not needed may be missing, but not on a line that ends in its midst.
    if (last_line_ && (fields.size() < header_fields_ || fields.back().empty()))
      return at(fmt::format("{} fields of {}, and no end of line; the file is cut off", fields.size(), header_fields_));
    const std::string_view type = without_prefix(field(kType), "CommType.");
    if (type == "epoch_end") {
      epochs_.emplace_back();
      return {};
    }
    if (type == "irecv") return {};
    Row row{.line = line_, .step = {}, .group = {}, .count = 1};
    double count = 1;
    if (!field(kCount).empty() && field(kCount) != "None" &&
        (!parse_real(field(kCount), count) || count < 1 || count > 1e6))
      return at(fmt::format("count {} is not within 1..1000000", shown(field(kCount))));
    row.count = static_cast<uint64_t>(count);
    if (type == "computation") {
      ORRERY_TRY(read_computation(field(kElapsed), row));
    } else {
      ORRERY_TRY(read_collective(type, field(kGroup), field(kSize), field(kBytes), row));
    }
    tasks_ += row.count;
    if (tasks_ > options_.max_tasks) return at(fmt::format("more than {} lines' worth of steps", options_.max_tasks));
    epochs_.back().push_back(std::move(row));
    return {};
  }

  Status read_computation(std::string_view elapsed, Row& row) {
    double ns = 0;
    if (elapsed.empty() || elapsed == "None") return {};
    if (!parse_real(elapsed, ns) || ns < 0 || ns > static_cast<double>(kMaxComputeNs))
      return at(fmt::format("_elapsed_time {} is no time in nanoseconds", shown(elapsed)));
    row.step.compute = static_cast<Time>(ns * static_cast<double>(kPerNs));
    return {};
  }

  Status read_collective(std::string_view type, std::string_view group, std::string_view size, std::string_view bytes,
                         Row& row) {
    Collective collective;
    double number = 0;
    if (!parse_real(bytes, number) || number < 0 || number > static_cast<double>(kMaxCollectiveBytes))
      return at(fmt::format("msg_size {} is no number of bytes", shown(bytes)));
    collective.bytes = static_cast<uint64_t>(number);
    if (type == "barrier") {
      collective.bytes = 8;
    } else if (type == "isend") {
      collective.op = Op::kSendRecv;
    } else {
      std::string_view name = type;
      if (name == "all_gather_into_tensor") name = "all_gather";
      if (name == "reduce_scatter_tensor") name = "reduce_scatter";
      const auto op = op_of(name);
      if (!op)
        return at(
            fmt::format("comm_type {} is unknown; take all_reduce, all_gather, reduce_scatter, all_to_all, "
                        "broadcast, reduce, barrier, isend, irecv, computation or epoch_end",
                        shown(type)));
      collective.op = *op;
    }
    uint64_t ranks = 0;
    if (!parse_whole(size, ranks) || ranks == 0 || ranks > kMaxFileRanks)
      return at(fmt::format("comm_group_size {} is no number of ranks", shown(size)));
    row.group = without_prefix(group, "CommGroup.");
    row.step.collective = collective;
    row.step.group.size = static_cast<uint32_t>(ranks);
    uint32_t& known = sizes_[row.group];
    if (known != 0 && known != ranks)
      return at(fmt::format("{} has {} ranks here and {} further up; split the file", shown(row.group), ranks, known));
    known = static_cast<uint32_t>(ranks);
    return {};
  }

  uint32_t size_of(const std::string& group) const {
    const auto found = sizes_.find(group);
    return found == sizes_.end() ? 1 : found->second;
  }

  // How far apart the ranks of a group are.
  uint64_t stride_of(const std::string& group, uint32_t ranks) const {
    const uint64_t tensor = size_of("tp_group"), expert = size_of("ep_group");
    if (group == "dp_group" || group == "ep_group")
      return std::min<uint64_t>(tensor, std::max(1u, ranks / size_of(group)));
    if (group == "ep_dp_group" || group == "dp_ep_group") return tensor * expert;
    if (group == "pp_group" || group == "embedding_group") return std::max(1u, ranks / size_of(group));
    return 1;  // tp_group, ep_tp_group, all
  }

  Result<Workload> finish() {
    line_ = 0;
    if (!has_header_)
      return Error{ErrorCode::kInvalidArgument,
                   input_.name + ": has no header; AICB's begins with comm_type,comm_group,comm_group_size,msg_size"};
    uint32_t ranks = ranks_ != 0 ? ranks_ : options_.ranks;
    if (ranks == 0)
      for (const auto& [group, size] : sizes_) ranks = std::max(ranks, size);
    if (options_.ranks != 0 && options_.ranks != ranks)
      return Error{ErrorCode::kInvalidArgument, fmt::format("{}: is of {} ranks, not {}; leave {} out", input_.name,
                                                            ranks, options_.ranks, options_.names.ranks)};
    ORRERY_ASSIGN(Job job, job_of_file(input_.name, ranks, options_));
    if (epochs_.back().empty() && epochs_.size() > 1) epochs_.pop_back();
    std::vector<std::vector<JobStep>> epochs;
    for (const auto& rows : epochs_) {
      std::vector<JobStep>& steps = epochs.emplace_back();
      ORRERY_TRY(resolve(rows, ranks, steps));
    }
    if (epochs.size() > 1) {
      job.setup = std::move(epochs.front());
      epochs.erase(epochs.begin());
    }
    bool alike = true;
    for (size_t i = 1; i < epochs.size(); ++i) alike = alike && same(epochs[0], epochs[i]);
    for (size_t i = 0; i < (alike ? 1 : epochs.size()); ++i)
      job.steps.insert(job.steps.end(), epochs[i].begin(), epochs[i].end());
    if (alike && options_.iterations == 0) job.iterations = static_cast<uint32_t>(epochs.size());
    if (job.steps.empty() && job.setup.empty())
      return Error{ErrorCode::kInvalidArgument, input_.name + ": has no collectives below its header"};
    return workload_of(std::move(job));
  }

  Status resolve(const std::vector<Row>& rows, uint32_t ranks, std::vector<JobStep>& steps) {
    for (const Row& row : rows) {
      JobStep step = row.step;
      if (step.collective) {
        step.group.stride = static_cast<uint32_t>(std::min<uint64_t>(stride_of(row.group, ranks), kMaxFileRanks));
        ORRERY_TRY(check_group(input_.name, row.line, step.group, ranks));
      }
      for (uint64_t i = 0; i < row.count; ++i) steps.push_back(step);
    }
    return {};
  }

  static bool same(const std::vector<JobStep>& a, const std::vector<JobStep>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const JobStep& x, const JobStep& y) {
      return x.compute == y.compute && x.group == y.group && x.collective.has_value() == y.collective.has_value() &&
             (!x.collective || (x.collective->op == y.collective->op && x.collective->bytes == y.collective->bytes));
    });
  }

  const Input& input_;
  const ReadOptions& options_;
  uint64_t line_ = 0;
  uint64_t tasks_ = 0;
  uint32_t ranks_ = 0;
  bool has_header_ = false;
  size_t header_fields_ = 0;
  bool last_line_ = false;  // and it does not end with a line break
  std::array<size_t, kColumns.size()> columns_{};
  std::map<std::string, uint32_t> sizes_;  // by group
  std::vector<std::vector<Row>> epochs_;
};

}  // namespace

Result<Workload> read_aicb(const Input& input, const ReadOptions& options) {
  return AicbReader(input, options).read();
}

}  // namespace orrery::sim
