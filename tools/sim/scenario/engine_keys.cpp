#include "tools/sim/scenario/engine_keys.h"

#include <algorithm>
#include <array>

namespace orrery::sim {
namespace {

constexpr uint64_t kMaxBuffer = uint64_t{1} << 40;
constexpr uint32_t kMaxPacket = 65'535;  // header included

constexpr std::array<std::string_view, 2> kEngines{"packet", "fluid"};
constexpr std::array<std::string_view, 3> kSharings{"max_min", "windows", "dcqcn"};  // in the order of Sharing
constexpr std::array<std::string_view, 2> kRecoveries{"go_back_n", "selective_repeat"};

// Reads the map under `name`, when it is there.
template <typename Read>
void part(MapReader& map, std::string_view name, Read read) {
  const fabric::YamlNode* node = map.find(name);
  if (node == nullptr) return;
  MapReader reader(*node, map.key_of(name), map.mistakes());
  if (!reader.is_map()) return;
  read(reader);
  reader.finish();
}

void read_transport(MapReader& map, Transport& transport) {
  map.whole("payload_bytes", transport.payload_bytes, 64, kMaxPacket - 64);
  map.whole("header_bytes", transport.header_bytes, 0, 1'024);
  map.whole("control_bytes", transport.control_bytes, 1, 1'024);
  map.whole("ack_every", transport.ack_every, 1, 1u << 20);
  map.whole("window_bytes", transport.window_bytes, 0, kMaxBuffer);
  map.choice(
      "recovery", transport.recovery,
      [](std::string_view name) -> std::optional<Recovery> {
        if (name == kRecoveries[0]) return Recovery::kGoBackN;
        if (name == kRecoveries[1]) return Recovery::kSelectiveRepeat;
        return std::nullopt;
      },
      kRecoveries);
  map.whole("reorder_packets", transport.reorder_packets, 0, 2'047);
  map.time("ask_again_us", transport.ask_again, kPerUs);
  map.time("retransmit_timeout_us", transport.retransmit_timeout, kPerUs);
  if (transport.payload_bytes + transport.header_bytes > kMaxPacket)
    map.mistake("payload_bytes", fmt::format("{} with a header of {} is more than {}; give less",
                                             transport.payload_bytes, transport.header_bytes, kMaxPacket));
  if (transport.retransmit_timeout == 0) map.mistake("retransmit_timeout_us", "is 0; give a time");
}

void read_ecn(MapReader& map, Ecn& ecn) {
  map.flag("enabled", ecn.enabled);
  map.flag("at_departure", ecn.at_departure);
  map.whole("kmin_bytes", ecn.kmin_bytes, 0, kMaxBuffer);
  map.whole("kmax_bytes", ecn.kmax_bytes, 0, kMaxBuffer);
  map.real("pmax", ecn.pmax, 0, 1);
  if (ecn.kmin_bytes > ecn.kmax_bytes)
    map.mistake("kmin_bytes", fmt::format("{} is above kmax_bytes {}; swap them", ecn.kmin_bytes, ecn.kmax_bytes));
}

void read_pfc(MapReader& map, Pfc& pfc) {
  map.flag("enabled", pfc.enabled);
  map.whole("xoff_bytes", pfc.xoff_bytes, 1, kMaxBuffer);
  map.whole("xon_bytes", pfc.xon_bytes, 0, kMaxBuffer);
  map.whole("headroom_bytes", pfc.headroom_bytes, 0, kMaxBuffer);
  map.time("watchdog_us", pfc.watchdog, kPerUs);
  if (pfc.xon_bytes > pfc.xoff_bytes)
    map.mistake("xon_bytes", fmt::format("{} is above xoff_bytes {}; give less", pfc.xon_bytes, pfc.xoff_bytes));
}

void read_dcqcn(MapReader& map, Dcqcn& dcqcn) {
  map.flag("enabled", dcqcn.enabled);
  map.real("g", dcqcn.g, 1e-6, 1);
  map.time("cnp_interval_us", dcqcn.cnp_interval, kPerUs);
  map.time("alpha_timer_us", dcqcn.alpha_timer, kPerUs);
  map.time("rate_timer_us", dcqcn.rate_timer, kPerUs);
  map.whole("byte_counter", dcqcn.byte_counter, 1, kMaxBuffer);
  map.whole("fast_recovery", dcqcn.fast_recovery, 1, 1'000);
  map.real("additive_bps", dcqcn.additive_bps, 0, 1e13);
  map.real("hyper_bps", dcqcn.hyper_bps, 0, 1e13);
  map.real("minimum_bps", dcqcn.minimum_bps, 1e3, 1e13);
  if (dcqcn.alpha_timer == 0) map.mistake("alpha_timer_us", "is 0; give a time");
  if (dcqcn.rate_timer == 0) map.mistake("rate_timer_us", "is 0; give a time");
}

}  // namespace

void suit_rate(PacketConfig& packet, uint64_t rate_bps) {
  const double factor = static_cast<double>(rate_bps) / 100e9;
  for (uint64_t* bytes : {&packet.ecn.kmin_bytes, &packet.ecn.kmax_bytes, &packet.pfc.xoff_bytes, &packet.pfc.xon_bytes,
                          &packet.pfc.headroom_bytes, &packet.switches.buffer_bytes, &packet.dcqcn.byte_counter})
    *bytes = static_cast<uint64_t>(static_cast<double>(*bytes) * factor);
  packet.dcqcn.additive_bps *= factor;
  packet.dcqcn.hyper_bps *= factor;
}

void read_engine(const fabric::YamlNode& node, Scenario& scenario, fabric::Mistakes& mistakes) {
  PacketConfig& packet = scenario.packet;
  MapReader map(node, "engine", mistakes);
  if (!map.is_map()) return;
  map.choice(
      "kind", scenario.engine,
      [](std::string_view name) -> std::optional<Engine> {
        if (name == kEngines[0]) return Engine::kPacket;
        if (name == kEngines[1]) return Engine::kFluid;
        return std::nullopt;
      },
      kEngines);
  map.choice(
      "sharing", scenario.sharing,
      [](std::string_view name) -> std::optional<Sharing> {
        const auto found = std::find(kSharings.begin(), kSharings.end(), name);
        if (found == kSharings.end()) return std::nullopt;
        return static_cast<Sharing>(found - kSharings.begin());
      },
      kSharings);
  uint64_t rate_bps = 0;  // before the numbers that it would change
  if (map.whole("for_rate_bps", rate_bps, fabric::kMinRateBps, fabric::kMaxRateBps)) suit_rate(packet, rate_bps);
  map.whole("threads", packet.threads, 1, 256);
  map.time("propagation_ns", packet.propagation, kPerNs);
  if (packet.propagation == 0) map.mistake("propagation_ns", "is 0; give at least 0.001");
  map.time("fault_detection_us", packet.fault_detection, kPerUs);
  part(map, "transport", [&](MapReader& part) { read_transport(part, packet.transport); });
  part(map, "switch", [&](MapReader& part) {
    part.flag("cut_through", packet.switches.cut_through);
    part.whole("buffer_bytes", packet.switches.buffer_bytes, 1, kMaxBuffer);
    part.whole("port_limit_bytes", packet.switches.port_limit_bytes, 0, kMaxBuffer);
    part.flag("fair_queueing", packet.switches.fair_queueing);
    part.time("forwarding_delay_ns", packet.switches.forwarding_delay, kPerNs);
  });
  part(map, "ecn", [&](MapReader& part) { read_ecn(part, packet.ecn); });
  part(map, "pfc", [&](MapReader& part) { read_pfc(part, packet.pfc); });
  part(map, "dcqcn", [&](MapReader& part) { read_dcqcn(part, packet.dcqcn); });
  part(map, "paths", [&](MapReader& part) {
    part.time("flowlet_gap_us", packet.choice.flowlet_gap, kPerUs);
    part.whole("rehash_after", packet.choice.rehash_after, 1, 1u << 20);
    part.whole("repath_level", packet.choice.repath_level, 0, 255);
  });
  part(map, "telemetry",
       [&](MapReader& part) { part.whole("sample_every", packet.telemetry.sample_every, 0, UINT32_MAX); });
  map.finish();
}

}  // namespace orrery::sim
