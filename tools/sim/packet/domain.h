// One part of the fabric and its event loop. Alone it is the whole simulator; with several, each runs a window of time
// no longer than the shortest way between two of them, then they exchange what crossed.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/model/result.h"
#include "tools/sim/packet/event_lines.h"
#include "tools/sim/packet/state.h"

namespace orrery::sim {

class Domain {
 public:
  Domain(World& world, uint32_t index, uint32_t count);

  void start();  // steps that wait for nothing
  Time next_time() const { return events_.empty() ? kNever : events_.next_time(); }
  // Everything that falls before `end`.
  void run_until(Time end);

  // What went to domain `to` in the last window, to be taken by it.
  struct Crossing {
    Event event;
    Time delay;
  };
  std::vector<Crossing>& outbox(uint32_t to) { return outboxes_[to]; }
  void take(std::vector<Crossing>& crossings, uint32_t from);

  const Totals& totals() const { return counters_; }
  size_t event_bytes() const { return events_.bytes(); }

 private:
  struct Lines {
    uint8_t arrival = 0, wake = 0;  // 0: not looked up yet; else line + 1
  };

  void dispatch(const Event& event);
  void arrive(uint32_t link, Packet packet);
  void enqueue(uint32_t link, const Packet& packet, uint32_t ingress_link);
  bool admit(uint32_t link, const Packet& packet, uint32_t ingress_link);
  void mark(Packet& packet, Port& port);
  void wake(uint32_t link);
  void wake_host(uint32_t link, Port& port, const Wire& wire);
  void wake_switch(uint32_t link, Port& port, const Wire& wire);
  void unbuffer(const Packet& packet, Port& port, const Wire& wire);
  void transmit(uint32_t link, Port& port, const Wire& wire, const Packet& packet, bool more);
  void ensure_wake(uint32_t link, Port& port);
  void send_pause(uint32_t ingress_link, bool pause);
  void take_pause(uint32_t link, bool pause);
  void watch_pause(uint32_t link);
  void drop_queued(Port& port, const Wire& wire, PacketRing& ring);
  Lines& lines_for(const Wire& wire, uint8_t wire_class, uint32_t bytes);
  void push_line(uint8_t line, Time delay, uint64_t key, const Packet& packet);

  void deliver(uint32_t host, const Packet& packet);
  void deliver_data(uint32_t host, const Packet& packet);
  void deliver_ack(const Packet& packet);
  void deliver_nak(const Packet& packet);
  void deliver_ahead(const Packet& packet);
  bool came_ahead(uint32_t qp, uint32_t psn);
  void send_control(const Packet& answered, PacketKind kind, uint32_t psn);
  void kick(uint32_t host);
  bool make_ready(uint32_t qp);
  bool must_resend(uint32_t qp) const;
  bool may_send(uint32_t qp) const;
  void enlist(uint32_t qp);
  Packet next_data(uint32_t host);
  void after_send(uint32_t qp, const Packet& packet);
  void acknowledge(uint32_t qp, uint32_t psn);
  void arm_retransmit(uint32_t qp);
  void rewind(uint32_t qp, uint32_t psn);

  void complete(const Successors& successors);
  void step_ready(uint32_t step);
  void finish_step(uint32_t step);
  void release_message(uint32_t message);

  uint32_t choose_path(uint32_t qp, bool burst_begins);
  uint32_t next_live_path(uint32_t qp);
  bool is_live(uint32_t path) const;
  void learn_from_ack(uint32_t qp, const Packet& packet);
  void fault(uint32_t fault);
  void know_fault(uint32_t fault);

  void cut_rate(uint32_t qp);
  void timer(uint32_t qp, uint32_t which);
  void raise_rate(uint32_t qp);
  void count_bytes(uint32_t qp, uint32_t bytes);
  double line_bps(uint32_t qp) const;

  World& world_;
  const PacketConfig& config_;
  const uint32_t index_;
  std::vector<uint8_t> dead_links_;  // as this domain's senders know by now; empty: none
  Time now_ = 0;
  EventLines events_;
  std::vector<Event> batch_;
  std::vector<Lines> lines_;  // by wire class and packet size
  std::vector<std::vector<Crossing>> outboxes_;
  Totals counters_;
};

}  // namespace orrery::sim
