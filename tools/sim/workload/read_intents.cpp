// What the controller showed, recorded: one or more JSON objects, of two kinds.
//
//   orreryctl watch --json           {"jobs": [{"comm_id": 1, "nranks": 8, "hosts": ["h1", ...], "last_op":
//   "all-reduce",
//                                     "last_bytes": 1000000}], ...}
//   orreryctl forecast list --json   {"forecasts": [{"comm_id": 1, "op": "all-reduce", "bytes": 1000000,
//                                     "window_start_tai_ns": ..., "window_end_tai_ns": ..., "period_ns": ...}]}
//
// Every communicator becomes a job on the hosts that it names; hosts are numbered in the order in which they appear.
// Its iteration is the forecast operations in the order of their windows, with the gaps between windows as computation
// and the rest of the period ahead; without forecasts, the operations last seen, each size once. Other keys are not
// read.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/sim/workload/job_file.h"

namespace orrery::sim {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxObjectBytes = 8u << 20;
constexpr int kMaxDepth = 8;
constexpr size_t kMaxCommunicators = 100'000;
constexpr size_t kMaxOperations = 10'000;  // of one communicator
constexpr size_t kMaxHostNameBytes = 255;

struct Operation {
  std::string op;
  uint64_t bytes = 0;
  uint64_t start_ns = 0, end_ns = 0, period_ns = 0;
  uint64_t line = 0;
};

struct Recorded {
  uint64_t line = 0;
  uint32_t ranks = 0;
  std::vector<uint32_t> hosts;
  std::vector<Operation> seen, forecast;  // each (op, bytes) once
};

class IntentsReader {
 public:
  IntentsReader(const Input& input, const ReadOptions& options) : input_(input), options_(options) {}

  Result<Workload> read() {
    const std::string_view text = input_.text;
    for (size_t position = 0; position < text.size();) {
      if (text[position] == '\n') ++line_;
      if (std::string_view(" \t\r\n").find(text[position]) != std::string_view::npos) {
        ++position;
        continue;
      }
      if (text[position] != '{') return at("no JSON object; a recording has one object after the other");
      const size_t end = object_end(text, position);
      if (end == std::string_view::npos)
        return at(
            fmt::format("an object that does not end within {} bytes; is the recording cut off?", kMaxObjectBytes));
      const std::string_view object = text.substr(position, end - position);
      ORRERY_TRY(read_object(object));
      line_ += static_cast<uint64_t>(std::count(object.begin(), object.end(), '\n'));
      position = end;
    }
    return finish();
  }

 private:
  Error at(std::string_view what) const { return line_error(input_.name, line_, what); }

  // Behind the brace that closes the one at `begin`.
  static size_t object_end(std::string_view text, size_t begin) {
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = begin; i < text.size() && i - begin < kMaxObjectBytes; ++i) {
      const char c = text[i];
      if (quoted) {
        if (c == '\\')
          ++i;
        else if (c == '"')
          quoted = false;
      } else if (c == '"') {
        quoted = true;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}' && --depth == 0) {
        return i + 1;
      }
    }
    return std::string_view::npos;
  }

  Status read_object(std::string_view text) {
    const Json::parser_callback_t bounded = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
    const Json json = Json::parse(text, bounded, false);
    if (json.is_discarded() || !json.is_object()) return at("is not JSON; record it with --json");
    if (json.contains("jobs")) ORRERY_TRY(read_jobs(json["jobs"]));
    if (json.contains("forecasts")) ORRERY_TRY(read_forecasts(json["forecasts"]));
    if (!json.contains("jobs") && !json.contains("forecasts"))
      return at("has neither jobs nor forecasts; record 'orreryctl watch --json' or 'orreryctl forecast list --json'");
    return {};
  }

  Result<uint64_t> number(const Json& json, const char* key, uint64_t most) const {
    const auto found = json.find(key);
    if (found == json.end()) return at(fmt::format("{} is missing", key));
    if (!found->is_number_unsigned() || found->get<uint64_t>() > most)
      return at(fmt::format("{} is no whole number of at most {}", key, most));
    return found->get<uint64_t>();
  }

  Result<std::string> text(const Json& json, const char* key) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return at(fmt::format("{} is missing or no text", key));
    return found->get<std::string>();
  }

  Status read_jobs(const Json& jobs) {
    if (!jobs.is_array()) return at("jobs is no list");
    for (const Json& job : jobs) {
      if (!job.is_object()) return at("an item of jobs is no object");
      ORRERY_ASSIGN(const uint64_t comm, number(job, "comm_id", UINT64_MAX));
      ORRERY_ASSIGN(const uint64_t ranks, number(job, "nranks", kMaxFileRanks));
      Recorded& recorded = communicators_[comm];
      if (communicators_.size() > kMaxCommunicators)
        return at(fmt::format("more than {} communicators", kMaxCommunicators));
      if (recorded.line == 0) recorded.line = line_;
      recorded.ranks = std::max(recorded.ranks, static_cast<uint32_t>(ranks));
      const auto hosts = job.find("hosts");
      if (hosts == job.end() || !hosts->is_array()) return at("hosts is missing or no list");
      ORRERY_TRY(read_hosts(*hosts, recorded));
      ORRERY_ASSIGN(Operation operation, read_operation(job, "last_op", "last_bytes"));
      ORRERY_TRY(keep(recorded.seen, std::move(operation)));
    }
    return {};
  }

  // The largest list that was seen counts: a communicator announces itself host by host.
  Status read_hosts(const Json& names, Recorded& recorded) {
    if (names.size() <= recorded.hosts.size()) return {};
    std::vector<uint32_t> hosts;
    for (const Json& name : names) {
      if (!name.is_string() || name.get_ref<const std::string&>().empty() ||
          name.get_ref<const std::string&>().size() > kMaxHostNameBytes)
        return at("a host is no name");
      const auto [found, added] = hosts_.try_emplace(name.get<std::string>(), static_cast<uint32_t>(hosts_.size()));
      if (std::find(hosts.begin(), hosts.end(), found->second) != hosts.end())
        return at(fmt::format("host {} stands there twice", shown(name.get_ref<const std::string&>())));
      hosts.push_back(found->second);
    }
    recorded.hosts = std::move(hosts);
    return {};
  }

  Result<Operation> read_operation(const Json& json, const char* op, const char* bytes) {
    Operation operation;
    ORRERY_ASSIGN(operation.op, text(json, op));
    ORRERY_ASSIGN(operation.bytes, number(json, bytes, kMaxCollectiveBytes));
    operation.line = line_;
    return operation;
  }

  Status keep(std::vector<Operation>& operations, Operation operation) {
    if (operation.op == "-" || operation.op == "recv" || operation.bytes == 0) return {};
    const auto twin = std::find_if(operations.begin(), operations.end(), [&](const Operation& other) {
      return other.op == operation.op && other.bytes == operation.bytes;
    });
    if (twin != operations.end()) return {};
    if (operations.size() >= kMaxOperations) return at(fmt::format("more than {} operations", kMaxOperations));
    operations.push_back(std::move(operation));
    return {};
  }

  Status read_forecasts(const Json& forecasts) {
    if (!forecasts.is_array()) return at("forecasts is no list");
    for (const Json& forecast : forecasts) {
      if (!forecast.is_object()) return at("an item of forecasts is no object");
      ORRERY_ASSIGN(const uint64_t comm, number(forecast, "comm_id", UINT64_MAX));
      ORRERY_ASSIGN(Operation operation, read_operation(forecast, "op", "bytes"));
      ORRERY_ASSIGN(operation.start_ns, number(forecast, "window_start_tai_ns", UINT64_MAX));
      ORRERY_ASSIGN(operation.end_ns, number(forecast, "window_end_tai_ns", UINT64_MAX));
      ORRERY_ASSIGN(operation.period_ns, number(forecast, "period_ns", kMaxComputeNs));
      if (operation.end_ns < operation.start_ns) return at("a window that ends before it starts");
      Recorded& recorded = communicators_[comm];
      if (communicators_.size() > kMaxCommunicators)
        return at(fmt::format("more than {} communicators", kMaxCommunicators));
      ORRERY_TRY(keep(recorded.forecast, std::move(operation)));
    }
    return {};
  }

  Result<Workload> finish() {
    Workload workload;
    for (auto& [comm, recorded] : communicators_) {
      if (recorded.ranks == 0)
        return refuse(
            fmt::format("communicator {} is forecast, and no job tells its hosts; "
                        "record 'orreryctl watch --json' too",
                        comm));
      ORRERY_ASSIGN(Job job, make_job(comm, recorded));
      if (job.steps.empty()) continue;
      workload.jobs.push_back(std::move(job));
    }
    if (workload.jobs.empty()) return refuse("records no collectives");
    workload.hosts = static_cast<uint32_t>(hosts_.size());
    return workload;
  }

  Error refuse(const std::string& what) const {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", input_.name, what)};
  }

  Result<Job> make_job(uint64_t comm, Recorded& recorded) {
    line_ = recorded.line;
    if (recorded.hosts.empty()) return at(fmt::format("communicator {} has no hosts", comm));
    if (recorded.ranks % recorded.hosts.size() != 0)
      return at(fmt::format("communicator {} has {} ranks on {} hosts, which do not divide; was it still being set up?",
                            comm, recorded.ranks, recorded.hosts.size()));
    ReadOptions options = options_;
    options.ranks_per_host = static_cast<uint32_t>(recorded.ranks / recorded.hosts.size());
    ORRERY_ASSIGN(Job job, job_of_file(fmt::format("comm-{:x}", comm), recorded.ranks, options));
    job.hosts = recorded.hosts;
    std::vector<Operation>& operations = recorded.forecast.empty() ? recorded.seen : recorded.forecast;
    std::stable_sort(operations.begin(), operations.end(),
                     [](const Operation& a, const Operation& b) { return a.start_ns < b.start_ns; });
    uint64_t previous_end = 0;
    for (const Operation& operation : operations) {
      JobStep step;
      const uint64_t gap = previous_end != 0 && operation.start_ns > previous_end
                               ? std::min<uint64_t>(operation.start_ns - previous_end, kMaxComputeNs)
                               : 0;
      step.compute = gap * kPerNs;
      previous_end = operation.end_ns;
      Collective collective{.bytes = operation.bytes};
      const auto op = operation.op == "send"           ? Op::kSendRecv
                      : operation.op == "all-to-all-v" ? Op::kAllToAll
                                                       : op_of(operation.op);
      if (!op)
        return line_error(
            input_.name, operation.line,
            fmt::format("the operation {} is not simulated; leave communicator {} out", shown(operation.op), comm));
      collective.op = *op;
      step.collective = collective;
      job.steps.push_back(step);
    }
    if (!operations.empty() && operations.front().period_ns != 0) {
      const uint64_t busy = operations.back().end_ns - operations.front().start_ns;
      if (operations.front().period_ns > busy)
        job.steps.front().compute = (operations.front().period_ns - busy) * kPerNs;
    }
    return job;
  }

  const Input& input_;
  const ReadOptions& options_;
  uint64_t line_ = 1;
  std::map<uint64_t, Recorded> communicators_;
  std::map<std::string, uint32_t> hosts_;
};

}  // namespace

Result<Workload> read_intents(const Input& input, const ReadOptions& options) {
  return IntentsReader(input, options).read();
}

}  // namespace orrery::sim
