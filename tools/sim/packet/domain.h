// One part of the fabric and its event loop. Alone it is the whole simulator; with several, each runs a window of time
// no longer than the shortest way between two of them, then they exchange what crossed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/sim/model/result.h"
#include "tools/sim/packet/event_lines.h"
#include "tools/sim/packet/state.h"

namespace orrery::sim {

inline constexpr uint32_t kPauseBytes = 64;

class alignas(128) Domain {
 public:
  Domain(World& world, uint32_t index, uint32_t count);

  void start();  // steps that wait for nothing
  Time next_time() const { return events_.empty() ? kNever : events_.next_time(); }
  // Everything that falls before `end`.
  void run_until(Time end);

  // What goes to domain `to` in a window, to be taken by it in the next one: only then is the outbox of the window
  // after that, which is the same, written.
  struct Crossing {
    Event event;
    Time delay;
  };
  std::vector<Crossing>& outbox(uint32_t window, uint32_t to) { return outboxes_[window % 2][to]; }
  void take(std::vector<Crossing>& crossings, uint32_t from);
  void begin_window(uint32_t window) {
    window_ = window;
    earliest_crossing_ = kNever;
  }
  // The earliest of the domain's own events and of what it sent to others in the last window.
  Time next_told() const { return std::min(next_time(), earliest_crossing_); }

  const Totals& totals() const { return counters_; }
  size_t event_bytes() const { return events_.bytes(); }

 private:
  static constexpr uint32_t kRateTimer = 1, kRetransmitTimer = 2;  // details of kTimer

  // A packet of some size on a wire of some class.
  struct Transit {
    Time serialization = 0;
    Time delay = 0;  // to the other end
    uint32_t arrival_line = kNone, wake_line = kNone;
    bool known = false;
  };

  void run_moment(const Event& first);
  void dispatch(const Event& event);
  void arrive(uint32_t link, Packet packet);
  void enqueue(uint32_t link, const Packet& packet, uint32_t ingress_link);
  bool admit(uint32_t link, Port& port, const Packet& packet, uint32_t ingress_link);
  void mark(Packet& packet, Port& port);
  void wake(uint32_t link);
  void wake_host(uint32_t link, Port& port);
  void wake_switch(uint32_t link, Port& port);
  void unbuffer(const Packet& packet, Port& port);
  void transmit(uint32_t link, Port& port, const Packet& packet, bool more);
  void ensure_wake(uint32_t link, Port& port);
  void send_pause(uint32_t ingress_link, bool pause);
  void hear_pause(uint32_t link, uint32_t change);
  void take_pause(uint32_t link, bool pause);
  void watch_pause(uint32_t link);
  Packet pop_data(uint32_t link, Port& port);
  void drop_queued(const Packet& packet, Port& port);
  const Transit& transit(const Port& port, uint32_t bytes);
  void learn_transit(Transit& transit, const WireClass& wire, uint32_t bytes);
  void cross(uint32_t to, const Event& event, Time delay);
  void launch(uint32_t link, const Port& port, const Packet& packet, const Transit& way);

  void deliver(uint32_t host, const Packet& packet);
  void deliver_data(uint32_t host, const Packet& packet);
  void deliver_ack(uint32_t host, const Packet& packet);
  void deliver_nak(uint32_t host, const Packet& packet);
  void deliver_ahead(uint32_t host, const Packet& packet);
  void ask_for_missing(uint32_t host, const Packet& packet);
  bool came_ahead(uint32_t qp, uint32_t psn);
  void send_control(uint32_t host, const Packet& answered, PacketKind kind, uint32_t psn);
  void kick(uint32_t host);
  bool make_ready(uint32_t qp);
  bool must_resend(uint32_t qp) const;
  bool may_send(uint32_t qp) const;
  void enlist(uint32_t qp);
  void pass_by_idle(Nic& nic);
  uint32_t take_turn(Nic& nic);
  Packet next_data(uint32_t host);
  void after_send(uint32_t qp, const Packet& packet);
  void acknowledge(uint32_t qp, uint32_t psn);
  void arm_retransmit(uint32_t qp);
  void rewind(uint32_t qp, uint32_t psn);
  void resend_all(uint32_t qp);

  void complete(const Successors& successors);
  void step_ready(uint32_t step);
  void finish_step(uint32_t step);
  void release_message(uint32_t message);

  uint32_t choose_path(uint32_t qp, bool burst_begins);
  uint32_t next_live_path(uint32_t qp);
  bool is_live(uint32_t path) const;
  bool may_arrive(uint32_t qp) const;
  void learn_from_ack(uint32_t qp, const Packet& packet);
  void fault(uint32_t fault);
  void know_fault(uint32_t fault);

  void cut_rate(uint32_t qp);
  void timer(uint32_t qp, uint32_t which);
  void arm_rate_timer(uint32_t qp);
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
  const uint32_t sizes_;           // of packets, in bytes: less than that
  std::vector<Transit> transits_;  // by wire class and packet size
  uint32_t rate_timer_line_ = kNone;
  std::vector<std::vector<Crossing>> outboxes_[2];  // by window, even or odd, and domain
  uint32_t window_ = 0;
  Time earliest_crossing_ = kNever;
  Totals counters_;
};

}  // namespace orrery::sim
