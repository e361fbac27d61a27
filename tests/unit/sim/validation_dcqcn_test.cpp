// DCQCN against the fluid model of its authors' follow-up (Zhu, Ghobadi, Misra and Padhye, "ECN or Delay: Lessons
// Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016): parameters, fixed point and stability as there.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/sim/fixtures.h"
#include "tests/unit/sim/statistics.h"

namespace orrery::sim {
namespace {

constexpr double kRate = 40e9;  // bit/s
constexpr uint32_t kPayload = 1'000, kHeader = 64;
constexpr double kKmin = 5e3, kKmax = 200e3, kPmax = 0.01;
constexpr Time kSettled = 60 * kPerMs, kEnd = 120 * kPerMs;
constexpr uint64_t kChunk = 100'000;
constexpr Time kProbeEvery = 13 * kPerUs;
constexpr double kProbeRate = 8e12 * (kPayload + kHeader) / kProbeEvery;

PacketConfig published(Time propagation) {
  PacketConfig config;
  config.transport.payload_bytes = kPayload;
  config.transport.ack_every = 16;
  config.ecn = {.kmin_bytes = 5'000, .kmax_bytes = 200'000, .pmax = kPmax};
  config.pfc.enabled = false;  // the model has no pauses, and its queue no end
  config.propagation = propagation;
  return config;  // Dcqcn's own defaults are the published ones
}

// Marking probability p at which decrease and increase of rates balance (bisection of the model's equation); rates in
// packets a second, the byte counter in packets.
double marking_at_rest(double senders, double packet_bytes, const Dcqcn& dcqcn) {
  const double packet_bits = 8 * packet_bytes, rate = kRate / packet_bits / senders;
  const double seconds = 1e-12, tau = static_cast<double>(dcqcn.cnp_interval) * seconds,
               alpha_timer = static_cast<double>(dcqcn.alpha_timer) * seconds,
               timer = static_cast<double>(dcqcn.rate_timer) * seconds;
  const double counter = static_cast<double>(dcqcn.byte_counter) / packet_bytes, steps = dcqcn.fast_recovery;
  const auto excess = [&](double p) {
    const double a = 1 - std::pow(1 - p, tau * rate), alpha = 1 - std::pow(1 - p, alpha_timer * rate);
    const double b = p / (std::pow(1 - p, -counter) - 1), c = std::pow(1 - p, steps * counter) * b;
    const double d = p / (std::pow(1 - p, -timer * rate) - 1), e = std::pow(1 - p, steps * timer * rate) * d;
    return a * a * alpha / ((b + d) * (c + e)) - tau * tau * dcqcn.additive_bps / packet_bits * rate;
  };
  double low = 1e-9, high = 0.5;
  for (int i = 0; i < 200; ++i) {
    const double middle = std::sqrt(low * high);
    (excess(middle) < 0 ? low : high) = middle;
  }
  return low;
}

double queue_at_rest(double senders) {
  return kKmin + std::min(1.0, marking_at_rest(senders, kPayload + kHeader, {}) / kPmax) * (kKmax - kKmin);
}

struct Steady {
  std::vector<double> rates;  // bit/s of each sender on the wire, from kSettled on
  double mean_queue = 0;      // bytes
  double queue_swing = 0;     // standard deviation over mean
};

// `senders` send to one host as fast as DCQCN lets them. Single packets of others, each of a queue pair of its own, so
// that no rate limits it, show how long the queue is.
Steady run_steady(uint32_t senders, Time propagation) {
  const auto graph = leaf_spine(1, 1, senders + 2, static_cast<uint64_t>(kRate));
  const auto path = [&](uint32_t src) { return graph.paths(graph.nics()[src], graph.nics()[0]).front(); };
  ProgramBuilder builder(graph);
  std::vector<uint32_t> sender_of;
  const double all_bits = kRate * static_cast<double>(kEnd) / 1e12;
  for (uint32_t sender = 1; sender <= senders; ++sender) {
    const uint32_t qp = builder.add_qp(sender, 0, {path(sender)});
    // Enough that nobody is done before the end, however unfair.
    for (uint64_t i = 0; i < static_cast<uint64_t>(2 * all_bits / 8 / senders / kChunk) + 1; ++i) {
      builder.add_send_step(builder.add_message(qp, kChunk), 1);
      sender_of.push_back(sender - 1);
    }
  }
  const size_t chunks = sender_of.size();
  for (Time at = kSettled; at < kEnd; at += kProbeEvery)
    builder.add_send_step(builder.add_message(builder.add_qp(senders + 1, 0, {path(senders + 1)}), kPayload), at);
  const PacketConfig config = published(propagation);
  const RunResult result = run_packets(graph, builder.build().value(), config);
  Steady steady;
  steady.rates.resize(senders);
  const double share = 8e12 * (1.0 * (kPayload + kHeader) / kPayload) / static_cast<double>(kEnd - kSettled);
  for (size_t i = 0; i < chunks; ++i)
    if (result.delivered_at[i] >= kSettled && result.delivered_at[i] < kEnd)
      steady.rates[sender_of[i]] += kChunk * share;
  std::vector<double> queue;
  const Time alone = 2 * (propagation + static_cast<Time>((kPayload + kHeader) * 8e12 / kRate));
  for (size_t i = chunks; i < result.delivered_at.size(); ++i)
    queue.push_back(static_cast<double>(result.delivered_at[i] - result.released_at[i] - alone) * kRate / 8e12);
  steady.mean_queue = mean_of(queue);
  steady.queue_swing = deviation_of(queue) / steady.mean_queue;
  return steady;
}

}  // namespace

TEST_CASE("the fixed point of DCQCN is that of known values") {
  CHECK(marking_at_rest(2, 1'000, {}) == Approx(7.770e-4).epsilon(0.001));
  CHECK(marking_at_rest(4, 1'000, {}) == Approx(1.888e-3).epsilon(0.001));
  CHECK(marking_at_rest(10, 1'000, {}) == Approx(6.032e-3).epsilon(0.001));
}

TEST_CASE("DCQCN settles where its fluid model does: the link full, fair shares, a queue that grows with the senders") {
  double shorter = 0;
  for (const uint32_t senders : {2u, 4u, 8u, 10u}) {
    const Steady steady = run_steady(senders, kPerUs);
    INFO(senders << " senders, queue " << steady.mean_queue << ", fixed point " << queue_at_rest(senders));
    const double sum = std::accumulate(steady.rates.begin(), steady.rates.end(), kProbeRate);
    CHECK(sum == Approx(kRate).epsilon(0.01));
    const auto [least, most] = std::minmax_element(steady.rates.begin(), steady.rates.end());
    CHECK(*least > 0.85 * sum / senders);
    CHECK(*most < 1.15 * sum / senders);
    CHECK(steady.mean_queue > queue_at_rest(senders) / 2);
    CHECK(steady.mean_queue < queue_at_rest(senders) * 2);
    CHECK(steady.mean_queue > shorter);
    shorter = steady.mean_queue;
  }
}

// Phase margins of the model: 10 senders, +5 degrees without delay, about -15 at 100 us; 2 senders 27 and -10.
TEST_CASE("a loop delay of 100 us makes the queue of ten senders swing, and hardly changes that of two") {
  const Time near = 1 * kPerUs, far = 25 * kPerUs;  // four links there and back
  const Steady calm = run_steady(10, near), swinging = run_steady(10, far);
  CHECK(calm.queue_swing < 0.5);
  CHECK(swinging.queue_swing > 3 * calm.queue_swing);
  CHECK(run_steady(2, far).queue_swing < 1.5 * run_steady(2, near).queue_swing);
}

}  // namespace orrery::sim
