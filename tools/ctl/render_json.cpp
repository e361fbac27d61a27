#include "common/abi/event_abi.h"
#include "tools/ctl/render.h"

namespace orrery::ctl {
namespace {

const char* state_name(msg::PlannedFlow::State state) {
  switch (state) {
    case msg::PlannedFlow::State::kAcknowledged:
      return "acknowledged";
    case msg::PlannedFlow::State::kAlive:
      return "alive";
    case msg::PlannedFlow::State::kFixed:
      return "fixed";
    case msg::PlannedFlow::State::kUnrecognised:
      return "unrecognised";
    default:
      return "planned";
  }
}

const char* on_path_name(msg::PlannedFlow::OnPath on_path) {
  switch (on_path) {
    case msg::PlannedFlow::OnPath::kYes:
      return "yes";
    case msg::PlannedFlow::OnPath::kNo:
      return "no";
    default:
      return "unknown";
  }
}

const char* verdict_name(msg::NicForecast::Verdict verdict) {
  using Verdict = msg::NicForecast::Verdict;
  switch (verdict) {
    case Verdict::kAsPredicted:
      return "as_predicted";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSilent:
      return "silent";
    case Verdict::kNotPredicted:
      return "not_predicted";
    case Verdict::kUnrecognised:
      return "unrecognised";
    default:
      return "unknown";
  }
}

Json tuple_json(const FiveTuple& tuple) {
  return {{"src", tuple.src.to_string()},
          {"dst", tuple.dst.to_string()},
          {"src_port", tuple.src_port},
          {"dst_port", tuple.dst_port},
          {"protocol", tuple.protocol}};
}

Json flow_json(const msg::PlannedFlow& flow) {
  Json json;
  json["flow_id"] = flow.flow_id;
  json["comm_id"] = flow.comm_id;
  json["src_host"] = flow.src_host;
  json["dst_host"] = flow.dst_host;
  json["tuple"] = tuple_json(flow.tuple);
  json["path"] = flow.path;
  json["backup"] = flow.backup;
  json["bytes_per_round"] = flow.bytes_per_round;
  json["release_offset_ns"] = flow.release_offset_ns;
  json["pace_bps"] = flow.pace_bps;
  json["state"] = state_name(flow.state);
  json["on_path"] = on_path_name(flow.on_path);
  return json;
}

Json queue_pair_json(const msg::QueuePair& pair) {
  return {{"qpn", pair.qpn},
          {"dest_qpn", pair.dest_qpn},
          {"device", pair.device},
          {"movable", (pair.flags & ORRERY_QP_CAN_MOVE) != 0},
          {"deferrable", (pair.flags & ORRERY_QP_CAN_DEFER) != 0},
          {"label_planned", (pair.flags & ORRERY_QP_LABEL_OURS) != 0},
          {"bonded", (pair.flags & ORRERY_QP_LAG) != 0},
          {"traffic_class", pair.traffic_class},
          {"flow_label", pair.flow_label},
          {"cycle", pair.cycle},
          {"moves", pair.moves},
          {"posted_sends", pair.posted_sends},
          {"completed_sends", pair.completed_sends},
          {"completion_errors", pair.completion_errors},
          {"failed_posts", pair.failed_posts},
          {"deferred_sends", pair.deferred_sends},
          {"drained_early", pair.drained_early}};
}

Json live_json(const msg::LiveFlow& flow) {
  Json json;
  json["tuple"] = tuple_json(flow.tuple);
  json["src_host"] = flow.src_host;
  json["dst_host"] = flow.dst_host;
  json["comm_id"] = flow.comm_id;
  json["flow_id"] = flow.flow_id;
  json["tx_bytes"] = flow.tx_bytes;
  json["path"] = flow.path;
  json["on_path"] = on_path_name(flow.on_path);
  json["held_ns"] = flow.held_ns;
  json["queue_pair"] = flow.queue_pair ? queue_pair_json(*flow.queue_pair) : Json();
  return json;
}

// Attached processes by layer of the preload library.
Json layers_json(const std::vector<uint32_t>& layers) {
  Json json = Json::object();
  for (size_t i = 0; i < std::size(kLayerNames); ++i)
    json[std::string(kLayerNames[i])] = i < layers.size() ? layers[i] : 0;
  return json;
}

// Lists are objects with one key, so that fields can be added beside it.
template <typename T, typename One>
Json list_json(const char* name, const std::vector<T>& items, One one) {
  Json json;
  json[name] = Json::array();
  for (const T& item : items) json[name].push_back(one(item));
  return json;
}

}  // namespace

void add_bounds(Json& json, const msg::PlanBounds& bounds) {
  json["max_drain_ns"] = bounds.max_drain_ns;
  json["lower_bound_ns"] = bounds.lower_bound_ns;
  json["fluid_bound_ns"] = bounds.fluid_bound_ns;
  json["gap_percent"] = bounds.known() ? Json(bounds.gap_percent()) : Json();
}

Json json_of(const msg::PlanList& plan) {
  Json json;
  json["term"] = plan.term;
  json["revision"] = plan.revision;
  json["driver"] = plan.driver;
  json["method"] = plan.method;
  json["max_load_bytes"] = plan.max_load_bytes;
  json["lower_bound_bytes"] = plan.lower_bound_bytes;
  add_bounds(json, plan.bounds);
  json["planned_at_tai_ns"] = plan.planned_at_tai_ns;
  json["planning_ns"] = plan.planning_ns;
  json["flows"] = json_of(plan.flows);
  return json;
}

Json json_of(const std::vector<msg::PlannedFlow>& flows) {
  Json json = Json::array();
  for (const auto& flow : flows) json.push_back(flow_json(flow));
  return json;
}

Json json_of(const std::vector<msg::LiveFlow>& flows) {
  Json json = Json::array();
  for (const auto& flow : flows) json.push_back(live_json(flow));
  return json;
}

Json json_of(const msg::FlowList& list) {
  Json json;
  json["total"] = list.total;
  json["flows"] = json_of(list.flows);
  return json;
}

Json json_of(const msg::FlowExplanation& explanation) {
  Json json;
  json["flow"] = flow_json(explanation.flow);
  json["reasons"] = explanation.reasons;
  json["hops"] = Json::array();
  for (const auto& hop : explanation.hops)
    json["hops"].push_back({{"port", hop.port},
                            {"decided_by", hop.decided_by},
                            {"load_bytes", hop.load_bytes},
                            {"alternatives", hop.alternatives}});
  json["live"] = json_of(explanation.live);
  add_bounds(json["plan"], explanation.bounds);
  return json;
}

Json json_of(const std::vector<msg::LinkState>& links) {
  return list_json("links", links, [](const msg::LinkState& link) {
    return Json{{"port", link.port},
                {"peer", link.peer},
                {"up", link.up},
                {"rate_bps", link.rate_bps},
                {"queue_bytes", link.queue_bytes},
                {"utilization", link.utilization},
                {"planned_bytes", link.planned_bytes},
                {"tx_bytes", link.tx_bytes},
                {"drops", link.drops},
                {"queue_max_bytes", link.queue_max_bytes},
                {"flows", link.flows}};
  });
}

Json json_of(const std::vector<msg::JobState>& jobs) {
  return list_json("jobs", jobs, [](const msg::JobState& job) {
    return Json{{"comm_id", job.comm_id},
                {"nranks", job.nranks},
                {"announced", job.announced},
                {"hosts", job.hosts},
                {"collectives", job.collectives},
                {"bytes_total", job.bytes_total},
                {"plan_hits", job.plan_hits},
                {"plan_misses", job.plan_misses},
                {"last_op", op_name(job.last_op)},
                {"last_bytes", job.last_bytes},
                {"device_traffic", job.device_traffic}};
  });
}

Json json_of(const std::vector<msg::HostState>& hosts) {
  return list_json("hosts", hosts, [](const msg::HostState& host) {
    return Json{{"host", host.host},
                {"connected", host.connected},
                {"last_seen_tai_ns", host.last_seen_tai_ns},
                {"processes", host.processes},
                {"plan_revision", host.plan_revision},
                {"plan_entries", host.plan_entries},
                {"windows", host.windows},
                {"windows_lost", host.windows_lost},
                {"events_lost", host.events_lost},
                {"clock_offset_ns", host.clock_offset_ns},
                {"clock_synchronized", host.clock_synchronized},
                {"refusal", host.refusal},
                {"features", host.features},
                {"layers", layers_json(host.layers)}};
  });
}

Json json_of(const std::vector<msg::SwitchState>& switches) {
  return list_json("switches", switches, [](const msg::SwitchState& at) {
    return Json{
        {"switch", at.switch_name},          {"connected", at.connected}, {"last_seen_tai_ns", at.last_seen_tai_ns},
        {"rule_revision", at.rule_revision}, {"rules", at.rules},         {"table_size", at.table_size},
        {"ports_up", at.ports_up},           {"ports", at.ports},         {"refusal", at.refusal}};
  });
}

Json json_of(const std::vector<msg::ForecastState>& forecasts) {
  return list_json("forecasts", forecasts, [](const msg::ForecastState& forecast) {
    return Json{{"comm_id", forecast.comm_id},
                {"op", op_name(forecast.op)},
                {"bytes", forecast.bytes},
                {"window_start_tai_ns", forecast.window_start_tai_ns},
                {"window_end_tai_ns", forecast.window_end_tai_ns},
                {"period_ns", forecast.period_ns},
                {"jitter_ns", forecast.jitter_ns},
                {"confidence", forecast.confidence},
                {"hits", forecast.hits},
                {"misses", forecast.misses}};
  });
}

Json json_of(const msg::NicForecasts& nics) {
  Json json = list_json("nics", nics.nics, [](const msg::NicForecast& nic) {
    return Json{{"host", nic.host},
                {"nic", nic.nic},
                {"jobs", nic.jobs},
                {"bytes_per_iteration", nic.bytes_per_iteration},
                {"predicted_bps", nic.predicted_bps},
                {"predicted_peak_bps", nic.predicted_peak_bps},
                {"observed_bps", nic.observed_bps},
                {"observed_peak_bps", nic.observed_peak_bps},
                {"verdict", verdict_name(nic.verdict)}};
  });
  if (nics.source.empty()) {
    json["prediction"] = nullptr;
    return json;
  }
  json["prediction"] = {{"source", nics.source},
                        {"topology", nics.topology},
                        {"same_fabric", nics.same_fabric},
                        {"nics_total", nics.total}};
  for (const msg::ForecastJob& job : nics.jobs)
    json["prediction"]["jobs"].push_back({{"name", job.name}, {"period_ns", job.period_ns}});
  return json;
}

Json json_of(const msg::Health& health) {
  Json json;
  json["version"] = health.version;
  json["started_tai_ns"] = health.started_tai_ns;
  json["term"] = health.term;
  json["revision"] = health.revision;
  json["driver"] = health.driver;
  json["hosts_connected"] = health.hosts_connected;
  json["hosts_known"] = health.hosts_known;
  json["switches_connected"] = health.switches_connected;
  json["switches_known"] = health.switches_known;
  json["plan_hits"] = health.plan_hits;
  json["plan_misses"] = health.plan_misses;
  json["problems"] = health.problems;
  return json;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace orrery::ctl
