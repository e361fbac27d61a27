#include "tools/sim/cli/study_file.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/digest.h"
#include "tools/sim/cli/run_record.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

void add(Digest& digest, const std::vector<Edge>& edges) {
  for (const Edge& edge : edges) digest.add(uint64_t{edge.from} << 32 | edge.to);
  digest.add(edges.size());
}

void add(Digest& digest, const Traffic& traffic) {
  for (const Flow& flow : traffic.flows) {
    digest.add(uint64_t{flow.src} << 32 | flow.dst);
    digest.add(uint64_t{flow.job} << 32 | flow.channel);
    digest.add(flow.phase);
  }
  for (const Transfer& transfer : traffic.transfers) digest.add(transfer.bytes ^ uint64_t{transfer.flow} << 40);
  for (const Task& task : traffic.tasks) {
    digest.add(uint64_t{task.host} << 32 | task.transfer);
    digest.add(task.delay << 1 | task.opens_collective);
  }
  add(digest, traffic.after_task);
  add(digest, traffic.after_delivered);
  add(digest, traffic.after_acknowledged);
  digest.add(traffic.rounds.size());
}

void add(Digest& digest, const fabric::Graph& graph) {
  for (const fabric::Node& node : graph.nodes()) {
    digest.add(node.name);
    digest.add(uint64_t{node.hash_seed} << 8 | node.hash_function);
  }
  for (const fabric::Link& link : graph.links()) {
    digest.add(uint64_t{link.from} << 32 | link.to);
    digest.add(link.rate_bps);
    digest.add(link.queue_bytes);
  }
  for (const fabric::Nic& nic : graph.nics()) digest.add(nic.address.to_string());
}

}  // namespace

std::string fingerprint_of(const RunRequest& request, const fabric::Graph& graph, const Traffic& traffic) {
  Digest digest;
  digest.add(ORRERY_VERSION);
  digest.add(request.model_text);
  digest.add(request.scenario.scheme_options.connections);
  digest.add(request.scenario.engine == Engine::kFluid);
  add(digest, graph);
  add(digest, traffic);
  return digest.text();
}

Result<KnownRuns> KnownRuns::load(const std::string& path, const fabric::Graph& graph, DocumentParts& parts) {
  KnownRuns known;
  if (!std::filesystem::exists(path)) return known;
  ORRERY_ASSIGN(const json document, load_document(path));
  if (document.value("fingerprint", json()) != parts.fingerprint)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is the result of another study: fabric, jobs, model or version of orrery-sim differ "
                             "(schemes and seeds may); name another file, or leave out --resume to replace it",
                             path)};
  ORRERY_TRY(reading(path, [&] { known.take(document, graph, parts); }));
  return known;
}

void KnownRuns::take(const json& document, const fabric::Graph& graph, DocumentParts& parts) {
  ideal_ = run_of(graph, document.value("ideal", json()));
  for (const json& scheme : document["schemes"]) {
    const auto name = scheme.is_object() ? scheme_of(scheme.value("scheme", "")) : std::nullopt;
    if (!name) continue;
    for (const json& record : scheme.value("per_seed", json::array()))
      if (auto run = run_of(graph, record)) {
        run->scheme = *name;
        if (record.contains("csv_digest")) parts.csv_digests[{*name, run->seed}] = record["csv_digest"];
        runs_[{*name, run->seed}] = std::move(*run);
      }
    if (scheme.contains("history")) parts.histories[*name] = scheme["history"];
  }
}

std::optional<Run> KnownRuns::find(Scheme scheme, uint64_t seed, bool ideal) const {
  if (ideal) return ideal_ && ideal_->seed == seed ? ideal_ : std::nullopt;
  const auto found = runs_.find({scheme, seed});
  return found != runs_.end() ? std::optional(found->second) : std::nullopt;
}

Saver::Saver(std::string path) : path_(std::move(path)) {
  std::error_code error;
  plain_ = !std::filesystem::exists(path_, error) || std::filesystem::is_regular_file(path_, error);
}

Status replace_file(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  ORRERY_TRY(write_file(beside, text));
  if (std::rename(beside.c_str(), path.c_str()) == 0) return {};
  std::remove(beside.c_str());
  return Error{ErrorCode::kSystem, fmt::format("cannot replace {}; is it a folder?", path)};
}

}  // namespace orrery::sim
