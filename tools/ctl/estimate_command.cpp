// orreryctl estimate: what an iteration of a training job sends, and what training waits for.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <ostream>

#include "common/base/nearest_name.h"
#include "tools/ctl/command.h"
#include "tools/ctl/quantity.h"
#include "tools/ctl/ranges.h"
#include "tools/ctl/render.h"
#include "tools/ctl/table.h"
#include "tools/planning/estimate/estimate.h"
#include "tools/planning/estimate/scenario.h"

namespace orrery::ctl {
namespace {

using planning::Communication;
using planning::Estimate;
using planning::Model;
using planning::Training;

struct EstimateOptions {
  std::string model;
  uint64_t parameters = 0;
  Model shape{.vocabulary = 0, .sequence = 0};  // what is not 0 replaces the model's
  bool gated = false;
  uint64_t gpus = 0;
  bool no_sequence_parallel = false;
  std::string weights = "bf16", gradients = "fp32";
  uint64_t gpu_flops = 989'000'000'000'000;
  planning::ScenarioOptions scenario;
  std::string emit;
  bool json = false;
  Training training;
};

std::string time_text(double seconds) {
  return human_duration(static_cast<int64_t>(std::llround(seconds * 1e9)));
}

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<uint64_t>(bytes + 0.5));
}

std::string rate_text(double bps) {
  return std::isfinite(bps) ? human_rate(static_cast<uint64_t>(bps + 0.5)) : "none is enough";
}

std::string billions(uint64_t parameters) {
  return fmt::format("{:.3g} billion", static_cast<double>(parameters) / 1e9);
}

std::string text_of(const Estimate& estimate, bool colour) {
  const Training& t = estimate.training;
  Table table({{"WHAT"},
               {"COLLECTIVE"},
               {"GROUP"},
               {"SIZE", Align::kRight},
               {"COUNT", Align::kRight},
               {"BYTES EACH", Align::kRight},
               {"SENT BY A RANK", Align::kRight},
               {"BY A NIC", Align::kRight},
               {"TIME", Align::kRight},
               {"HIDDEN BY"},
               {"EXPOSED", Align::kRight},
               {"NEEDS", Align::kRight}});
  for (const Communication& c : estimate.communications)
    table.add_row({c.purpose, std::string(sim::name_of(c.op)), c.group, std::to_string(c.size), human_count(c.count),
                   human_bytes(c.bytes), bytes_text(c.wire_bytes), c.network ? bytes_text(c.nic_bytes) : "-",
                   time_text(c.seconds), std::string(planning::name_of(c.overlap)), time_text(c.exposed_s),
                   c.needed_bps > 0 ? rate_text(c.needed_bps) : "-"});
  return fmt::format(
             "{}: {} parameters, {} on each of {} GPUs (tensor {} x pipeline {} x data {}), {} micro batches of {}\n\n",
             t.model.name, billions(estimate.parameters), billions(estimate.rank_parameters), human_count(t.ranks()),
             t.tensor, t.pipeline, t.data, estimate.micro_batches, t.micro_batch) +
         table.to_string(colour) +
         fmt::format(
             "\nPer iteration, of a rank in the fullest pipeline stage. SENT BY A RANK: also within its host. "
             "NEEDS: rate of a NIC that hides it.\n\nIteration {}: computation {}, pipeline bubble {}, exposed "
             "communication {} ({} of it between hosts)\n{} tokens per second, {} of the GPUs' peak\n",
             time_text(estimate.iteration_s), time_text(estimate.compute_s), time_text(estimate.bubble_s),
             time_text(estimate.exposed_s), time_text(estimate.exposed_network_s),
             human_count(static_cast<uint64_t>(estimate.tokens_per_s)),
             human_percent(t.utilisation * estimate.compute_s / estimate.iteration_s)) +
         (estimate.needed_nic_bps > 0
              ? fmt::format("NICs of {} keep communication between hosts within {} of computation; they have {}\n",
                            rate_text(estimate.needed_nic_bps), human_percent(t.allowed_overhead),
                            human_rate(t.nic_bps))
              : "No communication between hosts is waited for.\n");
}

Json json_of(const Estimate& estimate) {
  Json json;
  json["model"] = estimate.training.model.name;
  json["parameters"] = estimate.parameters;
  json["rank_parameters"] = estimate.rank_parameters;
  json["ranks"] = estimate.training.ranks();
  json["micro_batches"] = estimate.micro_batches;
  json["compute_s"] = estimate.compute_s;
  json["bubble_s"] = estimate.bubble_s;
  json["exposed_s"] = estimate.exposed_s;
  json["exposed_network_s"] = estimate.exposed_network_s;
  json["iteration_s"] = estimate.iteration_s;
  json["tokens_per_s"] = estimate.tokens_per_s;
  json["needed_nic_bps"] = std::isfinite(estimate.needed_nic_bps) ? Json(estimate.needed_nic_bps) : Json();
  json["communications"] = Json::array();
  for (const Communication& c : estimate.communications)
    json["communications"].push_back({{"purpose", c.purpose},
                                      {"op", sim::name_of(c.op)},
                                      {"group", c.group},
                                      {"size", c.size},
                                      {"stride", c.stride},
                                      {"count", c.count},
                                      {"bytes", c.bytes},
                                      {"wire_bytes", c.wire_bytes},
                                      {"nic_bytes", c.nic_bytes},
                                      {"network", c.network},
                                      {"seconds", c.seconds},
                                      {"overlap", planning::name_of(c.overlap)},
                                      {"exposed_s", c.exposed_s},
                                      {"needed_nic_bps", c.needed_bps}});
  return json;
}

Result<uint32_t> bytes_of(const std::string& precision) {
  for (const auto& [name, bytes] : {std::pair("fp32", 4u), {"tf32", 4u}, {"bf16", 2u}, {"fp16", 2u}, {"fp8", 1u}})
    if (precision == name) return bytes;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no precision; take fp32, bf16, fp16 or fp8", precision)};
}

Result<Model> model_of(const EstimateOptions& options) {
  Model model;
  if (!options.model.empty()) {
    const auto found = planning::find_model(options.model);
    if (!found) {
      const auto names = planning::model_names();
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("no model is called '{}'{}; take {}, or give --parameters or --layers, --hidden and "
                               "--heads",
                               options.model, did_you_mean(options.model, names), fmt::join(names, ", "))};
    }
    model = *found;
  } else if (options.parameters != 0) {
    model = planning::model_of_size(options.parameters);
  }
  const Model& shape = options.shape;
  for (const auto field : {&Model::layers, &Model::hidden, &Model::heads, &Model::kv_heads, &Model::ffn,
                           &Model::vocabulary, &Model::sequence})
    if (shape.*field != 0) model.*field = shape.*field;
  if (shape.experts > 1) {
    model.experts = shape.experts;
    model.top_k = shape.top_k;
  }
  if (options.gated) model.gated = true;
  return model;
}

Status run_estimate(Console& console, EstimateOptions options) {
  Training& training = options.training;
  ORRERY_ASSIGN(training.model, model_of(options));
  ORRERY_ASSIGN(training.weight_bytes, bytes_of(options.weights));
  ORRERY_ASSIGN(training.gradient_bytes, bytes_of(options.gradients));
  training.gpu_flops = static_cast<double>(options.gpu_flops);
  training.sequence_parallel = !options.no_sequence_parallel;
  const uint64_t others = uint64_t{training.tensor} * training.pipeline;
  if (options.gpus != 0) {
    if (options.gpus % others != 0 || options.gpus / others > UINT32_MAX)
      return Error{ErrorCode::kInvalidArgument, fmt::format("{} GPUs do not divide by tensor {} x pipeline {}",
                                                            options.gpus, training.tensor, training.pipeline)};
    training.data = static_cast<uint32_t>(options.gpus / others);
  }
  ORRERY_ASSIGN(const Estimate estimate, planning::estimate(training));
  if (!options.emit.empty()) {
    options.scenario.name = estimate.training.model.name;
    ORRERY_ASSIGN(const std::string scenario, planning::scenario_of(estimate, options.scenario));
    ORRERY_TRY(write_text(options.emit, scenario, console.out));
  }
  console.out << (options.json ? json_text(json_of(estimate)) : text_of(estimate, console.colour));
  return {};
}

void add_model_options(CLI::App& app, EstimateOptions& options) {
  Model& shape = options.shape;
  app.add_option("--model", options.model, fmt::format("A known model: {}", fmt::join(planning::model_names(), ", ")))
      ->group("Model");
  add_quantity(app, "--parameters", options.parameters, "Parameters of a GPT, as 13G, in place of its shape")
      ->group("Model");
  const auto number = [&](const char* name, uint32_t& value, const char* help) {
    app.add_option(name, value, help)->group("Model")->check(positive());
  };
  number("--layers", shape.layers, "Layers; these and the following also replace what a known model has");
  number("--hidden", shape.hidden, "Hidden size");
  number("--heads", shape.heads, "Attention heads");
  number("--kv-heads", shape.kv_heads, "Heads of keys and values [as --heads]");
  number("--ffn", shape.ffn, "Width of the feed-forward part [4 x hidden]");
  number("--vocabulary", shape.vocabulary, "Tokens of the vocabulary [50257]");
  number("--sequence", shape.sequence, "Tokens of a sequence [2048]");
  number("--experts", shape.experts, "Experts of each layer [1]");
  number("--top-k", shape.top_k, "Experts that see a token [1]");
  app.add_flag("--gated", options.gated, "Feed-forward part of three matrices, as Llama has it")->group("Model");
}

void add_job_options(CLI::App& app, EstimateOptions& options) {
  Training& t = options.training;
  const auto number = [&](const char* name, uint32_t& value, const char* help) {
    app.add_option(name, value, help)->group("Job")->check(positive())->capture_default_str();
  };
  app.add_option("--gpus", options.gpus, "GPUs in all; data parallelism is what tensor and pipeline leave")
      ->group("Job");
  number("--tp", t.tensor, "Tensor-parallel ranks");
  number("--pp", t.pipeline, "Pipeline stages");
  number("--dp", t.data, "Data-parallel ranks, in place of --gpus");
  number("--ep", t.expert, "Expert-parallel ranks, within the data-parallel ones");
  number("--virtual-stages", t.virtual_stages, "Virtual stages of each pipeline stage (interleaving)");
  app.add_option("--zero", t.zero, "ZeRO stage")->group("Job")->check(CLI::Range(0, 3))->capture_default_str();
  app.add_flag("--bucket-all-reduce", t.bucket_all_reduce,
               "ZeRO 2 all-reduces gradients, of which a rank keeps its part (DeepSpeed's default)")
      ->group("Job");
  app.add_flag("--overlap-gather", t.overlap_gather, "ZeRO 1 and 2 gather weights during the next forward pass")
      ->group("Job");
  app.add_flag("--no-sequence-parallel", options.no_sequence_parallel,
               "Tensor-parallel ranks all-reduce instead of gathering and scattering")
      ->group("Job");
  app.add_flag("--recompute", t.recompute, "Compute every activation again in the backward pass")->group("Job");
  app.add_option("--global-batch", t.global_batch,
                 "Sequences of an iteration; 0: one micro batch for each data-parallel rank and pipeline stage")
      ->group("Job")
      ->capture_default_str();
  number("--micro-batch", t.micro_batch, "Sequences of a micro batch");
  app.add_option("--weights", options.weights, "Precision of weights and activations: fp32, bf16, fp16, fp8")
      ->group("Job")
      ->capture_default_str();
  app.add_option("--gradients", options.gradients, "Precision of gradients that are reduced")
      ->group("Job")
      ->capture_default_str();
}

void add_machine_options(CLI::App& app, EstimateOptions& options) {
  Training& t = options.training;
  add_quantity(app, "--gpu-flops", options.gpu_flops, "Peak operations per second of a GPU [989T]")->group("Machines");
  app.add_option("--utilisation", t.utilisation, "Share of the peak that is reached while computing")
      ->group("Machines")
      ->check(within(0.001, 1))
      ->capture_default_str();
  app.add_option("--gpus-per-host", t.gpus_per_host, "GPUs of a host")
      ->group("Machines")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--nics-per-host", t.nics_per_host, "NICs of a host")
      ->group("Machines")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_rate(app, "--nic-rate", t.nic_bps, "Rate of a NIC, bit/s [400G]")->group("Machines");
  add_rate(app, "--nvlink-rate", t.nvlink_bps, "Rate of a GPU to others of its host, one way [3.6T]")
      ->group("Machines");
  app.add_option("--allowed-overhead", t.allowed_overhead,
                 "Share of computation that communication between hosts may add, for the rate that NICs need")
      ->group("Machines")
      ->check(within(0.0001, 100))
      ->capture_default_str();
}

}  // namespace

void add_estimate_command(Session& session) {
  CLI::App* app = session.app.add_subcommand(
      "estimate", "What an iteration of a training job sends, what training waits for, and the NICs it needs");
  auto options = std::make_shared<EstimateOptions>();
  add_model_options(*app, *options);
  add_job_options(*app, *options);
  add_machine_options(*app, *options);
  app->add_option("--emit", options->emit, "Scenario to write, for orrery-sim run");
  app->add_option("--topology", options->scenario.topology,
                  "Topology file that the scenario names [a leaf-spine without oversubscription]");
  app->add_flag("--json", options->json, "Print JSON for programs");
  on_command(session, *app, [&session, options] { return run_estimate(session.console, *options); });
}

}  // namespace orrery::ctl
