// A transformer: its shape, its parameters, and the operations of a forward pass.
//
// Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021
// (parameters and operations of a GPT); shapes of the presets from the models' papers and published configurations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace orrery::planning {

struct Model {
  std::string name = "custom";
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // 0: as heads
  uint32_t ffn = 0;       // 0: 4 * hidden
  uint32_t vocabulary = 50'257;
  uint32_t sequence = 2048;
  uint32_t experts = 1;  // of each layer
  uint32_t top_k = 1;    // experts that see a token
  bool gated = false;    // three matrices in the feed-forward part instead of two
  bool biases = true;    // of matrices and norms, and learned positions
  bool tied = true;      // the output layer is the embedding

  bool operator==(const Model&) const = default;
};

// Of one layer. `sharded` ones are divided among tensor-parallel ranks, the others are on each.
struct LayerParameters {
  uint64_t attention = 0;     // sharded
  uint64_t feed_forward = 0;  // sharded; of one expert
  uint64_t norms = 0;         // on each
  uint64_t other = 0;         // on each: biases of outputs, router
};

LayerParameters layer_parameters(const Model& model);
// Of the embedding, the output layer (0 when tied) and learned positions. `vocabulary` with the padding.
struct EndParameters {
  uint64_t embedding = 0, output = 0;  // sharded
  uint64_t positions = 0, norm = 0;    // on each
};
EndParameters end_parameters(const Model& model, uint64_t vocabulary);
uint64_t total_parameters(const Model& model);

// Floating-point operations of a forward pass over one token, all layers and the output layer; multiplications and
// additions count one each, attention over the whole sequence.
double forward_flops_per_token(const Model& model);

std::vector<std::string_view> model_names();
std::optional<Model> find_model(std::string_view name);
// The shape that GPT-3's sizes follow: hidden = 128 * layers, 12 * layers * hidden^2 parameters.
Model model_of_size(uint64_t parameters);

// Errors: kInvalidArgument, with what would do.
Status check(const Model& model);

}  // namespace orrery::planning
