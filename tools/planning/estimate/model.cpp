#include "tools/planning/estimate/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::planning {
namespace {

Model gpt(std::string name, uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {.name = std::move(name), .layers = layers, .hidden = hidden, .heads = heads};
}

Model llama(std::string name, uint32_t layers, uint32_t hidden, uint32_t heads, uint32_t kv_heads, uint32_t ffn,
            uint32_t vocabulary, uint32_t sequence) {
  return {.name = std::move(name),
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn = ffn,
          .vocabulary = vocabulary,
          .sequence = sequence,
          .gated = true,
          .biases = false,
          .tied = false};
}

Model mixture(Model model, uint32_t experts, uint32_t top_k) {
  model.experts = experts;
  model.top_k = top_k;
  return model;
}

const std::vector<Model>& presets() {
  static const std::vector<Model> all{
      gpt("gpt-13b", 40, 5120, 40),
      gpt("gpt-22b", 48, 6144, 64),
      gpt("gpt3-175b", 96, 12'288, 96),
      llama("llama-7b", 32, 4096, 32, 32, 11'008, 32'000, 4096),
      llama("llama-13b", 40, 5120, 40, 40, 13'824, 32'000, 4096),
      llama("llama-65b", 80, 8192, 64, 64, 22'016, 32'000, 2048),
      llama("llama-70b", 80, 8192, 64, 8, 28'672, 32'000, 4096),
      llama("llama3-8b", 32, 4096, 32, 8, 14'336, 128'256, 8192),
      llama("llama3-405b", 126, 16'384, 128, 8, 53'248, 128'256, 8192),
      mixture(llama("mixtral-8x7b", 32, 4096, 32, 8, 14'336, 32'000, 4096), 8, 2),
  };
  return all;
}

uint64_t kv_width(const Model& model) {
  const uint32_t kv_heads = model.kv_heads != 0 ? model.kv_heads : model.heads;
  return uint64_t{model.hidden} / model.heads * kv_heads;
}

uint64_t ffn_width(const Model& model) {
  return model.ffn != 0 ? model.ffn : 4ull * model.hidden;
}

}  // namespace

LayerParameters layer_parameters(const Model& model) {
  const uint64_t h = model.hidden, kv = kv_width(model), f = ffn_width(model);
  LayerParameters parameters;
  parameters.attention = 2 * h * h + 2 * h * kv;
  parameters.feed_forward = (model.gated ? 3 : 2) * h * f;
  parameters.norms = 2 * h;
  if (model.experts > 1) parameters.other += h * model.experts;
  if (model.biases) {
    parameters.attention += h + 2 * kv;
    parameters.feed_forward += f;
    parameters.norms += 2 * h;
    parameters.other += 2 * h;
  }
  return parameters;
}

EndParameters end_parameters(const Model& model, uint64_t vocabulary) {
  const uint64_t h = model.hidden;
  return {vocabulary * h, model.tied ? 0 : vocabulary * h, model.biases ? uint64_t{model.sequence} * h : 0,
          model.biases ? 2 * h : h};
}

uint64_t total_parameters(const Model& model) {
  const LayerParameters layer = layer_parameters(model);
  const EndParameters ends = end_parameters(model, model.vocabulary);
  return model.layers * (layer.attention + model.experts * layer.feed_forward + layer.norms + layer.other) +
         ends.embedding + ends.output + ends.positions + ends.norm;
}

double forward_flops_per_token(const Model& model) {
  const auto h = static_cast<double>(model.hidden), s = static_cast<double>(model.sequence);
  const auto matrices = 2 * h * h + 2 * h * static_cast<double>(kv_width(model)) +
                        model.top_k * (model.gated ? 3 : 2) * h * static_cast<double>(ffn_width(model));
  return model.layers * (2 * matrices + 4 * s * h) + 2 * h * model.vocabulary;
}

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const Model& model : presets()) names.push_back(model.name);
  return names;
}

std::optional<Model> find_model(std::string_view name) {
  const auto found = std::find_if(presets().begin(), presets().end(), [&](const Model& m) { return m.name == name; });
  if (found == presets().end()) return std::nullopt;
  return *found;
}

Model model_of_size(uint64_t parameters) {
  const auto layers =
      static_cast<uint32_t>(std::max(1.0, std::round(std::cbrt(static_cast<double>(parameters) / (12.0 * 128 * 128)))));
  Model model = gpt("custom", layers, 0, 0);
  const double hidden = std::sqrt(static_cast<double>(parameters) / (12.0 * layers));
  model.heads = static_cast<uint32_t>(std::max(1.0, std::round(hidden / 128)));
  if (model.heads > 8) model.heads = (model.heads + 4) / 8 * 8;  // divides over the ranks of a host
  model.hidden = 128 * model.heads;
  return model;
}

Status check(const Model& model) {
  const auto wrong = [](std::string text) { return Error{ErrorCode::kInvalidArgument, std::move(text)}; };
  constexpr uint32_t kMost = 1u << 20;
  if (model.layers == 0 || model.hidden == 0 || model.heads == 0)
    return wrong("the model has no shape; give --model NAME, --parameters 13G, or --layers, --hidden and --heads");
  if (model.layers > 10'000 || model.hidden > kMost || ffn_width(model) > 8ull * kMost ||
      model.vocabulary > 8 * kMost || model.sequence > 16 * kMost || model.experts > 4096)
    return wrong("the model is larger than anything that runs; check its numbers");
  if (model.sequence == 0 || model.vocabulary == 0) return wrong("sequence and vocabulary are at least 1");
  if (model.hidden % model.heads != 0)
    return wrong(fmt::format("a hidden size of {} does not divide into {} heads", model.hidden, model.heads));
  if (model.kv_heads > model.heads || (model.kv_heads != 0 && model.heads % model.kv_heads != 0))
    return wrong(fmt::format("{} heads do not divide into {} groups of keys and values", model.heads, model.kv_heads));
  if (model.top_k == 0 || model.experts == 0 || model.top_k > model.experts)
    return wrong(fmt::format("a token cannot go to {} of {} experts", model.top_k, model.experts));
  return {};
}

}  // namespace orrery::planning
