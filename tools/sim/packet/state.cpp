#include "tools/sim/packet/state.h"

#include <algorithm>
#include <map>
#include <new>
#include <tuple>
#include <utility>

namespace orrery::sim {

void PacketRing::grow() {
  const uint32_t old = slots_ != nullptr ? mask_ + 1 : 0, wanted = old != 0 ? 2 * old : 8;
  auto* larger = static_cast<Packet*>(std::malloc(size_t{wanted} * sizeof(Packet)));
  if (larger == nullptr) throw std::bad_alloc();
  for (uint32_t i = head_; i != tail_; ++i) larger[i & (wanted - 1)] = slots_[i & mask_];
  std::free(slots_);
  slots_ = larger;
  mask_ = wanted - 1;
}

namespace {

// Wires that delay every packet alike share a class.
std::vector<WireClass> classify(const Wires& wires, Port* ports) {
  std::vector<WireClass> result;
  std::map<std::pair<uint64_t, bool>, uint16_t> classes;
  for (size_t link = 0; link < wires.wires.size(); ++link) {
    const Wire& wire = wires.wires[link];
    const WireClass wanted{wire.scale, wire.to_host != kNone};
    const auto [at, is_new] = classes.try_emplace({wanted.scale, wanted.to_host}, static_cast<uint16_t>(result.size()));
    if (is_new) result.push_back(wanted);
    ports[link].wire_class = at->second;
  }
  return result;
}

void number_packets(const Program& program, uint32_t payload, std::vector<MessageState>& states,
                    std::vector<uint32_t>& position) {
  for (const QueuePair& qp : program.qps) {
    uint32_t psn = 0;
    for (uint32_t at = qp.first_message; at < qp.first_message + qp.message_count; ++at) {
      MessageState& state = states[at];
      state.message = program.qp_messages[at];
      position[state.message] = at;
      const uint64_t bytes = program.messages[state.message].bytes;
      const uint64_t packets = bytes == 0 ? 1 : (bytes + payload - 1) / payload;
      state.first_psn = psn;
      state.packets = static_cast<uint32_t>(packets);
      state.last_payload_bytes = static_cast<uint32_t>(bytes - (packets - 1) * payload);
      psn += state.packets;
    }
  }
}

}  // namespace

World::World(const Program& the_program, Wires the_wires, const PacketConfig& the_config, std::vector<uint32_t> domains)
    : config(the_config),
      program(the_program),
      wires(std::move(the_wires)),
      domain_of_node(std::move(domains)),
      ports(std::make_unique<Port[]>(wires.wires.size())),
      fair(config.switches.fair_queueing ? wires.wires.size() : 0),
      buffers(wires.node_count),
      nics(wires.uplink_of.size()),
      senders(program.qps.size()),
      receivers(program.qps.size()),
      rates(config.dcqcn.enabled ? program.qps.size() : 0),
      reordered(config.transport.recovery == Recovery::kSelectiveRepeat ? program.qps.size() : 0),
      messages(program.messages.size()),
      message_position(program.messages.size()),
      steps(program.steps.size()) {
  wire_classes = classify(wires, ports.get());
  number_packets(program, config.transport.payload_bytes, messages, message_position);
  for (size_t link = 0; link < wires.wires.size(); ++link) {
    const Wire& wire = wires.wires[link];
    Port& port = ports[link];
    port.random = static_cast<uint32_t>((link + 1) * 0x9e3779b9u + config.seed * 0x85ebca6bu) | 1u;
    port.at_host = wire.from_host != kNone;
    port.owner = port.at_host ? wire.from_host : wire.from_node;
    port.far_domain = static_cast<uint8_t>(domain_of_node[wire.to_node]);
  }
  for (size_t qp = 0; qp < program.qps.size(); ++qp) {
    const QueuePair& pair = program.qps[qp];
    QpSender& sender = senders[qp];
    sender.path = program.qp_paths[pair.first_path];
    sender.rate_bps = static_cast<double>(pair.pace_bps);
    sender.sending = sender.acked = pair.first_message;
    sender.end_messages = pair.first_message + pair.message_count;
    sender.random = static_cast<uint32_t>((qp + 1) * 0xc2b2ae35u + config.seed * 0x27d4eb2fu) | 1u;
    sender.has_choice = pair.path_count > 1;
    sender.host = pair.src;
    receivers[qp].receiving = pair.first_message;
  }
  const auto recycles = [](const QueuePair& qp) { return qp.policy == PathPolicy::kRecycle; };
  if (std::any_of(program.qps.begin(), program.qps.end(), recycles)) recycled.resize(program.qps.size());
  for (size_t step = 0; step < program.steps.size(); ++step) steps[step].pending = program.steps[step].pending;
}

}  // namespace orrery::sim
