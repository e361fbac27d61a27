// Hosts: network interfaces, reliable queue pairs, messages and steps.
#include <algorithm>

#include "tools/sim/packet/domain.h"

namespace orrery::sim {

void Domain::deliver(uint32_t host, const Packet& packet) {
  ++counters_.hops;
  counters_.data_hops += packet.kind() == PacketKind::kData;
  switch (packet.kind()) {
    case PacketKind::kData:
      return deliver_data(host, packet);
    case PacketKind::kAck:
      return deliver_ack(host, packet);
    case PacketKind::kNak:
      return deliver_nak(host, packet);
    case PacketKind::kCnp:
      return cut_rate(packet.qp);
  }
}

void Domain::deliver_data(uint32_t host, const Packet& packet) {
  QpReceiver& qp = world_.receivers[packet.qp];
  if (packet.marked() && config_.dcqcn.enabled && now_ >= qp.next_cnp) {
    qp.next_cnp = now_ + config_.dcqcn.cnp_interval;
    ++counters_.cnps;
    send_control(host, packet, PacketKind::kCnp, 0);
  }
  if (packet.psn != qp.expected_psn) {
    deliver_ahead(host, packet);
    return kick(host);
  }
  counters_.delivered_bytes += packet.bytes - config_.transport.header_bytes;
  bool last = false;
  do {
    ++qp.expected_psn;
    ++qp.unacknowledged;
    MessageState& message = world_.messages[qp.receiving];
    if (qp.expected_psn != message.first_psn + message.packets) continue;
    last = true;
    ++qp.receiving;
    message.delivered_at = now_;
    ++counters_.delivered_messages;
    complete(world_.program.messages[message.message].on_delivered);
  } while (came_ahead(packet.qp, qp.expected_psn));
  if (world_.reordered.empty())
    qp.asked = 0;
  else
    qp.ask_again = qp.asked > qp.expected_psn ? now_ + config_.transport.ask_again : kNever;
  if (qp.unacknowledged >= config_.transport.ack_every || last) {
    qp.unacknowledged = 0;
    send_control(host, packet, PacketKind::kAck, qp.expected_psn);
  }
  kick(host);
}

// Whether the packet has come before its turn; forgets it.
bool Domain::came_ahead(uint32_t qp, uint32_t psn) {
  if (world_.reordered.empty() || !world_.reordered[qp].test(psn)) return false;
  world_.reordered[qp].clear(psn);
  return true;
}

// Not the expected packet: a duplicate, or after a gap.
void Domain::deliver_ahead(uint32_t host, const Packet& packet) {
  QpReceiver& qp = world_.receivers[packet.qp];
  if (packet.psn < qp.expected_psn) return send_control(host, packet, PacketKind::kAck, qp.expected_psn);
  if (world_.reordered.empty()) {
    if (qp.asked != kNone) send_control(host, packet, PacketKind::kNak, qp.expected_psn);
    qp.asked = kNone;  // the sender goes back: all that follows comes again
    return;
  }
  ReorderWindow& window = world_.reordered[packet.qp];
  if (packet.psn - qp.expected_psn >= ReorderWindow::kPackets) return;
  if (!window.test(packet.psn)) {
    window.set(packet.psn);
    counters_.delivered_bytes += packet.bytes - config_.transport.header_bytes;
  }
  send_control(host, packet, PacketKind::kAck, qp.expected_psn);
  ask_for_missing(host, packet);
}

// Selective repeat: what should have come before this packet, or was asked for long ago.
void Domain::ask_for_missing(uint32_t host, const Packet& packet) {
  QpReceiver& qp = world_.receivers[packet.qp];
  const Transport& transport = config_.transport;
  if (now_ >= qp.ask_again) {
    send_control(host, packet, PacketKind::kNak, qp.expected_psn);
    qp.ask_again = now_ + transport.ask_again;
  }
  for (uint32_t psn = std::max(qp.asked, qp.expected_psn); psn + transport.reorder_packets < packet.psn; ++psn) {
    if (psn == qp.expected_psn) qp.ask_again = now_ + transport.ask_again;
    if (!world_.reordered[packet.qp].test(psn)) send_control(host, packet, PacketKind::kNak, psn);
    qp.asked = psn + 1;
  }
}

void Domain::deliver_ack(uint32_t host, const Packet& packet) {
  if (packet.telemetry() != 0 || world_.senders[packet.qp].has_choice) learn_from_ack(packet.qp, packet);
  acknowledge(packet.qp, packet.psn);
  if (make_ready(packet.qp)) kick(host);
}

void Domain::deliver_nak(uint32_t host, const Packet& packet) {
  if (world_.reordered.empty()) {
    acknowledge(packet.qp, packet.psn);
    rewind(packet.qp, packet.psn);
  } else {
    if (packet.psn >= world_.senders[packet.qp].acked_psn) world_.reordered[packet.qp].resend.push_back(packet.psn);
  }
  if (make_ready(packet.qp)) kick(host);
}

void Domain::acknowledge(uint32_t id, uint32_t psn) {
  QpSender& qp = world_.senders[id];
  if (psn <= qp.acked_psn) return;
  qp.acked_psn = psn;
  if (must_resend(id)) std::erase_if(world_.reordered[id].resend, [psn](uint32_t missing) { return missing < psn; });
  if (qp.next_psn < psn) qp.next_psn = psn;  // it had rewound too far
  qp.retransmit_at = psn == qp.next_psn ? kNever : now_ + config_.transport.retransmit_timeout;
  while (qp.acked < qp.end_messages) {
    const MessageState& message = world_.messages[qp.acked];
    if (psn < message.first_psn + message.packets) break;
    ++qp.acked;
    complete(world_.program.messages[message.message].on_acknowledged);
  }
  qp.sending = std::max(qp.sending, qp.acked);
}

void Domain::rewind(uint32_t id, uint32_t psn) {
  QpSender& qp = world_.senders[id];
  if (psn >= qp.next_psn) return;
  counters_.retransmitted += qp.next_psn - psn;
  qp.retransmitted += qp.next_psn - psn;
  qp.next_psn = psn;
  qp.sending = qp.acked;
}

// Selective repeat: all that is not acknowledged, as nobody says any more what has come; the first of it first.
void Domain::resend_all(uint32_t id) {
  const QpSender& qp = world_.senders[id];
  std::vector<uint32_t>& resend = world_.reordered[id].resend;
  resend.clear();
  for (uint32_t psn = qp.next_psn; psn > qp.acked_psn; --psn) resend.push_back(psn - 1);
}

// Goes back the way of the packet that it answers; before data, so that it needs no turn.
void Domain::send_control(uint32_t host, const Packet& answered, PacketKind kind, uint32_t psn) {
  Packet packet;
  packet.qp = answered.qp;
  packet.psn = psn;
  packet.path = world_.program.reverse_of[answered.path];
  packet.bytes = static_cast<uint16_t>(config_.transport.control_bytes);
  packet.tag = static_cast<uint8_t>(static_cast<uint8_t>(kind) | Packet::kControl | (answered.tag & Packet::kMarked));
  packet.set_telemetry(answered.telemetry());
  world_.ports[world_.wires.uplink_of[host]].control.push(packet);
}

bool Domain::must_resend(uint32_t id) const {
  return !world_.reordered.empty() && !world_.reordered[id].resend.empty();
}

bool Domain::may_send(uint32_t id) const {
  const QpSender& qp = world_.senders[id];
  if (must_resend(id)) return true;
  if (qp.next_psn >= qp.posted_psn) return false;
  const uint64_t window = config_.transport.window_bytes;
  return window == 0 || uint64_t{qp.next_psn - qp.acked_psn} * config_.transport.payload_bytes < window;
}

// True when the queue pair has been put in its NIC's turn; when it must wait for its pace, an event will do it.
bool Domain::make_ready(uint32_t id) {
  QpSender& qp = world_.senders[id];
  if (qp.in_ready || !may_send(id)) return false;
  qp.in_ready = true;
  if (qp.next_send > now_) {
    events_.push_soon(qp.next_send, Event::make_key(EventKind::kSend, id));
    return false;
  }
  enlist(id);
  return true;
}

void Domain::enlist(uint32_t id) {
  Nic& nic = world_.nics[world_.senders[id].host];
  world_.senders[id].next_ready = kNone;
  if (nic.last_ready == kNone)
    nic.first_ready = id;
  else
    world_.senders[nic.last_ready].next_ready = id;
  nic.last_ready = id;
}

// The first in turn that still has something to send: an acknowledgement may have come for all that one was to send
// again.
void Domain::pass_by_idle(Nic& nic) {
  while (nic.first_ready != kNone && !may_send(nic.first_ready)) take_turn(nic);
}

uint32_t Domain::take_turn(Nic& nic) {
  const uint32_t id = nic.first_ready;
  QpSender& qp = world_.senders[id];
  nic.first_ready = qp.next_ready;
  if (nic.first_ready == kNone) nic.last_ready = kNone;
  qp.in_ready = false;
  return id;
}

void Domain::kick(uint32_t host) {
  const uint32_t link = world_.wires.uplink_of[host];
  Port& port = world_.ports[link];
  if (port.wake_pending) return;
  if (now_ < port.busy_until) {
    if (!port.control.empty() || world_.nics[host].first_ready != kNone) ensure_wake(link, port);
    return;
  }
  wake_host(link, port);
}

void Domain::wake_host(uint32_t link, Port& port) {
  Nic& nic = world_.nics[port.owner];
  pass_by_idle(nic);
  const bool data_waits = nic.first_ready != kNone && !port.data_paused;
  if (!port.control.empty()) {
    const Packet packet = port.control.pop();
    return transmit(link, port, packet, !port.control.empty() || data_waits);
  }
  if (!data_waits) return;
  const Packet packet = next_data(port.owner);
  transmit(link, port, packet, nic.first_ready != kNone);
}

Packet Domain::next_data(uint32_t host) {
  const uint32_t id = take_turn(world_.nics[host]);
  QpSender& qp = world_.senders[id];
  const bool again = must_resend(id);
  uint32_t psn, at;
  if (again) {
    ++counters_.retransmitted;
    ++qp.retransmitted;
    psn = world_.reordered[id].resend.back();
    world_.reordered[id].resend.pop_back();
    at = qp.acked;
  } else {
    psn = qp.next_psn++;
    at = qp.sending;
  }
  while (psn >= world_.messages[at].first_psn + world_.messages[at].packets) ++at;
  if (!again) qp.sending = at;
  const MessageState& message = world_.messages[at];
  const bool last = psn + 1 == message.first_psn + message.packets;
  Packet packet;
  packet.qp = id;
  packet.psn = psn;
  packet.path = choose_path(id, psn == message.first_psn);
  packet.bytes = static_cast<uint16_t>((last ? message.last_payload_bytes : config_.transport.payload_bytes) +
                                       config_.transport.header_bytes);
  packet.tag = static_cast<uint8_t>(PacketKind::kData);
  if (config_.telemetry.sample_every != 0 && psn % config_.telemetry.sample_every == 0) packet.set_telemetry(1);
  after_send(id, packet);
  return packet;
}

void Domain::after_send(uint32_t id, const Packet& packet) {
  QpSender& qp = world_.senders[id];
  qp.last_sent = now_;
  if (qp.retransmit_at == kNever) {
    qp.retransmit_at = now_ + config_.transport.retransmit_timeout;
    arm_retransmit(id);
  }
  if (qp.rate_bps > 0) {
    qp.next_send = std::max(qp.next_send, now_) + static_cast<Time>(packet.bytes * 8e12 / qp.rate_bps);
    if (config_.dcqcn.enabled) count_bytes(id, packet.bytes);
  }
  make_ready(id);
}

void Domain::arm_retransmit(uint32_t id) {
  QpSender& qp = world_.senders[id];
  if (qp.timer_pending || qp.retransmit_at == kNever) return;
  qp.timer_pending = true;
  events_.push_late(qp.retransmit_at, Event::make_key(EventKind::kTimer, id, kRetransmitTimer));
}

void Domain::complete(const Successors& successors) {
  for (uint32_t i = 0; i < successors.count; ++i) {
    const uint32_t step = world_.program.successors[successors.first + i];
    if (--world_.steps[step].pending == 0) step_ready(step);
  }
}

void Domain::step_ready(uint32_t step) {
  const Time delay = delay_of(world_.program, world_.program.steps[step], now_);
  if (delay == 0) return finish_step(step);
  events_.push_late(now_ + delay, Event::make_key(EventKind::kStep, step));
}

void Domain::finish_step(uint32_t step) {
  world_.steps[step].done_at = now_;
  const Step& part = world_.program.steps[step];
  if (part.message != kNone) release_message(part.message);
  complete(part.successors);
}

void Domain::release_message(uint32_t message) {
  MessageState& state = world_.messages[world_.message_position[message]];
  state.released = true;
  state.released_at = now_;
  const uint32_t id = world_.program.messages[message].qp;
  const QueuePair& pair = world_.program.qps[id];
  QpSender& qp = world_.senders[id];
  while (qp.posted_messages < pair.message_count) {
    const MessageState& next = world_.messages[pair.first_message + qp.posted_messages];
    if (!next.released) break;
    qp.posted_psn = next.first_psn + next.packets;
    ++qp.posted_messages;
  }
  if (make_ready(id)) kick(pair.src);
}

}  // namespace orrery::sim
