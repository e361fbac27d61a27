// DCQCN's reaction point and the retransmission timer.
#include <algorithm>
#include <cmath>

#include "tools/sim/packet/domain.h"

namespace orrery::sim {

double Domain::line_bps(uint32_t qp) const {
  const Wire& wire = world_.wires.wires[world_.wires.uplink_of[world_.program.qps[qp].src]];
  return 8e12 * 65536.0 / static_cast<double>(wire.scale);
}

// A CNP has come. Alpha's decay since the last one, one step per alpha timer, is done here: nobody else looks at it.
void Domain::cut_rate(uint32_t id) {
  QpSender& qp = world_.senders[id];
  RateControl& rate = world_.rates[id];
  const Dcqcn& dcqcn = config_.dcqcn;
  const double line = line_bps(id);
  const double current = qp.rate_bps > 0 ? std::min(qp.rate_bps, line) : line;
  if (rate.last_cnp != kNever) {
    const auto steps = static_cast<double>((now_ - rate.last_cnp) / dcqcn.alpha_timer);
    rate.alpha *= std::pow(1 - dcqcn.g, steps);
  }
  rate.last_cnp = now_;
  rate.target_bps = current;
  qp.rate_bps = std::max(dcqcn.minimum_bps, current * (1 - rate.alpha / 2));
  rate.alpha = (1 - dcqcn.g) * rate.alpha + dcqcn.g;
  rate.bytes_since = 0;
  rate.timer_stage = rate.byte_stage = 0;
  rate.rate_due = now_ + dcqcn.rate_timer;
  arm_rate_timer(id);
}

// Precondition: due one interval from now.
void Domain::arm_rate_timer(uint32_t id) {
  events_.push(rate_timer_line_, world_.rates[id].rate_due, Event::make_key(EventKind::kTimer, id, kRateTimer), {});
}

void Domain::raise_rate(uint32_t id) {
  QpSender& qp = world_.senders[id];
  RateControl& rate = world_.rates[id];
  const Dcqcn& dcqcn = config_.dcqcn;
  const double line = line_bps(id);
  const uint32_t most = std::max(rate.timer_stage, rate.byte_stage);
  const uint32_t least = std::min(rate.timer_stage, rate.byte_stage);
  if (least > dcqcn.fast_recovery)
    rate.target_bps += dcqcn.hyper_bps * (least - dcqcn.fast_recovery);
  else if (most > dcqcn.fast_recovery)
    rate.target_bps += dcqcn.additive_bps;
  rate.target_bps = std::min(rate.target_bps, line);
  qp.rate_bps = (rate.target_bps + qp.rate_bps) / 2;
  if (qp.rate_bps < 0.9999 * line) return;
  qp.rate_bps = static_cast<double>(world_.program.qps[id].pace_bps);  // recovered: at the NIC's, or the plan's, rate
  rate.rate_due = kNever;
}

void Domain::count_bytes(uint32_t id, uint32_t bytes) {
  RateControl& rate = world_.rates[id];
  if (rate.rate_due == kNever) return;
  rate.bytes_since += bytes;
  if (rate.bytes_since < config_.dcqcn.byte_counter) return;
  rate.bytes_since = 0;
  ++rate.byte_stage;
  raise_rate(id);
}

// Events of timers that have been set again since are void.
void Domain::timer(uint32_t id, uint32_t which) {
  if (which == kRateTimer) {
    RateControl& rate = world_.rates[id];
    if (rate.rate_due != now_) return;
    rate.rate_due = now_ + config_.dcqcn.rate_timer;
    ++rate.timer_stage;
    raise_rate(id);
    if (rate.rate_due != kNever) arm_rate_timer(id);
    return;
  }
  QpSender& qp = world_.senders[id];
  qp.timer_pending = false;
  if (qp.retransmit_at > now_) return arm_retransmit(id);
  qp.retransmit_at = kNever;
  if (qp.acked_psn == qp.next_psn || !may_arrive(id)) return;
  if (world_.reordered.empty())
    rewind(id, qp.acked_psn);
  else
    resend_all(id);
  if (make_ready(id)) kick(qp.host);
}

}  // namespace orrery::sim
