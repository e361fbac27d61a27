// Every number of the packet model, with the value a 100 Gb/s RoCE fabric would be set to.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/model/fault.h"
#include "tools/sim/model/types.h"
#include "tools/sim/model/watch.h"

namespace orrery::sim {

// DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015), names as there.
struct Dcqcn {
  bool enabled = true;
  double g = 1.0 / 256;
  Time cnp_interval = 50 * kPerUs;     // a receiver sends at most one CNP per QP and interval
  Time alpha_timer = 55 * kPerUs;      // alpha decays after as long without a CNP
  Time rate_timer = 55 * kPerUs;       // T
  uint64_t byte_counter = 10'000'000;  // B
  uint32_t fast_recovery = 5;          // F
  double additive_bps = 40e6;          // R_AI
  double hyper_bps = 200e6;            // R_HAI
  double minimum_bps = 40e6;
};

// RED marking.
struct Ecn {
  bool enabled = true;
  // By the queue that a packet leaves behind, so that news of it does not first wait in it ("ECN or Delay", CoNEXT
  // 2016, has this of shared-buffer switches); else by the queue that it finds.
  bool at_departure = true;
  uint64_t kmin_bytes = 400'000;
  uint64_t kmax_bytes = 1'600'000;
  double pmax = 0.2;
};

// Priority flow control, per ingress port and priority.
struct Pfc {
  bool enabled = true;
  uint64_t xoff_bytes = 400'000;
  uint64_t xon_bytes = 380'000;
  uint64_t headroom_bytes = 250'000;  // what may still come after xoff: beyond it packets are dropped
  // A port that stays paused for so long drops what waits at it and what comes, until the pause ends; 0: never.
  Time watchdog = 0;
};

enum class Recovery : uint8_t { kGoBackN, kSelectiveRepeat };

struct Transport {
  uint32_t payload_bytes = 4'000;
  uint32_t header_bytes = 64;   // Ethernet, IP, UDP, BTH, ICRC, FCS, preamble and gap
  uint32_t control_bytes = 64;  // ACK, NAK, CNP
  uint32_t ack_every = 1;       // packets; the last of a message is always acknowledged
  uint64_t window_bytes = 0;    // unacknowledged bytes per QP; 0: no limit
  Recovery recovery = Recovery::kGoBackN;
  // Selective repeat: a gap counts as a loss once a packet this much later has come. Paths that reorder need it.
  uint32_t reorder_packets = 0;
  // And asks again for the first missing packet once it has waited so long while others came: that it was lost twice.
  // The longer timeout of IRN (Mittal et al., SIGCOMM 2018).
  Time ask_again = 320 * kPerUs;
  Time retransmit_timeout = 4 * kPerMs;
};

struct SwitchModel {
  bool cut_through = false;
  uint64_t buffer_bytes = 32'000'000;  // shared by the ports of a switch
  uint64_t port_limit_bytes = 0;       // per egress queue; 0: the topology's queue_bytes
  Time forwarding_delay = 0;
  bool fair_queueing = false;  // connections take turns at a port; else first in, first out
};

// How senders choose among the paths of a queue pair that has several.
struct PathChoice {
  Time flowlet_gap = 50 * kPerUs;  // kFlowlet: a pause this long lets the next packet take another path
  uint32_t rehash_after = 5;       // kRehash: round trips in a row with at least half of their ACKs marked
  uint8_t repath_level = 8;        // kBurst: telemetry level (128 KiB) at which a burst takes another path
};

struct Telemetry {
  uint32_t sample_every = 0;  // packets of a queue pair; 0: none
};

struct PacketConfig {
  Transport transport;
  SwitchModel switches;
  Ecn ecn;
  Pfc pfc;
  Dcqcn dcqcn;
  PathChoice choice;
  Telemetry telemetry;
  std::vector<Fault> faults;
  Time fault_detection = 10 * kPerMs;
  Time propagation = 1 * kPerUs;  // of every link
  uint64_t seed = 1;
  uint32_t threads = 1;
  Recording recording;  // slice: a multiple of Recorder::kSamplesPerSlice nanoseconds
};

// Two traffic classes: data, which PFC may pause, and control (ACKs, CNPs), which goes strictly first.

}  // namespace orrery::sim
