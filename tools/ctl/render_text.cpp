#include <fmt/format.h>

#include <algorithm>

#include "common/abi/event_abi.h"
#include "tools/ctl/render.h"
#include "tools/ctl/table.h"

namespace orrery::ctl {
namespace {

using Cell = Table::Cell;

std::string ago(uint64_t tai_ns, const Style& style) {
  if (tai_ns == 0) return "never";
  if (style.now_tai_ns <= tai_ns) return "now";
  return human_duration(static_cast<int64_t>(style.now_tai_ns - tai_ns)) + " ago";
}

std::string bold(std::string_view text, const Style& style) {
  return toned(text, Tone::kBold, style.colour);
}

// Texts come from the network: no control characters reach the terminal.
std::string clean(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

Cell state_cell(const msg::PlannedFlow& flow) {
  using State = msg::PlannedFlow::State;
  switch (flow.state) {
    case State::kAcknowledged:
      return {"acknowledged", Tone::kGood};
    case State::kAlive:
      return {"alive", Tone::kGood};
    case State::kFixed:
      return {"fixed", Tone::kDim};
    case State::kUnrecognised:
      return {"unrecognised", Tone::kDim};
    default:
      return {"planned", Tone::kWarning};
  }
}

Cell on_path_cell(msg::PlannedFlow::OnPath on_path) {
  using OnPath = msg::PlannedFlow::OnPath;
  if (on_path == OnPath::kUnknown) return "-";
  return on_path == OnPath::kYes ? Cell("yes", Tone::kGood) : Cell("NO", Tone::kBad);
}

Cell verdict_cell(msg::NicForecast::Verdict verdict) {
  using Verdict = msg::NicForecast::Verdict;
  switch (verdict) {
    case Verdict::kAsPredicted:
      return {"as predicted", Tone::kGood};
    case Verdict::kSlower:
      return {"slower", Tone::kBad};
    case Verdict::kFaster:
      return {"faster", Tone::kWarning};
    case Verdict::kSilent:
      return {"silent", Tone::kDim};
    case Verdict::kNotPredicted:
      return {"not predicted", Tone::kWarning};
    case Verdict::kUnrecognised:
      return {"unrecognised", Tone::kDim};
    default:
      return {"too early to tell", Tone::kDim};
  }
}

// Whether the host can send the flow on another way while it runs, and how often it did.
Cell moves_cell(const msg::LiveFlow& flow) {
  if (!flow.queue_pair) return "-";
  if ((flow.queue_pair->flags & ORRERY_QP_CAN_MOVE) == 0) return {"at next connection", Tone::kDim};
  return flow.queue_pair->moves == 0 ? Cell("live") : Cell(fmt::format("live, {} so far", flow.queue_pair->moves));
}

// Work requests held back, and how many of them could not wait for their time.
Cell deferred_cell(const msg::QueuePair& pair) {
  if (pair.drained_early == 0) return human_count(pair.deferred_sends);
  return {fmt::format("{} ({} early)", human_count(pair.deferred_sends), human_count(pair.drained_early)),
          Tone::kWarning};
}

// "nccl verbs (1 of 2) sockets": the layers of the preload library that attached processes have.
std::string layers_text(const std::vector<uint32_t>& layers, uint32_t processes) {
  std::string out;
  for (size_t i = 0; i < std::min(layers.size(), std::size(kLayerNames)); ++i) {
    if (layers[i] == 0) continue;
    if (!out.empty()) out += ' ';
    out += kLayerNames[i];
    if (layers[i] != processes) out += fmt::format(" ({} of {})", layers[i], processes);
  }
  return out.empty() ? "-" : out;
}

Cell connected_cell(bool connected, const std::string& refusal) {
  if (!refusal.empty()) return {"refused", Tone::kBad};
  return connected ? Cell("connected", Tone::kGood) : Cell("absent", Tone::kBad);
}

Cell count_cell(uint64_t count) {
  return {human_count(count), count == 0 ? Tone::kPlain : Tone::kWarning};
}

Tone load_tone(double utilization) {
  return utilization >= 0.95 ? Tone::kBad : utilization >= 0.7 ? Tone::kWarning : Tone::kPlain;
}

// "The controller refuses h3: ..." lines below a table.
template <typename T, typename Name>
std::string refusals(const std::vector<T>& items, Name name) {
  std::string out;
  for (const T& item : items)
    if (!item.refusal.empty()) out += fmt::format("{} refused: {}\n", clean(name(item)), clean(item.refusal));
  return out.empty() ? out : "\n" + out;
}

// A few host names, in rank order, without repeats.
std::string host_summary(const std::vector<std::string>& hosts) {
  constexpr size_t kListed = 6;
  std::vector<std::string> names;
  for (const std::string& host : hosts)
    if (!host.empty() && std::find(names.begin(), names.end(), host) == names.end()) names.push_back(host);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + std::min(names.size(), kListed), ","));
  if (names.size() > kListed) text += fmt::format(" +{}", names.size() - kListed);
  return text.empty() ? "-" : text;
}

}  // namespace

std::string text_of(const msg::PlanList& plan, const Style& style) {
  if (plan.flows.empty()) return "No plan: no job is known, so every flow goes where ECMP sends it.\n";
  std::string out = bold(fmt::format("Plan {}.{}", plan.term, plan.revision), style) +
                    fmt::format(": {} flows by {} ({}), planned {} in {}\n", plan.flows.size(), clean(plan.driver),
                                clean(plan.method), ago(plan.planned_at_tai_ns, style),
                                human_duration(static_cast<int64_t>(plan.planning_ns)));
  out += fmt::format("Busiest link: {}, {}\n\n", human_bytes(plan.max_load_bytes), text_of(plan.bounds));
  return out + text_of(plan.flows, style);
}

std::string text_of(const msg::PlanBounds& bounds) {
  if (!bounds.known()) return "how near to the best is not known: the plan is of the last run, or sends nothing";
  const auto time = [](uint64_t ns) { return human_duration(static_cast<int64_t>(ns)); };
  std::string out = fmt::format("{} per round; lower bound {}: gap {}{}", time(bounds.max_drain_ns),
                                time(bounds.lower_bound_ns), human_percent(bounds.gap_percent() / 100),
                                bounds.max_drain_ns == bounds.lower_bound_ns ? " (optimal)" : "");
  if (bounds.fluid_bound_ns < bounds.lower_bound_ns)
    out += fmt::format("; {} if flows could be split at will", time(bounds.fluid_bound_ns));
  return out;
}

std::string text_of(const std::vector<msg::PlannedFlow>& flows, const Style& style) {
  Table table({{"FLOW", Align::kRight},
               {"FROM"},
               {"TO"},
               {"VIA"},
               {"BACKUP"},
               {"PER ROUND", Align::kRight},
               {"OFFSET", Align::kRight},
               {"PACE", Align::kRight},
               {"STATE"},
               {"ON PATH"}});
  for (const auto& flow : flows)
    table.add_row({id_text(flow.flow_id), flow.src_host, flow.dst_host, via(flow.path), via(flow.backup),
                   human_bytes(flow.bytes_per_round), human_duration(static_cast<int64_t>(flow.release_offset_ns)),
                   flow.pace_bps == 0 ? "-" : human_rate(flow.pace_bps), state_cell(flow), on_path_cell(flow.on_path)});
  return table.to_string(style.colour);
}

std::string text_of(const msg::FlowList& list, const Style& style) {
  if (list.flows.empty()) return "No flows: no attached process has connections or queue pairs to other hosts.\n";
  std::string out = text_of(list.flows, style);
  if (list.total > list.flows.size())
    out += fmt::format("\n{} of {} flows, those that sent most\n", list.flows.size(), list.total);
  return out;
}

std::string text_of(const std::vector<msg::LiveFlow>& flows, const Style& style) {
  Table table({{"FLOW", Align::kRight},
               {"FROM"},
               {"TO"},
               {"PORTS"},
               {"QUEUE PAIR"},
               {"SENT", Align::kRight},
               {"VIA"},
               {"ON PATH"},
               {"MOVES"},
               {"DEFERRED", Align::kRight},
               {"HELD", Align::kRight}});
  for (const auto& flow : flows) {
    const auto& pair = flow.queue_pair;
    table.add_row({flow.flow_id == 0 ? "-" : id_text(flow.flow_id), flow.src_host, flow.dst_host,
                   fmt::format("{} > {}", flow.tuple.src_port, flow.tuple.dst_port),
                   pair ? clean(fmt::format("{} > {} on {}", pair->qpn, pair->dest_qpn, pair->device)) : "-",
                   human_bytes(flow.tx_bytes), via(flow.path), on_path_cell(flow.on_path), moves_cell(flow),
                   pair ? deferred_cell(*pair) : Cell("-"), human_duration(static_cast<int64_t>(flow.held_ns))});
  }
  return table.to_string(style.colour);
}

std::string text_of(const msg::FlowExplanation& explanation, const Style& style) {
  const msg::PlannedFlow& flow = explanation.flow;
  std::string out =
      bold(fmt::format("Flow {}", id_text(flow.flow_id)), style) +
      fmt::format(": {} to {}, communicator {}\n", clean(flow.src_host), clean(flow.dst_host), id_text(flow.comm_id));
  out += fmt::format("  tuple    {}\n  path     {}\n", flow.tuple.to_string(),
                     clean(fmt::format("{}", fmt::join(flow.path, " > "))));
  out += fmt::format("  backup   {}\n",
                     flow.backup.empty() ? "none" : clean(fmt::format("{}", fmt::join(flow.backup, " > "))));
  out += fmt::format("  sends    {} per round, {} after the start{}\n", human_bytes(flow.bytes_per_round),
                     human_duration(static_cast<int64_t>(flow.release_offset_ns)),
                     flow.pace_bps == 0 ? "" : ", at " + human_rate(flow.pace_bps));
  out += fmt::format("  state    {}; on its path: {}\n", state_cell(flow).text, on_path_cell(flow.on_path).text);
  if (!explanation.reasons.empty()) out += "\n" + bold("Why", style) + "\n";
  for (const std::string& reason : explanation.reasons) out += "  - " + clean(reason) + "\n";
  if (!explanation.live.empty()) out += "\n" + text_of(explanation.live, style);
  if (explanation.hops.empty()) return out;
  Table table({{"PORT"}, {"DECIDED BY"}, {"LOAD PER ROUND", Align::kRight}, {"ALTERNATIVES"}});
  for (const auto& hop : explanation.hops)
    table.add_row({hop.port, hop.decided_by, human_bytes(hop.load_bytes),
                   hop.alternatives.empty() ? "-" : fmt::format("{}", fmt::join(hop.alternatives, ", "))});
  return out + "\n" + table.to_string(style.colour);
}

std::string text_of(const std::vector<msg::LinkState>& links, const Style& style) {
  if (links.empty()) return "No links: the controller knows no topology.\n";
  Table table({{"PORT"},
               {"PEER"},
               {"STATE"},
               {"RATE", Align::kRight},
               {"LOAD"},
               {"", Align::kRight},
               {"PLANNED", Align::kRight},
               {"FLOWS", Align::kRight},
               {"SENT", Align::kRight},
               {"DROPS", Align::kRight},
               {"QUEUE MAX", Align::kRight}});
  for (const auto& link : links)
    table.add_row({link.port, link.peer, link.up ? Cell("up", Tone::kGood) : Cell("DOWN", Tone::kBad),
                   human_rate(link.rate_bps), Cell(bar(link.utilization, 10), load_tone(link.utilization)),
                   human_percent(link.utilization), human_bytes(link.planned_bytes), human_count(link.flows),
                   human_bytes(link.tx_bytes), count_cell(link.drops),
                   fmt::format("{} of {}", human_bytes(link.queue_max_bytes), human_bytes(link.queue_bytes))});
  return table.to_string(style.colour);
}

std::string text_of(const std::vector<msg::JobState>& jobs, const Style& style) {
  if (jobs.empty()) return "No jobs: no communicator has been announced.\n";
  Table table({{"COMMUNICATOR", Align::kRight},
               {"RANKS", Align::kRight},
               {"HOSTS"},
               {"COLLECTIVES", Align::kRight},
               {"BYTES", Align::kRight},
               {"LAST"},
               {"SIZE", Align::kRight},
               {"PLAN HITS", Align::kRight},
               {"CONTROL"}});
  for (const auto& job : jobs)
    table.add_row({id_text(job.comm_id),
                   job.announced == job.nranks
                       ? Cell(fmt::format("{}", job.nranks))
                       : Cell(fmt::format("{} of {}", job.announced, job.nranks), Tone::kWarning),
                   host_summary(job.hosts), human_count(job.collectives), human_bytes(job.bytes_total),
                   op_name(job.last_op), human_bytes(job.last_bytes), hit_rate(job.plan_hits, job.plan_misses),
                   job.device_traffic ? Cell("partly", Tone::kWarning) : Cell("full")});
  return table.to_string(style.colour);
}

std::string text_of(const std::vector<msg::HostState>& hosts, const Style& style) {
  if (hosts.empty()) return "No hosts: the controller knows no topology.\n";
  Table table({{"HOST"},
               {"AGENT"},
               {"SEEN"},
               {"PROCESSES", Align::kRight},
               {"PLAN", Align::kRight},
               {"FLOWS", Align::kRight},
               {"WINDOWS", Align::kRight},
               {"LOST", Align::kRight},
               {"EVENTS LOST", Align::kRight},
               {"CLOCK", Align::kRight},
               {"ROCE"},
               {"LAYERS"}});
  for (const auto& host : hosts)
    table.add_row(
        {host.host, connected_cell(host.connected, host.refusal), ago(host.last_seen_tai_ns, style),
         human_count(host.processes), fmt::format("{}", host.plan_revision), human_count(host.plan_entries),
         human_count(host.windows), count_cell(host.windows_lost), count_cell(host.events_lost),
         host.clock_synchronized ? Cell(human_duration(host.clock_offset_ns)) : Cell("unsynchronized", Tone::kWarning),
         std::ranges::find(host.features, "roce") != host.features.end() ? "yes" : "no",
         layers_text(host.layers, host.processes)});
  return table.to_string(style.colour) + refusals(hosts, [](const msg::HostState& host) { return host.host; });
}

std::string text_of(const std::vector<msg::SwitchState>& switches, const Style& style) {
  if (switches.empty()) return "No switches: the driver has none to speak to.\n";
  Table table({{"SWITCH"},
               {"AGENT"},
               {"SEEN"},
               {"PLAN", Align::kRight},
               {"RULES", Align::kRight},
               {"PORTS UP", Align::kRight}});
  for (const auto& at : switches)
    table.add_row({at.switch_name, connected_cell(at.connected, at.refusal), ago(at.last_seen_tai_ns, style),
                   fmt::format("{}", at.rule_revision),
                   fmt::format("{} of {}", human_count(at.rules), human_count(at.table_size)),
                   Cell(fmt::format("{} of {}", at.ports_up, at.ports),
                        at.ports_up == at.ports ? Tone::kPlain : Tone::kWarning)});
  return table.to_string(style.colour) + refusals(switches, [](const msg::SwitchState& at) { return at.switch_name; });
}

std::string text_of(const std::vector<msg::ForecastState>& forecasts, const Style& style) {
  if (forecasts.empty()) return "No forecasts: no communicator has repeated itself yet.\n";
  Table table({{"COMMUNICATOR", Align::kRight},
               {"NEXT"},
               {"SIZE", Align::kRight},
               {"STARTS IN", Align::kRight},
               {"WINDOW", Align::kRight},
               {"PERIOD", Align::kRight},
               {"JITTER", Align::kRight},
               {"CONFIDENCE", Align::kRight},
               {"HIT RATE", Align::kRight}});
  for (const auto& forecast : forecasts) {
    const auto until = static_cast<int64_t>(forecast.window_start_tai_ns - style.now_tai_ns);
    const auto width = static_cast<int64_t>(forecast.window_end_tai_ns - forecast.window_start_tai_ns);
    table.add_row({id_text(forecast.comm_id), op_name(forecast.op), human_bytes(forecast.bytes), human_duration(until),
                   human_duration(width), human_duration(static_cast<int64_t>(forecast.period_ns)),
                   human_duration(static_cast<int64_t>(forecast.jitter_ns)), human_percent(forecast.confidence),
                   hit_rate(forecast.hits, forecast.misses)});
  }
  return table.to_string(style.colour);
}

std::string text_of(const msg::NicForecasts& nics, const Style& style) {
  if (nics.source.empty())
    return "No simulated prediction to compare NICs with: write one with orrery-sim run --waveforms and name it in "
           "forecast.waveforms_file of the controller.\n";
  std::string out = bold("Predicted", style) + fmt::format(" on {} by {}\n", clean(nics.topology), clean(nics.source));
  if (!nics.same_fabric)
    out += toned("The controller's topology is another one with the same NICs; simulate again.\n", Tone::kWarning,
                 style.colour);
  for (const msg::ForecastJob& job : nics.jobs)
    out +=
        fmt::format("  {}: {} per iteration\n", clean(job.name), human_duration(static_cast<int64_t>(job.period_ns)));
  Table table({{"NIC"},
               {"JOBS"},
               {"PREDICTED", Align::kRight},
               {"PEAK", Align::kRight},
               {"OBSERVED", Align::kRight},
               {"PEAK", Align::kRight},
               {"OF IT", Align::kRight},
               {"VERDICT"}});
  for (const msg::NicForecast& nic : nics.nics)
    table.add_row({nic.host + ":" + nic.nic, nic.jobs.empty() ? "-" : nic.jobs, human_rate(nic.predicted_bps),
                   human_rate(nic.predicted_peak_bps), human_rate(nic.observed_bps), human_rate(nic.observed_peak_bps),
                   nic.predicted_bps == 0
                       ? "-"
                       : human_percent(static_cast<double>(nic.observed_bps) / static_cast<double>(nic.predicted_bps)),
                   verdict_cell(nic.verdict)});
  out += "\n" + table.to_string(style.colour);
  if (nics.nics.size() < nics.total)
    out +=
        fmt::format("\n{} of {} NICs, those farthest from the prediction\n", nics.nics.size(), human_count(nics.total));
  return out;
}

std::string text_of(const msg::Health& health, const Style& style) {
  const auto all = [&](uint32_t connected, uint32_t known) {
    return toned(fmt::format("{} of {}", connected, known), connected == known ? Tone::kGood : Tone::kWarning,
                 style.colour);
  };
  std::string out =
      health.problems.empty()
          ? toned("Healthy", Tone::kGood, style.colour)
          : toned(fmt::format("{} problem{}", health.problems.size(), health.problems.size() == 1 ? "" : "s"),
                  Tone::kBad, style.colour);
  out += fmt::format(": controller {}, started {}, plan {}.{}, driver {}\n", clean(health.version),
                     ago(health.started_tai_ns, style), health.term, health.revision, clean(health.driver));
  out += fmt::format("Agents {}, switches {}, plan hits {}\n", all(health.hosts_connected, health.hosts_known),
                     all(health.switches_connected, health.switches_known),
                     hit_rate(health.plan_hits, health.plan_misses));
  for (const std::string& problem : health.problems) out += "  - " + clean(problem) + "\n";
  return out;
}

std::string op_name(uint16_t op) {
  static constexpr std::string_view kNames[] = {"-",       "all-reduce",   "all-gather", "reduce-scatter", "broadcast",
                                                "reduce",  "send",         "recv",       "all-to-all",     "gather",
                                                "scatter", "all-to-all-v", "put"};
  static_assert(std::size(kNames) == ORRERY_OP_PUT + 1);
  return op < std::size(kNames) ? std::string(kNames[op]) : fmt::format("op-{}", op);
}

std::string via(const std::vector<std::string>& path) {
  std::string out;
  for (size_t i = 1; i < path.size(); ++i) {
    if (i != 1) out += " > ";
    out += path[i].substr(0, path[i].find(':'));
  }
  return out.empty() ? "-" : out;
}

std::string hit_rate(uint64_t hits, uint64_t misses) {
  if (hits + misses == 0) return "-";
  return human_percent(static_cast<double>(hits) / (static_cast<double>(hits) + static_cast<double>(misses)));
}

std::string id_text(uint64_t id) {
  return id < 10'000'000 ? fmt::format("{}", id) : fmt::format("{:#x}", id);
}

}  // namespace orrery::ctl
