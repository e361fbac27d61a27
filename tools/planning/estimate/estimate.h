// What one iteration of a training job sends, and how much of it training waits for.
//
// Sources:
// - tensor parallelism: two all-reduces per layer and pass (Shoeybi et al., "Megatron-LM", 2019); with sequence
//   parallelism all-gather and reduce-scatter pairs in their place and one all-gather more for each in the backward
//   pass (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022);
// - pipelines: activations between stages, bubble (p - 1) / (v * m) (Narayanan et al., SC 2021, as in model.h);
// - data parallelism: Rajbhandari et al., "ZeRO", SC 2020;
// - experts: two all-to-alls per layer and pass (Lepikhin et al., "GShard", 2020);
// - bytes on the wire: 2(n-1)/n of an all-reduced array, (n-1)/n of the others (nccl-tests, PERFORMANCE.md).
// Ranks lie as in Megatron: tensor-parallel ones next to each other, then expert, data, pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/planning/estimate/model.h"
#include "tools/sim/workload/collectives.h"

namespace orrery::planning {

struct Training {
  Model model;
  uint32_t tensor = 1, pipeline = 1, data = 1;
  uint32_t expert = 1;            // within the data-parallel ranks
  uint32_t virtual_stages = 1;    // of each pipeline stage (interleaving)
  uint32_t zero = 0;              // stage
  bool sequence_parallel = true;  // with tensor > 1
  bool recompute = false;         // every activation again in the backward pass
  bool bucket_all_reduce =
      false;                    // zero 2: gradients all-reduced, of which a rank keeps its part (DeepSpeed's default)
  bool overlap_gather = false;  // zero 1 and 2: weights gathered during the next forward pass
  uint32_t global_batch = 0;    // sequences; 0: one micro batch per data-parallel rank and pipeline stage
  uint32_t micro_batch = 1;
  uint32_t weight_bytes = 2, gradient_bytes = 4;

  double gpu_flops = 989e12;  // peak
  double utilisation = 0.5;   // of it while computing
  uint32_t gpus_per_host = 8, nics_per_host = 8;
  uint64_t nic_bps = 400'000'000'000;
  uint64_t nvlink_bps = 3'600'000'000'000;  // of a GPU, one way
  double allowed_overhead = 0.1;            // communication over the network that is waited for / computation

  uint64_t ranks() const { return uint64_t{tensor} * pipeline * data; }
};

enum class Overlap : uint8_t {
  kNone,      // training waits
  kBackward,  // with the backward pass
  kForward,
  kPipeline  // with the micro batches before and after
};
std::string_view name_of(Overlap overlap);

// All collectives of one kind, of one rank of the fullest pipeline stage. Bytes as nccl-tests counts them.
struct Communication {
  std::string purpose;  // "gradients"
  sim::Op op = sim::Op::kAllReduce;
  std::string group;  // "tp", "dp", "ep", "pp", "edp" (data-parallel ranks with the same experts), "embedding"
  uint32_t size = 1, stride = 1;
  uint64_t count = 0;  // per iteration
  uint64_t bytes = 0;  // of each
  Overlap overlap = Overlap::kNone;

  uint32_t together = 1;  // ranks of a group on one host
  bool network = false;   // others are on other hosts
  double wire_bytes = 0;  // sent by a rank, per iteration
  double nic_bytes = 0;   // sent by a NIC, per iteration
  double seconds = 0;     // all of them, nothing in their way
  double window_s = 0;    // of what they overlap with
  double exposed_s = 0;
  double needed_bps = 0;  // of a NIC, to be hidden in the window; 0 where nothing hides it or no NIC takes part
};

struct Estimate {
  Training training;
  uint32_t micro_batches = 1;
  uint64_t parameters = 0;               // of the model
  uint64_t rank_parameters = 0;          // of a rank of the fullest stage
  double forward_s = 0, backward_s = 0;  // of a micro batch in one stage
  double compute_s = 0;                  // of an iteration
  double bubble_s = 0;
  double exposed_s = 0;          // communication that is waited for
  double exposed_network_s = 0;  // of it, what crosses NICs
  double iteration_s = 0;
  double tokens_per_s = 0;
  double needed_nic_bps = 0;  // with which exposed_network_s is allowed_overhead of compute_s
  std::vector<Communication> communications;
};

// Errors: kInvalidArgument says what does not divide, and what would.
Result<Estimate> estimate(const Training& training);

}  // namespace orrery::planning
