#include "tools/sim/model/program_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace orrery::sim {

uint32_t ProgramBuilder::add_path(const fabric::Path& path) {
  const uint32_t there = number_path(path), back = number_path(graph_.reversed(path));
  reverse_of_[there] = back;
  reverse_of_[back] = there;
  return there;
}

uint32_t ProgramBuilder::number_path(const fabric::Path& path) {
  assert(path.size() <= kMaxPathLinks);
  const auto [found, is_new] = paths_.try_emplace(path, static_cast<uint32_t>(path_links_.size()));
  if (is_new) {
    PathLinks links;
    for (uint32_t i = 0; i < kMaxPathLinks; ++i) links.links[i] = i < path.size() ? path[i] : kNone;
    path_links_.push_back(links);
    reverse_of_.push_back(kNone);
  }
  return found->second;
}

uint32_t ProgramBuilder::add_qp(uint32_t src, uint32_t dst, const std::vector<fabric::Path>& paths, PathPolicy policy,
                                uint64_t pace_bps) {
  assert(!paths.empty());
  QueuePair qp;
  qp.src = src;
  qp.dst = dst;
  qp.first_path = static_cast<uint32_t>(qp_paths_.size());
  qp.path_count = static_cast<uint32_t>(paths.size());
  qp.policy = policy;
  qp.pace_bps = pace_bps;
  for (const fabric::Path& path : paths) qp_paths_.push_back(add_path(path));
  qps_.push_back(qp);
  return static_cast<uint32_t>(qps_.size() - 1);
}

uint32_t ProgramBuilder::add_message(uint32_t qp, uint64_t bytes) {
  messages_.push_back({.qp = qp, .bytes = bytes, .on_delivered = {}, .on_acknowledged = {}});
  return static_cast<uint32_t>(messages_.size() - 1);
}

uint32_t ProgramBuilder::add_send_step(uint32_t message, Time delay) {
  const uint32_t step = add_step(qps_[messages_[message].qp].src, delay);
  steps_[step].message = message;
  return step;
}

uint32_t ProgramBuilder::add_step(uint32_t host, Time delay) {
  steps_.push_back({.host = host, .pending = 0, .delay = delay, .message = kNone, .successors = {}});
  return static_cast<uint32_t>(steps_.size() - 1);
}

void ProgramBuilder::align(uint32_t step, const Alignment& to) {
  steps_[step].alignment = static_cast<uint32_t>(alignments_.size());
  alignments_.push_back(to);
}

void ProgramBuilder::after_step(uint32_t step, uint32_t then) {
  after_step_.push_back({step, then});
}
void ProgramBuilder::after_delivered(uint32_t message, uint32_t then) {
  after_delivered_.push_back({message, then});
}
void ProgramBuilder::after_acknowledged(uint32_t message, uint32_t then) {
  after_acknowledged_.push_back({message, then});
}

std::vector<Successors> ProgramBuilder::place(const std::vector<Edge>& edges, size_t count, Program& program) {
  std::vector<Successors> ranges(count);
  for (const Edge& edge : edges) ++ranges[edge.from].count, ++steps_[edge.to].pending;
  auto next = static_cast<uint32_t>(program.successors.size());
  for (Successors& range : ranges) range.first = next, next += range.count;
  program.successors.resize(next);
  std::vector<uint32_t> used(count);
  for (const Edge& edge : edges) program.successors[ranges[edge.from].first + used[edge.from]++] = edge.to;
  return ranges;
}

Result<Program> ProgramBuilder::build() {
  const auto misplaced = [&](const char* what, uint32_t from, uint32_t step, uint32_t host) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("step {} follows {} {}, which ends on host {}, but is on host {}: put a message between them", step,
                    what, from, host, steps_[step].host)};
  };
  for (const Edge& e : after_step_)
    if (steps_[e.from].host != steps_[e.to].host) return misplaced("step", e.from, e.to, steps_[e.from].host);
  for (const Edge& e : after_delivered_)
    if (const uint32_t host = qps_[messages_[e.from].qp].dst; host != steps_[e.to].host)
      return misplaced("the delivery of message", e.from, e.to, host);
  for (const Edge& e : after_acknowledged_)
    if (const uint32_t host = qps_[messages_[e.from].qp].src; host != steps_[e.to].host)
      return misplaced("the acknowledgement of message", e.from, e.to, host);
  Program program;
  for (Step& step : steps_) step.pending = 0;
  const auto steps = place(after_step_, steps_.size(), program);
  const auto delivered = place(after_delivered_, messages_.size(), program);
  const auto acknowledged = place(after_acknowledged_, messages_.size(), program);
  program.steps = std::move(steps_);
  program.alignments = std::move(alignments_);
  for (size_t i = 0; i < steps.size(); ++i) program.steps[i].successors = steps[i];
  program.messages = std::move(messages_);
  for (size_t i = 0; i < program.messages.size(); ++i) {
    program.messages[i].on_delivered = delivered[i];
    program.messages[i].on_acknowledged = acknowledged[i];
  }
  program.qps = std::move(qps_);
  program.qp_messages.resize(program.messages.size());
  for (const Message& message : program.messages) ++program.qps[message.qp].message_count;
  uint32_t next = 0;
  for (QueuePair& qp : program.qps) qp.first_message = next, next += qp.message_count;
  std::vector<uint32_t> used(program.qps.size());
  for (uint32_t m = 0; m < program.messages.size(); ++m) {
    const uint32_t qp = program.messages[m].qp;
    program.qp_messages[program.qps[qp].first_message + used[qp]++] = m;
  }
  program.paths = std::move(path_links_);
  program.reverse_of = std::move(reverse_of_);
  program.qp_paths = std::move(qp_paths_);
  return program;
}

}  // namespace orrery::sim
