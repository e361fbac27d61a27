// htsim's connection matrices: "Nodes", "Connections" and "Triggers", then
//
//   SRC->DST id N start PICOSECONDS size BYTES send_done_trigger T recv_done_trigger T
//   SRC->DST id N trigger T size BYTES
//   trigger id T oneshot | multishot | barrier count N
//
// Hosts know of each other only by packets here: a trigger fires where the transfer that sets it off ends, at its
// sender (send_done, when all is acknowledged; at its receiver: delivered) or at its receiver (recv_done), and starts
// transfers of that host only. htsim's own triggers act everywhere at once; a file that needs that is refused.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/sim/workload/job_file.h"

namespace orrery::sim {
namespace {

struct Connection {
  uint64_t line = 0;
  uint32_t src = 0, dst = 0;
  uint64_t bytes = 0;
  Time start = 0;
  uint64_t trigger = 0, send_done = 0, recv_done = 0;  // 0: none
  bool has_start = false, has_size = false;
};

struct Trigger {
  uint64_t line = 0;
  bool barrier = false;
  uint64_t count = 0;
  std::vector<uint32_t> started, sent, received;  // connections: those it starts, and those that set it off
};

class HtsimReader {
 public:
  HtsimReader(const Input& input, const ReadOptions& options) : input_(input), options_(options) {}

  Result<Workload> read() {
    size_t position = 0;
    while (position < input_.text.size()) {
      ++line_;
      const std::string_view line = trimmed(next_line(input_.text, position));
      if (line.empty() || line.front() == '#') continue;
      tokens_ = words_of(line);
      ORRERY_TRY(read_line());
    }
    return finish();
  }

 private:
  Error at(std::string_view what) const { return line_error(input_.name, line_, what); }

  Status read_line() {
    const std::string_view first = tokens_[0];
    if (first == "Nodes") return read_header(nodes_, kMaxFileRanks);
    if (first == "Connections") return read_header(connection_count_, UINT32_MAX);
    if (first == "Triggers") return read_header(trigger_count_, UINT32_MAX);
    if (first == "Failures" && tokens_.size() == 2 && tokens_[1] == "0") return {};
    if (first == "Failures" || first == "failure")
      return at("failures are not read from here; list them under faults in the scenario");
    if (first == "trigger") return read_trigger();
    if (first.find("->") != std::string_view::npos) return read_connection();
    return at(fmt::format("{} is neither a header, nor a connection SRC->DST, nor a trigger", shown(first)));
  }

  Status read_header(std::optional<uint64_t>& value, uint64_t most) {
    uint64_t number = 0;
    if (tokens_.size() != 2 || !parse_whole(tokens_[1], number) || number > most)
      return at(fmt::format("{} takes one number of at most {}", tokens_[0], most));
    if (value && *value != number) return at(fmt::format("{} was {} further up", tokens_[0], *value));
    value = number;
    return {};
  }

  // The number behind the word at `i`; moves `i` to it.
  Status read_value(size_t& i, uint64_t& value) {
    const std::string_view word = tokens_[i];
    if (++i < tokens_.size() && parse_whole(tokens_[i], value)) return {};
    return at(fmt::format("{} needs a whole number behind it", shown(word)));
  }

  Status read_connection() {
    if (connections_.size() >= options_.max_tasks)
      return at(fmt::format("more than {} connections; take fewer", options_.max_tasks));
    const size_t arrow = tokens_[0].find("->");
    uint64_t src = 0, dst = 0, id = 0;
    if (!parse_whole(tokens_[0].substr(0, arrow), src) || !parse_whole(tokens_[0].substr(arrow + 2), dst))
      return at(fmt::format("{} is not SRC->DST", shown(tokens_[0])));
    if (!nodes_) return at("a connection before the line 'Nodes N'");
    if (src >= *nodes_ || dst >= *nodes_)
      return at(fmt::format("{}->{}: there are {} nodes, from 0", src, dst, *nodes_));
    if (src == dst) return at(fmt::format("{}->{} goes nowhere", src, dst));
    Connection connection{.line = line_, .src = static_cast<uint32_t>(src), .dst = static_cast<uint32_t>(dst)};
    for (size_t i = 1; i < tokens_.size(); ++i) ORRERY_TRY(read_word(i, connection, id));
    if (connection.trigger == 0 && !connection.has_start) return at("neither start nor trigger; give one");
    if (connection.trigger != 0 && connection.has_start) return at("both start and trigger; give one");
    if (!connection.has_size || connection.bytes == 0)
      return at("no size, which htsim takes for a transfer without end; give bytes");
    const auto number = static_cast<uint32_t>(connections_.size());
    if (connection.trigger != 0) triggers_[connection.trigger].started.push_back(number);
    if (connection.send_done != 0) triggers_[connection.send_done].sent.push_back(number);
    if (connection.recv_done != 0) triggers_[connection.recv_done].received.push_back(number);
    connections_.push_back(connection);
    return {};
  }

  Status read_word(size_t& i, Connection& connection, uint64_t& id) {
    const std::string_view word = tokens_[i];
    uint64_t number = 0;
    if (word == "start") {
      double start = 0;
      constexpr double kMost = 1e18;
      if (++i >= tokens_.size() || !parse_real(tokens_[i], start) || start < 0 || start > kMost)
        return at("start needs a time in picoseconds behind it");
      connection.start = static_cast<Time>(start);
      connection.has_start = true;
      return {};
    }
    if (word == "size") {
      ORRERY_TRY(read_value(i, connection.bytes));
      connection.has_size = true;
      if (connection.bytes > kMaxCollectiveBytes) return at(fmt::format("size {} is too large", connection.bytes));
      return {};
    }
    if (word == "id") return read_value(i, id);
    if (word == "prio") return read_value(i, number);
    uint64_t* trigger = word == "trigger"             ? &connection.trigger
                        : word == "send_done_trigger" ? &connection.send_done
                        : word == "recv_done_trigger" ? &connection.recv_done
                                                      : nullptr;
    if (trigger == nullptr)
      return at(
          fmt::format("{} is unknown; a connection takes id, start, trigger, size, send_done_trigger, "
                      "recv_done_trigger and prio",
                      shown(word)));
    ORRERY_TRY(read_value(i, *trigger));
    if (*trigger == 0) return at("trigger 0 is not allowed; number them from 1");
    return {};
  }

  Status read_trigger() {
    uint64_t id = 0, count = 0;
    std::string_view kind;
    for (size_t i = 1; i < tokens_.size(); ++i) {
      if (tokens_[i] == "id") {
        ORRERY_TRY(read_value(i, id));
      } else if (tokens_[i] == "count") {
        ORRERY_TRY(read_value(i, count));
      } else if ((tokens_[i] == "oneshot" || tokens_[i] == "multishot" || tokens_[i] == "barrier") && kind.empty()) {
        kind = tokens_[i];
      } else {
        return at(
            fmt::format("{} is out of place; a trigger takes id, and one of oneshot, multishot and barrier count N",
                        shown(tokens_[i])));
      }
    }
    if (id == 0) return at("a trigger without an id, which counts from 1");
    if (kind.empty()) return at("a trigger needs one of oneshot, multishot and barrier");
    Trigger& trigger = triggers_[id];
    if (trigger.line != 0) return at(fmt::format("trigger {} stands on line {} already", id, trigger.line));
    trigger.line = line_;
    trigger.barrier = kind == "barrier";
    trigger.count = count;
    ++triggers_read_;
    return {};
  }

  Error refuse(const std::string& what) const {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", input_.name, what)};
  }

  Result<Workload> finish() {
    if (!nodes_ || *nodes_ == 0) return refuse("does not say 'Nodes N'; is it a connection matrix?");
    if (connections_.empty()) return refuse("has no connections");
    if (connection_count_ && *connection_count_ != connections_.size())
      return refuse(
          fmt::format("announces {} connections and has {}; is it cut off?", *connection_count_, connections_.size()));
    if (trigger_count_ && *trigger_count_ != triggers_read_)
      return refuse(fmt::format("announces {} triggers and has {}; is it cut off?", *trigger_count_, triggers_read_));
    Workload workload;
    workload.hosts = static_cast<uint32_t>(*nodes_);
    Traffic& traffic = workload.fixed;
    traffic.jobs = {input_.name.substr(input_.name.rfind('/') + 1)};
    Round round;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> channels;
    for (const Connection& connection : connections_) {
      const uint32_t channel = channels[{connection.src, connection.dst}]++;
      const uint32_t flow = traffic.add_flow({.src = connection.src, .dst = connection.dst, .channel = channel});
      const uint32_t task = traffic.add_send(traffic.add_transfer(flow, connection.bytes), connection.start, true);
      if (connection.trigger == 0) round.opening.push_back(task);
      starts_.push_back(task);
    }
    for (uint32_t i = 0; i < connections_.size(); ++i) {
      round.closing.push_back(traffic.add_computation(connections_[i].dst, 0));
      traffic.after_delivered.push_back({i, round.closing.back()});
    }
    for (const auto& [id, trigger] : triggers_) ORRERY_TRY(add_trigger(id, trigger, traffic));
    if (round.opening.empty()) return refuse("has no connection with a start: nothing would begin");
    traffic.rounds.push_back(std::move(round));
    if (const auto circle = circle_of(traffic); !circle.empty()) return waits_for_itself(circle);
    return workload;
  }

  // The first tasks are those that start connections.
  Error waits_for_itself(const std::vector<uint32_t>& circle) const {
    const Connection& first = connections_[*std::min_element(circle.begin(), circle.end())];
    return line_error(input_.name, first.line,
                      fmt::format("{}->{} waits for itself, by way of triggers; give one of these connections a start",
                                  first.src, first.dst));
  }

  Status add_trigger(uint64_t id, const Trigger& trigger, Traffic& traffic) {
    line_ = trigger.line;
    const uint64_t signals = trigger.sent.size() + trigger.received.size();
    if (trigger.line == 0)
      return refuse(fmt::format("trigger {} is used and not defined; add 'trigger id {} oneshot'", id, id));
    if (trigger.started.empty()) return {};
    if (signals == 0)
      return at(fmt::format("nothing sets off trigger {}; give a connection send_done_trigger {}", id, id));
    if (signals != (trigger.barrier ? trigger.count : 1))
      return at(
          fmt::format("trigger {} is set off by {} connections and fires after {}; only a barrier that counts all "
                      "of them is simulated",
                      id, signals, trigger.barrier ? trigger.count : 1));
    for (const uint32_t target : trigger.started) {
      for (const uint32_t signal : trigger.sent) ORRERY_TRY(add_edge(id, signal, target, false, traffic));
      for (const uint32_t signal : trigger.received) ORRERY_TRY(add_edge(id, signal, target, true, traffic));
    }
    return {};
  }

  Status add_edge(uint64_t id, uint32_t signal, uint32_t target, bool received, Traffic& traffic) {
    const uint32_t host = connections_[target].src;
    edges_ += 1;
    if (edges_ > options_.max_tasks) return at("triggers start too much at once; take fewer");
    if (host == connections_[signal].dst) {
      traffic.after_delivered.push_back({signal, starts_[target]});
    } else if (host == connections_[signal].src) {
      traffic.after_acknowledged.push_back({signal, starts_[target]});
    } else {
      return at(
          fmt::format("trigger {} is set off by {}->{} (line {}) and starts a transfer of host {}, which cannot know "
                      "of it; use {} of a connection to that host",
                      id, connections_[signal].src, connections_[signal].dst, connections_[signal].line, host,
                      received ? "recv_done_trigger" : "send_done_trigger"));
    }
    return {};
  }

  const Input& input_;
  const ReadOptions& options_;
  uint64_t line_ = 0;
  std::vector<std::string_view> tokens_;  // of the line
  std::optional<uint64_t> nodes_, connection_count_, trigger_count_;
  uint64_t triggers_read_ = 0;
  uint64_t edges_ = 0;
  std::vector<Connection> connections_;
  std::map<uint64_t, Trigger> triggers_;
  std::vector<uint32_t> starts_;  // by connection: the task that starts it
};

}  // namespace

Result<Workload> read_htsim(const Input& input, const ReadOptions& options) {
  return HtsimReader(input, options).read();
}

}  // namespace orrery::sim
