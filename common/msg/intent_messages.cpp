#include "common/msg/intent_messages.h"

#include <netinet/in.h>

#include <optional>

#include "common/msg/codec.h"
#include "common/msg/wire_read.h"
#include "schemas/intent.capnp.h"

namespace orrery::msg {
namespace {

constexpr uint64_t kMaxWindowNs = 10'000'000'000;

Result<CommunicatorEvent> read_communicator(wire::CommunicatorEvent::Reader in) {
  CommunicatorEvent out;
  out.kind = static_cast<CommunicatorEvent::Kind>(in.getKind());
  out.comm_id = in.getCommId();
  out.parent_id = in.getParentId();
  out.rank = in.getRank();
  out.nranks = in.getNranks();
  out.process = in.getProcess();
  const bool gone = out.kind == CommunicatorEvent::Kind::kGone;
  ORRERY_ASSIGN(out.address, read_address("communicators.address", in.getAddress(), gone));
  out.device_traffic = in.getDeviceTraffic();
  if (out.comm_id == 0) return corrupt("communicators.commId", "is 0");
  if (!gone && (out.nranks == 0 || out.nranks > kMaxRanks || out.rank >= out.nranks))
    return corrupt("communicators.rank", fmt::format("{} of {} is not a rank", out.rank, out.nranks));
  return out;
}

Result<Intent> read_intent(wire::Intent::Reader in) {
  Intent out;
  out.comm_id = in.getCommId();
  out.process = in.getProcess();
  out.rank = in.getRank();
  out.op = in.getOp();
  out.bytes = in.getBytes();
  out.peer = in.getPeer();
  out.group = in.getGroup();
  out.called_tai_ns = in.getCalledTaiNs();
  out.first_byte_tai_ns = in.getFirstByteTaiNs();
  out.last_byte_tai_ns = in.getLastByteTaiNs();
  out.sequence = in.getSequence();
  out.flags = in.getFlags();
  if (out.comm_id == 0) return corrupt("intents.commId", "is 0");
  if (out.rank >= kMaxRanks) return corrupt("intents.rank", fmt::format("{} is not a rank", out.rank));
  return out;
}

Result<FlowReport> read_flow(wire::FlowReport::Reader in) {
  FlowReport out;
  out.kind = static_cast<FlowReport::Kind>(in.getKind());
  ORRERY_ASSIGN(out.tuple, read_tuple("flows.tuple", in.getTuple()));
  if (out.tuple.protocol != IPPROTO_TCP && out.tuple.protocol != IPPROTO_UDP)
    return corrupt("flows.tuple.protocol", fmt::format("{} is neither TCP nor UDP", out.tuple.protocol));
  out.comm_id = in.getCommId();
  out.process = in.getProcess();
  out.flow_id = in.getFlowId();
  out.tx_bytes = in.getTxBytes();
  out.rx_bytes = in.getRxBytes();
  out.bursts = in.getBursts();
  out.retransmits = in.getRetransmits();
  out.role = in.getRole();
  out.held_ns = in.getHeldNs();
  if (in.hasQueuePair()) out.queue_pair = read_queue_pair(in.getQueuePair());
  return out;
}

// The same as read_list, but skips items whose kind is newer than this program.
template <typename T, typename List, typename ReadOne, typename Kind>
Result<std::vector<T>> read_known(std::string_view field, List list, Kind last_known, ReadOne&& read_one) {
  ORRERY_TRY(check_count(field, list.size(), kMaxItems));
  std::vector<T> out;
  out.reserve(list.size());
  for (auto item : list) {
    if (item.getKind() > last_known) continue;
    ORRERY_ASSIGN(T value, read_one(item));
    out.push_back(std::move(value));
  }
  return out;
}

ClockState read_clock(wire::ClockState::Reader in) {
  return {in.getSynchronized(), in.getOffsetNs(), in.getBoundNs(), read_text(in.getSource()), in.getReleaseSuspended()};
}

Result<IntentWindow> read_window(wire::IntentWindow::Reader in) {
  IntentWindow out;
  out.schema_version = in.getSchemaVersion();
  if (out.schema_version == 0) return corrupt("schemaVersion", "is 0");
  ORRERY_ASSIGN(out.host, read_name("host", in.getHost()));
  out.sequence = in.getSequence();
  out.start_tai_ns = in.getStartTaiNs();
  out.length_ns = in.getLengthNs();
  if (out.length_ns > kMaxWindowNs) return corrupt("lengthNs", "is longer than 10 s");
  out.urgent = in.getUrgent();
  ORRERY_ASSIGN(out.communicators,
                read_known<CommunicatorEvent>("communicators", in.getCommunicators(),
                                              wire::CommunicatorEvent::Kind::GONE, read_communicator));
  ORRERY_ASSIGN(out.intents, read_list<Intent>("intents", in.getIntents(), kMaxItems, read_intent));
  ORRERY_ASSIGN(out.flows, read_known<FlowReport>("flows", in.getFlows(), wire::FlowReport::Kind::GONE, read_flow));
  out.clock = read_clock(in.getClock());
  const auto losses = in.getLosses();
  out.losses = {losses.getRingDropped(), losses.getNoRing(), losses.getNoSlot(), losses.getMalformed()};
  out.agent_start_tai_ns = in.getAgentStartTaiNs();
  return out;
}

void write_communicator(wire::CommunicatorEvent::Builder out, const CommunicatorEvent& in) {
  out.setKind(static_cast<wire::CommunicatorEvent::Kind>(in.kind));
  out.setCommId(in.comm_id);
  out.setParentId(in.parent_id);
  out.setRank(in.rank);
  out.setNranks(in.nranks);
  out.setProcess(in.process);
  out.setAddress(data_of(in.address));
  out.setDeviceTraffic(in.device_traffic);
}

void write_intent(wire::Intent::Builder out, const Intent& in) {
  out.setCommId(in.comm_id);
  out.setProcess(in.process);
  out.setRank(in.rank);
  out.setOp(in.op);
  out.setBytes(in.bytes);
  out.setPeer(in.peer);
  out.setGroup(in.group);
  out.setCalledTaiNs(in.called_tai_ns);
  out.setFirstByteTaiNs(in.first_byte_tai_ns);
  out.setLastByteTaiNs(in.last_byte_tai_ns);
  out.setSequence(in.sequence);
  out.setFlags(in.flags);
}

void write_flow(wire::FlowReport::Builder out, const FlowReport& in) {
  out.setKind(static_cast<wire::FlowReport::Kind>(in.kind));
  write_tuple(out.initTuple(), in.tuple);
  out.setCommId(in.comm_id);
  out.setProcess(in.process);
  out.setFlowId(in.flow_id);
  out.setTxBytes(in.tx_bytes);
  out.setRxBytes(in.rx_bytes);
  out.setBursts(in.bursts);
  out.setRetransmits(in.retransmits);
  out.setRole(in.role);
  out.setHeldNs(in.held_ns);
  if (in.queue_pair) write_queue_pair(out.initQueuePair(), *in.queue_pair);
}

void write_window(wire::IntentWindow::Builder out, const IntentWindow& in) {
  out.setSchemaVersion(in.schema_version);
  out.setHost(in.host);
  out.setSequence(in.sequence);
  out.setStartTaiNs(in.start_tai_ns);
  out.setLengthNs(in.length_ns);
  out.setUrgent(in.urgent);
  auto communicators = out.initCommunicators(in.communicators.size());
  for (size_t i = 0; i < in.communicators.size(); ++i) write_communicator(communicators[i], in.communicators[i]);
  auto intents = out.initIntents(in.intents.size());
  for (size_t i = 0; i < in.intents.size(); ++i) write_intent(intents[i], in.intents[i]);
  auto flows = out.initFlows(in.flows.size());
  for (size_t i = 0; i < in.flows.size(); ++i) write_flow(flows[i], in.flows[i]);
  auto clock = out.initClock();
  clock.setSynchronized(in.clock.synchronized);
  clock.setOffsetNs(in.clock.offset_ns);
  clock.setBoundNs(in.clock.bound_ns);
  clock.setSource(in.clock.source);
  clock.setReleaseSuspended(in.clock.release_suspended);
  auto losses = out.initLosses();
  losses.setRingDropped(in.losses.ring_dropped);
  losses.setNoRing(in.losses.no_ring);
  losses.setNoSlot(in.losses.no_slot);
  losses.setMalformed(in.losses.malformed);
  out.setAgentStartTaiNs(in.agent_start_tai_ns);
}

}  // namespace

Result<std::string> encode(const IntentWindow& window) {
  return encode<wire::IntentWindow>([&](wire::IntentWindow::Builder out) { write_window(out, window); });
}

Result<IntentWindow> decode_intent_window(std::string_view frame) {
  return decode<wire::IntentWindow>(frame, read_window);
}

}  // namespace orrery::msg
