#include "common/msg/plan_messages.h"

#include "common/abi/ecmp_hash_abi.h"
#include "common/abi/plan_abi.h"
#include "common/msg/codec.h"
#include "common/msg/plan_wire.h"
#include "common/msg/wire_read.h"

namespace orrery::msg {
namespace {

constexpr size_t kMaxBackups = 8;
constexpr uint64_t kMaxReleaseOffsetNs = 1'000'000'000;

Result<HashHop> read_hop(wire::HashHop::Reader in) {
  const HashHop hop = {in.getSeed(), in.getGroupSize(), in.getMember(), in.getHashFunction()};
  if (hop.group_size == 0 || hop.group_size > ORRERY_ECMP_MAX_GROUP || hop.member >= hop.group_size)
    return corrupt("flows.hops", fmt::format("member {} of {} is not a member of a group", hop.member, hop.group_size));
  return hop;
}

Status check_ports(const FlowPlan& flow) {
  if (flow.src_port_last < flow.src_port_first)
    return corrupt("flows.srcPortLast",
                   fmt::format("{} is below srcPortFirst {}", flow.src_port_last, flow.src_port_first));
  if ((flow.src_port_value & ~flow.src_port_mask) != 0)
    return corrupt("flows.srcPortValue",
                   fmt::format("{:#x} has bits outside srcPortMask {:#x}", flow.src_port_value, flow.src_port_mask));
  return {};
}

Result<FlowPlan> read_flow(wire::FlowPlan::Reader in) {
  FlowPlan out;
  out.flow_id = in.getFlowId();
  if (out.flow_id == 0) return corrupt("flows.flowId", "is 0");
  out.comm_id = in.getCommId();
  ORRERY_ASSIGN(out.src, read_address("flows.src", in.getSrc()));
  ORRERY_ASSIGN(out.dst, read_address("flows.dst", in.getDst()));
  out.protocol = in.getProtocol();
  out.ordinal = in.getOrdinal();
  ORRERY_ASSIGN(out.tuple, read_tuple("flows.tuple", in.getTuple(), true));
  ORRERY_ASSIGN(out.path, read_names("flows.path", in.getPath(), kMaxPathLinks));
  ORRERY_ASSIGN(out.backups, read_list<std::vector<std::string>>(
                                 "flows.backups", in.getBackups(), kMaxBackups, [](wire::Backup::Reader backup) {
                                   return read_names("flows.backups.path", backup.getPath(), kMaxPathLinks);
                                 }));
  ORRERY_ASSIGN(out.hops, read_list<HashHop>("flows.hops", in.getHops(), ORRERY_PLAN_MAX_HOPS, read_hop));
  out.src_port_first = in.getSrcPortFirst();
  out.src_port_last = in.getSrcPortLast();
  out.src_port_mask = in.getSrcPortMask();
  out.src_port_value = in.getSrcPortValue();
  ORRERY_TRY(check_ports(out));
  out.release_offset_ns = in.getReleaseOffsetNs();
  if (out.release_offset_ns > kMaxReleaseOffsetNs) return corrupt("flows.releaseOffsetNs", "is longer than 1 s");
  out.pace_bps = in.getPaceBps();
  out.dscp = in.getDscp();
  if (out.dscp != 255 && out.dscp > 63) return corrupt("flows.dscp", fmt::format("{} is not a DSCP", out.dscp));
  return out;
}

Result<HostPlan> read_plan(wire::HostPlan::Reader in) {
  HostPlan out;
  ORRERY_ASSIGN(out.host, read_name("host", in.getHost()));
  out.term = in.getTerm();
  out.revision = in.getRevision();
  out.lease_ns = in.getLeaseNs();
  ORRERY_TRY(check_revision(out.term, out.revision));
  ORRERY_TRY(check_lease(out.lease_ns));
  ORRERY_ASSIGN(out.flows, read_list<FlowPlan>("flows", in.getFlows(), kMaxItems, read_flow));
  return out;
}

Result<AgentHello> read_hello(wire::AgentHello::Reader in) {
  AgentHello out;
  ORRERY_ASSIGN(out.host, read_name("hello.host", in.getHost()));
  out.schema_version = in.getSchemaVersion();
  if (out.schema_version == 0) return corrupt("hello.schemaVersion", "is 0");
  out.version = read_text(in.getVersion());
  ORRERY_TRY(check_count("hello.addresses", in.getAddresses().size(), kMaxSmallList));
  for (const auto data : in.getAddresses()) {
    ORRERY_ASSIGN(const IpAddress address, read_address("hello.addresses", data));
    out.addresses.push_back(address);
  }
  out.processes = in.getProcesses();
  ORRERY_ASSIGN(out.features, read_names("hello.features", in.getFeatures(), kMaxSmallList));
  ORRERY_ASSIGN(out.layers, read_numbers("hello.layers", in.getLayers(), kMaxSmallList));
  return out;
}

void write_flow(wire::FlowPlan::Builder out, const FlowPlan& in) {
  out.setFlowId(in.flow_id);
  out.setCommId(in.comm_id);
  out.setSrc(data_of(in.src));
  out.setDst(data_of(in.dst));
  out.setProtocol(in.protocol);
  out.setOrdinal(in.ordinal);
  if (in.tuple != FiveTuple{}) write_tuple(out.initTuple(), in.tuple);
  write_texts(out.initPath(in.path.size()), in.path);
  auto backups = out.initBackups(in.backups.size());
  for (size_t i = 0; i < in.backups.size(); ++i) write_texts(backups[i].initPath(in.backups[i].size()), in.backups[i]);
  auto hops = out.initHops(in.hops.size());
  for (size_t i = 0; i < in.hops.size(); ++i) {
    hops[i].setSeed(in.hops[i].seed);
    hops[i].setGroupSize(in.hops[i].group_size);
    hops[i].setMember(in.hops[i].member);
    hops[i].setHashFunction(in.hops[i].hash_function);
  }
  out.setSrcPortFirst(in.src_port_first);
  out.setSrcPortLast(in.src_port_last);
  out.setSrcPortMask(in.src_port_mask);
  out.setSrcPortValue(in.src_port_value);
  out.setReleaseOffsetNs(in.release_offset_ns);
  out.setPaceBps(in.pace_bps);
  out.setDscp(in.dscp);
}

void write_plan(wire::HostPlan::Builder out, const HostPlan& in) {
  out.setHost(in.host);
  out.setTerm(in.term);
  out.setRevision(in.revision);
  out.setLeaseNs(in.lease_ns);
  auto flows = out.initFlows(in.flows.size());
  for (size_t i = 0; i < in.flows.size(); ++i) write_flow(flows[i], in.flows[i]);
}

void write_hello(wire::AgentHello::Builder out, const AgentHello& in) {
  out.setHost(in.host);
  out.setSchemaVersion(in.schema_version);
  out.setVersion(in.version);
  auto addresses = out.initAddresses(in.addresses.size());
  for (size_t i = 0; i < in.addresses.size(); ++i) addresses.set(i, data_of(in.addresses[i]));
  out.setProcesses(in.processes);
  write_texts(out.initFeatures(in.features.size()), in.features);
  write_numbers(out.initLayers(in.layers.size()), in.layers);
}

Result<AgentMessage> read_agent_message(wire::AgentMessage::Reader in) {
  switch (in.which()) {
    case wire::AgentMessage::HELLO: {
      ORRERY_ASSIGN(AgentHello hello, read_hello(in.getHello()));
      return AgentMessage(std::move(hello));
    }
    case wire::AgentMessage::ACK: {
      ORRERY_ASSIGN(Ack ack, read_ack(in.getAck()));
      return AgentMessage(std::move(ack));
    }
  }
  return corrupt("AgentMessage", "is of a kind this version does not know");
}

Result<ControllerMessage> read_controller_message(wire::ControllerMessage::Reader in) {
  switch (in.which()) {
    case wire::ControllerMessage::PLAN: {
      ORRERY_ASSIGN(HostPlan plan, read_plan(in.getPlan()));
      return ControllerMessage(std::move(plan));
    }
    case wire::ControllerMessage::LEASE: {
      ORRERY_ASSIGN(const Lease lease, read_lease(in.getLease()));
      ORRERY_TRY(check_lease(lease.lease_ns));
      return ControllerMessage(lease);
    }
    case wire::ControllerMessage::WITHDRAW: {
      ORRERY_ASSIGN(const Lease lease, read_lease(in.getWithdraw()));
      return ControllerMessage(Withdraw{lease});
    }
    case wire::ControllerMessage::REFUSED:
      return ControllerMessage(Refused{read_text(in.getRefused())});
  }
  return corrupt("ControllerMessage", "is of a kind this version does not know");
}

}  // namespace

Status check_revision(uint64_t term, uint64_t revision) {
  if (term == 0) return corrupt("term", "is 0");
  if (revision == 0) return corrupt("revision", "is 0");
  return {};
}

Status check_lease(uint64_t lease_ns) {
  if (lease_ns == 0 || lease_ns > kMaxLeaseNs)
    return corrupt("leaseNs", fmt::format("{} is not between 1 ns and 60 s", lease_ns));
  return {};
}

Result<Ack> read_ack(wire::Ack::Reader in) {
  Ack out;
  ORRERY_ASSIGN(out.name, read_name("ack.host", in.getHost()));
  out.term = in.getTerm();
  out.revision = in.getRevision();
  out.accepted = in.getAccepted();
  out.reason = read_text(in.getReason());
  out.entries = in.getEntries();
  return out;
}

void write_ack(wire::Ack::Builder out, const Ack& in) {
  out.setHost(in.name);
  out.setTerm(in.term);
  out.setRevision(in.revision);
  out.setAccepted(in.accepted);
  out.setReason(in.reason);
  out.setEntries(in.entries);
}

Result<Lease> read_lease(wire::Lease::Reader in) {
  ORRERY_TRY(check_revision(in.getTerm(), in.getRevision()));
  return Lease{in.getTerm(), in.getRevision(), in.getLeaseNs()};
}

void write_lease(wire::Lease::Builder out, const Lease& in) {
  out.setTerm(in.term);
  out.setRevision(in.revision);
  out.setLeaseNs(in.lease_ns);
}

Result<std::string> encode(const AgentMessage& message) {
  return encode<wire::AgentMessage>([&](wire::AgentMessage::Builder out) {
    if (const auto* hello = std::get_if<AgentHello>(&message))
      write_hello(out.initHello(), *hello);
    else
      write_ack(out.initAck(), std::get<Ack>(message));
  });
}

Result<std::string> encode(const ControllerMessage& message) {
  return encode<wire::ControllerMessage>([&](wire::ControllerMessage::Builder out) {
    if (const auto* plan = std::get_if<HostPlan>(&message))
      write_plan(out.initPlan(), *plan);
    else if (const auto* lease = std::get_if<Lease>(&message))
      write_lease(out.initLease(), *lease);
    else if (const auto* withdraw = std::get_if<Withdraw>(&message))
      write_lease(out.initWithdraw(), withdraw->lease);
    else
      out.setRefused(std::get<Refused>(message).reason);
  });
}

Result<AgentMessage> decode_agent_message(std::string_view frame) {
  return decode<wire::AgentMessage>(frame, read_agent_message);
}

Result<ControllerMessage> decode_controller_message(std::string_view frame) {
  return decode<wire::ControllerMessage>(frame, read_controller_message);
}

}  // namespace orrery::msg
