// What a nccl-tests program prints: "# Rank" lines, then a line per size. Each size becomes one collective, in order.
//
// The operation comes from the name of the program where it stands in the output (a command line, or newer versions'
// "Collective test starting"), else from the bandwidth factor of the largest size, else from the options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/sim/workload/job_file.h"

namespace orrery::sim {
namespace {

struct Row {
  uint64_t line = 0;
  uint64_t bytes = 0;
  bool reduces = false;
  bool has_root = false;
  uint32_t root = 0;
  double factor = 0;  // bus bandwidth / algorithm bandwidth; 0: not known
};

class NcclTestsReader {
 public:
  NcclTestsReader(const Input& input, const ReadOptions& options) : input_(input), options_(options) {}

  Result<Workload> read() {
    size_t position = 0;
    while (position < input_.text.size()) {
      ++line_;
      std::string_view line = trimmed(next_line(input_.text, position));
      last_line_ = position == input_.text.size() && input_.text.back() != '\n';
      // "[1,0]<stdout>:" of mpirun --tag-output
      if (const size_t tag = line.find(">:"); line.starts_with("[") && tag != std::string_view::npos)
        line = trimmed(line.substr(tag + 2));
      find_program(line);
      if (line.starts_with("#")) {
        ORRERY_TRY(read_comment(trimmed(line.substr(1))));
      } else {
        ORRERY_TRY(read_row(line));
      }
    }
    return finish();
  }

 private:
  Error at(std::string_view what) const { return line_error(input_.name, line_, what); }

  void find_program(std::string_view line) {
    const size_t end = line.find("_perf");
    if (end == std::string_view::npos || program_) return;
    size_t begin = end;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 || line[begin - 1] == '_'))
      --begin;
    const std::string_view name = line.substr(begin, end - begin);
    program_ = op_of(name);
    if (name == "gather" || name == "scatter" || name == "hypercube") not_simulated_ = name;
  }

  // Rank  8 Group  0 Pid    371 on inst-yyyyy-gpu4 device  0 [0x0f] NVIDIA A100-SXM4-40GB
  Status read_comment(std::string_view line) {
    const auto tokens = words_of(line);
    if (tokens.size() < 2 || tokens[0] != "Rank") return {};
    uint64_t rank = 0;
    if (!parse_whole(tokens[1], rank)) return {};
    if (rank >= kMaxFileRanks) return at(fmt::format("rank {} is too large", rank));
    ranks_.insert(static_cast<uint32_t>(rank));
    const auto on = std::find(tokens.begin(), tokens.end(), "on");
    if (on != tokens.end() && on + 1 != tokens.end()) hosts_.insert(std::string(on[1]));
    return {};
  }

  // size count type redop root time algbw busbw #wrong time algbw busbw #wrong
  Status read_row(std::string_view line) {
    const auto tokens = words_of(line);
    Row row{.line = line_};
    uint64_t count = 0;
    const bool cut_off = tokens.size() == 1 && last_line_ && parse_whole(tokens[0], count);
    if (!cut_off && (tokens.size() < 2 || !parse_whole(tokens[1], count))) return {};
    if (!parse_whole(tokens[0], row.bytes)) {
      if (tokens[0].find_first_not_of("-0123456789") != std::string_view::npos) return {};
      return at(fmt::format("{} is no number of bytes", shown(tokens[0])));
    }
    if (tokens.size() < 8)
      return at(
          fmt::format("{} fields; a result has at least 8: size, count, type, redop, root, time, algbw, busbw: is "
                      "the output cut off?",
                      tokens.size()));
    if (row.bytes > kMaxCollectiveBytes) return at(fmt::format("{} bytes is too large", row.bytes));
    row.reduces = tokens[3] != "none";
    uint64_t root = 0;
    row.has_root = parse_whole(tokens[4], root);
    if (!row.has_root && tokens[4] != "-1") return at(fmt::format("root {} is no rank", shown(tokens[4])));
    if (root >= kMaxFileRanks) return at(fmt::format("root {} is too large", root));
    row.root = static_cast<uint32_t>(root);
    double algorithm = 0, bus = 0;
    for (const size_t i : {5u, 6u, 7u})
      if (double number = 0; tokens[i] != "N/A" && !parse_real(tokens[i], number))
        return at(fmt::format("{} is no number", shown(tokens[i])));
    if (parse_real(tokens[6], algorithm) && parse_real(tokens[7], bus) && algorithm > 0) row.factor = bus / algorithm;
    rows_.push_back(row);
    if (rows_.size() > kMaxRows) return at(fmt::format("more than {} results", kMaxRows));
    return {};
  }

  std::optional<Op> infer(uint32_t ranks) const {
    const Row& row =
        *std::max_element(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.bytes < b.bytes; });
    const double n = ranks;
    const auto near = [&](double factor) { return row.factor > 0 && std::abs(row.factor - factor) < 0.02 * factor; };
    if (row.has_root) return row.reduces ? Op::kReduce : Op::kBroadcast;
    if (ranks < 2) return std::nullopt;
    if (row.reduces) {
      if (near(2 * (n - 1) / n)) return Op::kAllReduce;
      if (near((n - 1) / n)) return Op::kReduceScatter;
    } else if (near(1) && !near((n - 1) / n)) {
      return Op::kSendRecv;
    }
    return std::nullopt;
  }

  Result<Workload> finish() {
    const auto refuse = [&](const std::string& what) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", input_.name, what)};
    };
    if (rows_.empty()) return refuse("has no results; is it what a nccl-tests program printed?");
    if (options_.ranks == 0 && ranks_.empty())
      return refuse(fmt::format("has no '# Rank' lines; give {}", options_.names.ranks));
    if (options_.ranks == 0 && *ranks_.rbegin() >= ranks_.size())
      return refuse(
          fmt::format("has '# Rank' lines of {} ranks, the last of which is rank {}; add what is missing, or "
                      "give {}",
                      ranks_.size(), *ranks_.rbegin(), options_.names.ranks));
    const uint32_t ranks = options_.ranks != 0 ? options_.ranks : *ranks_.rbegin() + 1;
    if (!not_simulated_.empty() && !program_ && !options_.op)
      return refuse(fmt::format("is of {}_perf, which is not simulated; give what to take in its place ({})",
                                not_simulated_, options_.names.op));
    std::optional<Op> op = options_.op ? options_.op : program_;
    if (!op) op = infer(ranks);
    if (!op) return refuse(fmt::format("does not say which collective it measured; give {}", options_.names.op));
    ReadOptions options = options_;
    if (options.ranks_per_host == 1 && options_.ranks == 0 && hosts_.size() > 1 && ranks % hosts_.size() == 0)
      options.ranks_per_host = static_cast<uint32_t>(ranks / hosts_.size());
    ORRERY_ASSIGN(Job job, job_of_file(input_.name, ranks, options));
    for (const Row& row : rows_) {
      Collective collective{.op = *op, .bytes = row.bytes};
      if (row.has_root && row.root >= ranks)
        return line_error(input_.name, row.line, fmt::format("root {} of {} ranks; count from 0", row.root, ranks));
      if (row.has_root) collective.root = row.root;
      if (row.bytes != 0) job.steps.push_back({.collective = collective});
    }
    return workload_of(std::move(job));
  }

  static constexpr size_t kMaxRows = 100'000;
  const Input& input_;
  const ReadOptions& options_;
  uint64_t line_ = 0;
  std::set<uint32_t> ranks_;
  bool last_line_ = false;  // and it does not end with a line break
  std::set<std::string> hosts_;
  std::optional<Op> program_;
  std::string not_simulated_;  // the program's name, when it is one that nothing here stands for
  std::vector<Row> rows_;
};

}  // namespace

Result<Workload> read_nccl_tests(const Input& input, const ReadOptions& options) {
  return NcclTestsReader(input, options).read();
}

}  // namespace orrery::sim
