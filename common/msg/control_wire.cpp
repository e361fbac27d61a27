#include "common/msg/control_wire.h"

#include "common/msg/wire_read.h"

namespace orrery::msg {
namespace {

constexpr size_t kMaxReasons = 256;
constexpr size_t kMaxHops = 64;

// One value that a newer controller has shall not keep an orreryctl from the rest of the answer.
template <typename T, typename Wire>
T read_enum(Wire value, Wire last_known, T unrecognised) {
  return value <= last_known ? static_cast<T>(value) : unrecognised;
}

Result<PlannedFlow> read_planned_flow(wire::PlannedFlow::Reader in) {
  PlannedFlow out;
  out.flow_id = in.getFlowId();
  out.comm_id = in.getCommId();
  ORRERY_ASSIGN(out.src_host, read_name("flow.srcHost", in.getSrcHost(), true));
  ORRERY_ASSIGN(out.dst_host, read_name("flow.dstHost", in.getDstHost(), true));
  ORRERY_ASSIGN(out.tuple, read_tuple("flow.tuple", in.getTuple(), true));
  ORRERY_ASSIGN(out.path, read_names("flow.path", in.getPath(), kMaxPathLinks));
  ORRERY_ASSIGN(out.backup, read_names("flow.backup", in.getBackup(), kMaxPathLinks));
  out.bytes_per_round = in.getBytesPerRound();
  out.release_offset_ns = in.getReleaseOffsetNs();
  out.pace_bps = in.getPaceBps();
  out.state = read_enum(in.getState(), wire::PlannedFlow::State::FIXED, PlannedFlow::State::kUnrecognised);
  out.on_path = read_enum(in.getOnPath(), wire::PlannedFlow::OnPath::NO, PlannedFlow::OnPath::kUnknown);
  return out;
}

void write_planned_flow(wire::PlannedFlow::Builder out, const PlannedFlow& in) {
  out.setFlowId(in.flow_id);
  out.setCommId(in.comm_id);
  out.setSrcHost(in.src_host);
  out.setDstHost(in.dst_host);
  if (in.tuple != FiveTuple{}) write_tuple(out.initTuple(), in.tuple);
  write_texts(out.initPath(in.path.size()), in.path);
  write_texts(out.initBackup(in.backup.size()), in.backup);
  out.setBytesPerRound(in.bytes_per_round);
  out.setReleaseOffsetNs(in.release_offset_ns);
  out.setPaceBps(in.pace_bps);
  out.setState(static_cast<wire::PlannedFlow::State>(in.state));
  out.setOnPath(static_cast<wire::PlannedFlow::OnPath>(in.on_path));
}

Result<HopExplanation> read_hop(wire::HopExplanation::Reader in) {
  HopExplanation out;
  ORRERY_ASSIGN(out.port, read_name("hops.port", in.getPort()));
  out.decided_by = read_text(in.getDecidedBy());
  out.load_bytes = in.getLoadBytes();
  ORRERY_ASSIGN(out.alternatives, read_texts("hops.alternatives", in.getAlternatives(), kMaxSmallList));
  return out;
}

Result<LiveFlow> read_live_flow(wire::LiveFlow::Reader in) {
  LiveFlow out;
  ORRERY_ASSIGN(out.tuple, read_tuple("flows.tuple", in.getTuple()));
  ORRERY_ASSIGN(out.src_host, read_name("flows.srcHost", in.getSrcHost(), true));
  ORRERY_ASSIGN(out.dst_host, read_name("flows.dstHost", in.getDstHost(), true));
  out.comm_id = in.getCommId();
  out.flow_id = in.getFlowId();
  out.tx_bytes = in.getTxBytes();
  ORRERY_ASSIGN(out.path, read_names("flows.path", in.getPath(), kMaxPathLinks));
  out.on_path = read_enum(in.getOnPath(), wire::PlannedFlow::OnPath::NO, PlannedFlow::OnPath::kUnknown);
  if (in.hasQueuePair()) out.queue_pair = read_queue_pair(in.getQueuePair());
  out.held_ns = in.getHeldNs();
  return out;
}

void write_live_flow(wire::LiveFlow::Builder out, const LiveFlow& in) {
  write_tuple(out.initTuple(), in.tuple);
  out.setSrcHost(in.src_host);
  out.setDstHost(in.dst_host);
  out.setCommId(in.comm_id);
  out.setFlowId(in.flow_id);
  out.setTxBytes(in.tx_bytes);
  write_texts(out.initPath(in.path.size()), in.path);
  out.setOnPath(static_cast<wire::PlannedFlow::OnPath>(in.on_path));
  if (in.queue_pair) write_queue_pair(out.initQueuePair(), *in.queue_pair);
  out.setHeldNs(in.held_ns);
}

Result<NicForecast> read_nic_forecast(wire::NicForecast::Reader in) {
  NicForecast out;
  ORRERY_ASSIGN(out.host, read_name("nics.host", in.getHost()));
  ORRERY_ASSIGN(out.nic, read_name("nics.nic", in.getNic()));
  out.jobs = read_text(in.getJobs());
  out.bytes_per_iteration = in.getBytesPerIteration();
  out.predicted_bps = in.getPredictedBps();
  out.predicted_peak_bps = in.getPredictedPeakBps();
  out.observed_bps = in.getObservedBps();
  out.observed_peak_bps = in.getObservedPeakBps();
  out.verdict =
      read_enum(in.getVerdict(), wire::NicForecast::Verdict::NOT_PREDICTED, NicForecast::Verdict::kUnrecognised);
  return out;
}

void write_nic_forecast(wire::NicForecast::Builder out, const NicForecast& in) {
  out.setHost(in.host);
  out.setNic(in.nic);
  out.setJobs(in.jobs);
  out.setBytesPerIteration(in.bytes_per_iteration);
  out.setPredictedBps(in.predicted_bps);
  out.setPredictedPeakBps(in.predicted_peak_bps);
  out.setObservedBps(in.observed_bps);
  out.setObservedPeakBps(in.observed_peak_bps);
  out.setVerdict(static_cast<wire::NicForecast::Verdict>(in.verdict));
}

PlanBounds read_bounds(wire::PlanBounds::Reader in) {
  return {in.getMaxDrainNs(), in.getLowerBoundNs(), in.getFluidBoundNs()};
}

void write_bounds(wire::PlanBounds::Builder out, const PlanBounds& in) {
  out.setMaxDrainNs(in.max_drain_ns);
  out.setLowerBoundNs(in.lower_bound_ns);
  out.setFluidBoundNs(in.fluid_bound_ns);
}

}  // namespace

Result<PlanList> read_plan_list(wire::PlanList::Reader in) {
  PlanList out;
  out.term = in.getTerm();
  out.revision = in.getRevision();
  out.driver = read_text(in.getDriver());
  out.method = read_text(in.getMethod());
  out.max_load_bytes = in.getMaxLoadBytes();
  out.lower_bound_bytes = in.getLowerBoundBytes();
  out.planned_at_tai_ns = in.getPlannedAtTaiNs();
  out.planning_ns = in.getPlanningNs();
  ORRERY_ASSIGN(out.flows, read_list<PlannedFlow>("flows", in.getFlows(), kMaxItems, read_planned_flow));
  out.bounds = read_bounds(in.getBounds());
  return out;
}

void write_plan_list(wire::PlanList::Builder out, const PlanList& in) {
  out.setTerm(in.term);
  out.setRevision(in.revision);
  out.setDriver(in.driver);
  out.setMethod(in.method);
  out.setMaxLoadBytes(in.max_load_bytes);
  out.setLowerBoundBytes(in.lower_bound_bytes);
  out.setPlannedAtTaiNs(in.planned_at_tai_ns);
  out.setPlanningNs(in.planning_ns);
  auto flows = out.initFlows(in.flows.size());
  for (size_t i = 0; i < in.flows.size(); ++i) write_planned_flow(flows[i], in.flows[i]);
  write_bounds(out.initBounds(), in.bounds);
}

Result<FlowExplanation> read_explanation(wire::FlowExplanation::Reader in) {
  FlowExplanation out;
  ORRERY_ASSIGN(out.flow, read_planned_flow(in.getFlow()));
  ORRERY_ASSIGN(out.reasons, read_texts("reasons", in.getReasons(), kMaxReasons));
  ORRERY_ASSIGN(out.hops, read_list<HopExplanation>("hops", in.getHops(), kMaxHops, read_hop));
  ORRERY_ASSIGN(out.live, read_list<LiveFlow>("live", in.getLive(), kMaxItems, read_live_flow));
  out.bounds = read_bounds(in.getBounds());
  return out;
}

void write_explanation(wire::FlowExplanation::Builder out, const FlowExplanation& in) {
  write_planned_flow(out.initFlow(), in.flow);
  write_texts(out.initReasons(in.reasons.size()), in.reasons);
  auto hops = out.initHops(in.hops.size());
  for (size_t i = 0; i < in.hops.size(); ++i) {
    hops[i].setPort(in.hops[i].port);
    hops[i].setDecidedBy(in.hops[i].decided_by);
    hops[i].setLoadBytes(in.hops[i].load_bytes);
    write_texts(hops[i].initAlternatives(in.hops[i].alternatives.size()), in.hops[i].alternatives);
  }
  auto live = out.initLive(in.live.size());
  for (size_t i = 0; i < in.live.size(); ++i) write_live_flow(live[i], in.live[i]);
  write_bounds(out.initBounds(), in.bounds);
}

Result<FlowList> read_flow_list(wire::FlowList::Reader in) {
  FlowList out;
  out.total = in.getTotal();
  ORRERY_ASSIGN(out.flows, read_list<LiveFlow>("flows", in.getFlows(), kMaxItems, read_live_flow));
  return out;
}

void write_flow_list(wire::FlowList::Builder out, const FlowList& in) {
  out.setTotal(in.total);
  auto flows = out.initFlows(in.flows.size());
  for (size_t i = 0; i < in.flows.size(); ++i) write_live_flow(flows[i], in.flows[i]);
}

Result<LinkState> read_link_state(wire::LinkState::Reader in) {
  LinkState out;
  ORRERY_ASSIGN(out.port, read_name("links.port", in.getPort()));
  ORRERY_ASSIGN(out.peer, read_name("links.peer", in.getPeer(), true));
  out.up = in.getUp();
  out.rate_bps = in.getRateBps();
  out.queue_bytes = in.getQueueBytes();
  out.utilization = in.getUtilization();
  out.planned_bytes = in.getPlannedBytes();
  out.tx_bytes = in.getTxBytes();
  out.drops = in.getDrops();
  out.queue_max_bytes = in.getQueueMaxBytes();
  out.flows = in.getFlows();
  return out;
}

void write_link_state(wire::LinkState::Builder out, const LinkState& in) {
  out.setPort(in.port);
  out.setPeer(in.peer);
  out.setUp(in.up);
  out.setRateBps(in.rate_bps);
  out.setQueueBytes(in.queue_bytes);
  out.setUtilization(in.utilization);
  out.setPlannedBytes(in.planned_bytes);
  out.setTxBytes(in.tx_bytes);
  out.setDrops(in.drops);
  out.setQueueMaxBytes(in.queue_max_bytes);
  out.setFlows(in.flows);
}

Result<JobState> read_job_state(wire::JobState::Reader in) {
  JobState out;
  out.comm_id = in.getCommId();
  out.nranks = in.getNranks();
  out.announced = in.getAnnounced();
  ORRERY_TRY(check_count("jobs.hosts", in.getHosts().size(), kMaxItems));
  for (const auto host : in.getHosts()) {
    ORRERY_ASSIGN(std::string name, read_name("jobs.hosts", host, true));
    out.hosts.push_back(std::move(name));
  }
  out.collectives = in.getCollectives();
  out.bytes_total = in.getBytesTotal();
  out.plan_hits = in.getPlanHits();
  out.plan_misses = in.getPlanMisses();
  out.last_op = in.getLastOp();
  out.last_bytes = in.getLastBytes();
  out.device_traffic = in.getDeviceTraffic();
  return out;
}

void write_job_state(wire::JobState::Builder out, const JobState& in) {
  out.setCommId(in.comm_id);
  out.setNranks(in.nranks);
  out.setAnnounced(in.announced);
  write_texts(out.initHosts(in.hosts.size()), in.hosts);
  out.setCollectives(in.collectives);
  out.setBytesTotal(in.bytes_total);
  out.setPlanHits(in.plan_hits);
  out.setPlanMisses(in.plan_misses);
  out.setLastOp(in.last_op);
  out.setLastBytes(in.last_bytes);
  out.setDeviceTraffic(in.device_traffic);
}

Result<ForecastState> read_forecast_state(wire::ForecastState::Reader in) {
  ForecastState out;
  out.comm_id = in.getCommId();
  out.op = in.getOp();
  out.bytes = in.getBytes();
  out.window_start_tai_ns = in.getWindowStartTaiNs();
  out.window_end_tai_ns = in.getWindowEndTaiNs();
  out.period_ns = in.getPeriodNs();
  out.jitter_ns = in.getJitterNs();
  out.confidence = in.getConfidence();
  out.hits = in.getHits();
  out.misses = in.getMisses();
  return out;
}

void write_forecast_state(wire::ForecastState::Builder out, const ForecastState& in) {
  out.setCommId(in.comm_id);
  out.setOp(in.op);
  out.setBytes(in.bytes);
  out.setWindowStartTaiNs(in.window_start_tai_ns);
  out.setWindowEndTaiNs(in.window_end_tai_ns);
  out.setPeriodNs(in.period_ns);
  out.setJitterNs(in.jitter_ns);
  out.setConfidence(in.confidence);
  out.setHits(in.hits);
  out.setMisses(in.misses);
}

Result<NicForecasts> read_nic_forecasts(wire::NicForecasts::Reader in) {
  NicForecasts out;
  out.source = read_text(in.getSource());
  out.topology = read_text(in.getTopology());
  out.same_fabric = in.getSameFabric();
  ORRERY_ASSIGN(out.jobs, read_list<ForecastJob>("jobs", in.getJobs(), kMaxItems, [](auto job) -> Result<ForecastJob> {
                  return ForecastJob{read_text(job.getName()), job.getPeriodNs()};
                }));
  out.total = in.getTotal();
  ORRERY_ASSIGN(out.nics, read_list<NicForecast>("nics", in.getNics(), kMaxItems, read_nic_forecast));
  return out;
}

void write_nic_forecasts(wire::NicForecasts::Builder out, const NicForecasts& in) {
  out.setSource(in.source);
  out.setTopology(in.topology);
  out.setSameFabric(in.same_fabric);
  auto jobs = out.initJobs(in.jobs.size());
  for (size_t i = 0; i < in.jobs.size(); ++i) {
    jobs[i].setName(in.jobs[i].name);
    jobs[i].setPeriodNs(in.jobs[i].period_ns);
  }
  out.setTotal(in.total);
  auto nics = out.initNics(in.nics.size());
  for (size_t i = 0; i < in.nics.size(); ++i) write_nic_forecast(nics[i], in.nics[i]);
}

Result<HostState> read_host_state(wire::HostState::Reader in) {
  HostState out;
  ORRERY_ASSIGN(out.host, read_name("hosts.host", in.getHost()));
  out.connected = in.getConnected();
  out.last_seen_tai_ns = in.getLastSeenTaiNs();
  out.processes = in.getProcesses();
  out.plan_revision = in.getPlanRevision();
  out.plan_entries = in.getPlanEntries();
  out.windows = in.getWindows();
  out.windows_lost = in.getWindowsLost();
  out.events_lost = in.getEventsLost();
  out.clock_offset_ns = in.getClockOffsetNs();
  out.clock_synchronized = in.getClockSynchronized();
  out.refusal = read_text(in.getRefusal());
  ORRERY_ASSIGN(out.features, read_names("hosts.features", in.getFeatures(), kMaxSmallList));
  ORRERY_ASSIGN(out.layers, read_numbers("hosts.layers", in.getLayers(), kMaxSmallList));
  return out;
}

void write_host_state(wire::HostState::Builder out, const HostState& in) {
  out.setHost(in.host);
  out.setConnected(in.connected);
  out.setLastSeenTaiNs(in.last_seen_tai_ns);
  out.setProcesses(in.processes);
  out.setPlanRevision(in.plan_revision);
  out.setPlanEntries(in.plan_entries);
  out.setWindows(in.windows);
  out.setWindowsLost(in.windows_lost);
  out.setEventsLost(in.events_lost);
  out.setClockOffsetNs(in.clock_offset_ns);
  out.setClockSynchronized(in.clock_synchronized);
  out.setRefusal(in.refusal);
  write_texts(out.initFeatures(in.features.size()), in.features);
  write_numbers(out.initLayers(in.layers.size()), in.layers);
}

Result<SwitchState> read_switch_state(wire::SwitchState::Reader in) {
  SwitchState out;
  ORRERY_ASSIGN(out.switch_name, read_name("switches.switch", in.getSwitch()));
  out.connected = in.getConnected();
  out.last_seen_tai_ns = in.getLastSeenTaiNs();
  out.rule_revision = in.getRuleRevision();
  out.rules = in.getRules();
  out.table_size = in.getTableSize();
  out.ports_up = in.getPortsUp();
  out.ports = in.getPorts();
  out.refusal = read_text(in.getRefusal());
  return out;
}

void write_switch_state(wire::SwitchState::Builder out, const SwitchState& in) {
  out.setSwitch(in.switch_name);
  out.setConnected(in.connected);
  out.setLastSeenTaiNs(in.last_seen_tai_ns);
  out.setRuleRevision(in.rule_revision);
  out.setRules(in.rules);
  out.setTableSize(in.table_size);
  out.setPortsUp(in.ports_up);
  out.setPorts(in.ports);
  out.setRefusal(in.refusal);
}

Result<Health> read_health(wire::Health::Reader in) {
  Health out;
  out.version = read_text(in.getVersion());
  out.started_tai_ns = in.getStartedTaiNs();
  out.term = in.getTerm();
  out.revision = in.getRevision();
  out.driver = read_text(in.getDriver());
  out.hosts_connected = in.getHostsConnected();
  out.hosts_known = in.getHostsKnown();
  out.switches_connected = in.getSwitchesConnected();
  out.switches_known = in.getSwitchesKnown();
  out.plan_hits = in.getPlanHits();
  out.plan_misses = in.getPlanMisses();
  ORRERY_ASSIGN(out.problems, read_texts("problems", in.getProblems(), kMaxReasons));
  return out;
}

void write_health(wire::Health::Builder out, const Health& in) {
  out.setVersion(in.version);
  out.setStartedTaiNs(in.started_tai_ns);
  out.setTerm(in.term);
  out.setRevision(in.revision);
  out.setDriver(in.driver);
  out.setHostsConnected(in.hosts_connected);
  out.setHostsKnown(in.hosts_known);
  out.setSwitchesConnected(in.switches_connected);
  out.setSwitchesKnown(in.switches_known);
  out.setPlanHits(in.plan_hits);
  out.setPlanMisses(in.plan_misses);
  write_texts(out.initProblems(in.problems.size()), in.problems);
}

}  // namespace orrery::msg
