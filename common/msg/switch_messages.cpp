#include "common/msg/switch_messages.h"

#include "common/abi/switch_abi.h"
#include "common/msg/codec.h"
#include "common/msg/plan_wire.h"
#include "common/msg/wire_read.h"
#include "schemas/switch.capnp.h"
#include "schemas/telemetry.capnp.h"

namespace orrery::msg {
namespace {

Result<Rule> read_rule(wire::Rule::Reader in) {
  Rule out;
  out.rule_id = in.getRuleId();
  ORRERY_ASSIGN(out.match, read_tuple("rules.match", in.getMatch()));
  ORRERY_ASSIGN(out.mask, read_tuple("rules.mask", in.getMask()));
  ORRERY_ASSIGN(out.egress_port, read_name("rules.egressPort", in.getEgressPort()));
  ORRERY_ASSIGN(out.backup_port, read_name("rules.backupPort", in.getBackupPort(), true));
  return out;
}

Result<RuleSet> read_rules(wire::RuleSet::Reader in) {
  RuleSet out;
  ORRERY_ASSIGN(out.switch_name, read_name("switch", in.getSwitch()));
  out.term = in.getTerm();
  out.revision = in.getRevision();
  out.lease_ns = in.getLeaseNs();
  ORRERY_TRY(check_revision(out.term, out.revision));
  ORRERY_TRY(check_lease(out.lease_ns));
  ORRERY_ASSIGN(out.rules, read_list<Rule>("rules", in.getRules(), kMaxItems, read_rule));
  return out;
}

Result<SwitchHello> read_hello(wire::SwitchHello::Reader in) {
  SwitchHello out;
  ORRERY_ASSIGN(out.switch_name, read_name("hello.switch", in.getSwitch()));
  out.schema_version = in.getSchemaVersion();
  if (out.schema_version == 0) return corrupt("hello.schemaVersion", "is 0");
  out.version = read_text(in.getVersion());
  out.hash_function = in.getHashFunction();
  out.hash_seed = in.getHashSeed();
  ORRERY_ASSIGN(out.ports, read_names("hello.ports", in.getPorts(), kMaxSmallList));
  out.table_size = in.getTableSize();
  out.mask_limit = in.getMaskLimit();
  ORRERY_ASSIGN(out.features, read_names("hello.features", in.getFeatures(), kMaxSmallList));
  return out;
}

Result<LinkSample> read_link(wire::LinkSample::Reader in) {
  LinkSample out;
  ORRERY_ASSIGN(out.port, read_name("links.port", in.getPort()));
  out.up = in.getUp();
  out.tx_bytes = in.getTxBytes();
  out.tx_packets = in.getTxPackets();
  out.drops = in.getDrops();
  out.rx_bytes = in.getRxBytes();
  out.rx_packets = in.getRxPackets();
  return out;
}

Result<QueueSample> read_queue(wire::QueueSample::Reader in) {
  ORRERY_ASSIGN(std::string port, read_name("queues.port", in.getPort()));
  return QueueSample{std::move(port), in.getMaxBytes(), in.getMeanBytes(), in.getSamples()};
}

Result<RuleSample> read_rule_sample(wire::RuleSample::Reader in) {
  return RuleSample{in.getRuleId(), in.getPackets(), in.getBytes(), in.getBackupPackets()};
}

Result<PathEvent> read_event(wire::PathEvent::Reader in) {
  ORRERY_ASSIGN(std::string port, read_name("events.port", in.getPort()));
  return PathEvent{static_cast<PathEvent::Kind>(in.getKind()), std::move(port), in.getAtTaiNs(),
                   read_text(in.getDetail())};
}

Result<SwitchTelemetry> read_telemetry(wire::SwitchTelemetry::Reader in) {
  SwitchTelemetry out;
  ORRERY_ASSIGN(out.switch_name, read_name("telemetry.switch", in.getSwitch()));
  out.at_tai_ns = in.getAtTaiNs();
  ORRERY_ASSIGN(out.links, read_list<LinkSample>("links", in.getLinks(), kMaxSmallList, read_link));
  ORRERY_ASSIGN(out.queues, read_list<QueueSample>("queues", in.getQueues(), kMaxSmallList, read_queue));
  ORRERY_ASSIGN(out.rules, read_list<RuleSample>("rules", in.getRules(), kMaxItems, read_rule_sample));
  ORRERY_TRY(check_count("events", in.getEvents().size(), kMaxItems));
  for (const auto event : in.getEvents()) {
    if (event.getKind() > wire::PathEvent::Kind::PRIMARY_IN_USE) continue;
    ORRERY_ASSIGN(PathEvent read, read_event(event));
    out.events.push_back(std::move(read));
  }
  out.no_route = in.getNoRoute();
  out.ttl_expired = in.getTtlExpired();
  return out;
}

void write_rules(wire::RuleSet::Builder out, const RuleSet& in) {
  out.setSwitch(in.switch_name);
  out.setTerm(in.term);
  out.setRevision(in.revision);
  out.setLeaseNs(in.lease_ns);
  auto rules = out.initRules(in.rules.size());
  for (size_t i = 0; i < in.rules.size(); ++i) {
    rules[i].setRuleId(in.rules[i].rule_id);
    write_tuple(rules[i].initMatch(), in.rules[i].match);
    write_tuple(rules[i].initMask(), in.rules[i].mask);
    rules[i].setEgressPort(in.rules[i].egress_port);
    rules[i].setBackupPort(in.rules[i].backup_port);
  }
}

void write_hello(wire::SwitchHello::Builder out, const SwitchHello& in) {
  out.setSwitch(in.switch_name);
  out.setSchemaVersion(in.schema_version);
  out.setVersion(in.version);
  out.setHashFunction(in.hash_function);
  out.setHashSeed(in.hash_seed);
  write_texts(out.initPorts(in.ports.size()), in.ports);
  out.setTableSize(in.table_size);
  out.setMaskLimit(in.mask_limit);
  write_texts(out.initFeatures(in.features.size()), in.features);
}

void write_link(wire::LinkSample::Builder out, const LinkSample& in) {
  out.setPort(in.port);
  out.setUp(in.up);
  out.setTxBytes(in.tx_bytes);
  out.setTxPackets(in.tx_packets);
  out.setDrops(in.drops);
  out.setRxBytes(in.rx_bytes);
  out.setRxPackets(in.rx_packets);
}

void write_queue(wire::QueueSample::Builder out, const QueueSample& in) {
  out.setPort(in.port);
  out.setMaxBytes(in.max_bytes);
  out.setMeanBytes(in.mean_bytes);
  out.setSamples(in.samples);
}

void write_rule_sample(wire::RuleSample::Builder out, const RuleSample& in) {
  out.setRuleId(in.rule_id);
  out.setPackets(in.packets);
  out.setBytes(in.bytes);
  out.setBackupPackets(in.backup_packets);
}

void write_event(wire::PathEvent::Builder out, const PathEvent& in) {
  out.setKind(static_cast<wire::PathEvent::Kind>(in.kind));
  out.setPort(in.port);
  out.setAtTaiNs(in.at_tai_ns);
  out.setDetail(in.detail);
}

void write_telemetry(wire::SwitchTelemetry::Builder out, const SwitchTelemetry& in) {
  out.setSwitch(in.switch_name);
  out.setAtTaiNs(in.at_tai_ns);
  auto links = out.initLinks(in.links.size());
  for (size_t i = 0; i < in.links.size(); ++i) write_link(links[i], in.links[i]);
  auto queues = out.initQueues(in.queues.size());
  for (size_t i = 0; i < in.queues.size(); ++i) write_queue(queues[i], in.queues[i]);
  auto rules = out.initRules(in.rules.size());
  for (size_t i = 0; i < in.rules.size(); ++i) write_rule_sample(rules[i], in.rules[i]);
  auto events = out.initEvents(in.events.size());
  for (size_t i = 0; i < in.events.size(); ++i) write_event(events[i], in.events[i]);
  out.setNoRoute(in.no_route);
  out.setTtlExpired(in.ttl_expired);
}

Result<SwitchMessage> read_switch_message(wire::SwitchMessage::Reader in) {
  switch (in.which()) {
    case wire::SwitchMessage::HELLO: {
      ORRERY_ASSIGN(SwitchHello hello, read_hello(in.getHello()));
      return SwitchMessage(std::move(hello));
    }
    case wire::SwitchMessage::ACK: {
      ORRERY_ASSIGN(Ack ack, read_ack(in.getAck()));
      return SwitchMessage(std::move(ack));
    }
    case wire::SwitchMessage::TELEMETRY: {
      ORRERY_ASSIGN(SwitchTelemetry telemetry, read_telemetry(in.getTelemetry()));
      return SwitchMessage(std::move(telemetry));
    }
  }
  return corrupt("SwitchMessage", "is of a kind this version does not know");
}

Result<SwitchCommand> read_switch_command(wire::SwitchCommand::Reader in) {
  switch (in.which()) {
    case wire::SwitchCommand::RULES: {
      ORRERY_ASSIGN(RuleSet rules, read_rules(in.getRules()));
      return SwitchCommand(std::move(rules));
    }
    case wire::SwitchCommand::LEASE: {
      ORRERY_ASSIGN(const Lease lease, read_lease(in.getLease()));
      ORRERY_TRY(check_lease(lease.lease_ns));
      return SwitchCommand(lease);
    }
    case wire::SwitchCommand::WITHDRAW: {
      ORRERY_ASSIGN(const Lease lease, read_lease(in.getWithdraw()));
      return SwitchCommand(Withdraw{lease});
    }
    case wire::SwitchCommand::REFUSED:
      return SwitchCommand(Refused{read_text(in.getRefused())});
  }
  return corrupt("SwitchCommand", "is of a kind this version does not know");
}

}  // namespace

Result<std::string> encode(const SwitchMessage& message) {
  return encode<wire::SwitchMessage>([&](wire::SwitchMessage::Builder out) {
    if (const auto* hello = std::get_if<SwitchHello>(&message))
      write_hello(out.initHello(), *hello);
    else if (const auto* ack = std::get_if<Ack>(&message))
      write_ack(out.initAck(), *ack);
    else
      write_telemetry(out.initTelemetry(), std::get<SwitchTelemetry>(message));
  });
}

Result<std::string> encode(const SwitchCommand& command) {
  return encode<wire::SwitchCommand>([&](wire::SwitchCommand::Builder out) {
    if (const auto* rules = std::get_if<RuleSet>(&command))
      write_rules(out.initRules(), *rules);
    else if (const auto* lease = std::get_if<Lease>(&command))
      write_lease(out.initLease(), *lease);
    else if (const auto* withdraw = std::get_if<Withdraw>(&command))
      write_lease(out.initWithdraw(), withdraw->lease);
    else
      out.setRefused(std::get<Refused>(command).reason);
  });
}

Result<SwitchMessage> decode_switch_message(std::string_view frame) {
  return decode<wire::SwitchMessage>(frame, read_switch_message);
}

Result<SwitchCommand> decode_switch_command(std::string_view frame) {
  return decode<wire::SwitchCommand>(frame, read_switch_command);
}

}  // namespace orrery::msg
