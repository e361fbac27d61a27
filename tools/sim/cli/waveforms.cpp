#include "tools/sim/cli/waveforms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/sim/schemes/schemes.h"

namespace orrery::sim {
namespace {

Error refuse(std::string what) {
  return {ErrorCode::kInvalidArgument, "--waveforms: " + std::move(what)};
}

std::string names_of(const std::vector<Scheme>& schemes) {
  std::vector<std::string_view> names;
  for (const Scheme scheme : schemes) names.push_back(name_of(scheme));
  return fmt::format("{}", fmt::join(names, ", "));
}

// By job, over the iterations that ended.
Result<std::vector<msg::PredictedJob>> jobs_of(const Traffic& traffic, const RunResult& result) {
  struct Span {
    Time begin = kNever, end = 0;
    uint32_t iterations = 0;
  };
  std::vector<Span> spans(traffic.jobs.size());
  for (const RoundTimes& round : round_times(traffic, result.step_done_at)) {
    if (round.begin == kNever || round.end == kNever) continue;
    Span& span = spans[round.job];
    span.begin = std::min(span.begin, round.begin);
    span.end = std::max(span.end, round.end);
    ++span.iterations;
  }
  std::vector<msg::PredictedJob> jobs;
  for (size_t job = 0; job < spans.size(); ++job) {
    if (spans[job].iterations == 0)
      return refuse(fmt::format("no iteration of job '{}' ended, so that it has no period; see the table for why",
                                traffic.jobs[job]));
    const uint64_t period = (spans[job].end - spans[job].begin) / spans[job].iterations / kPerNs;
    jobs.push_back({traffic.jobs[job], spans[job].iterations, std::max<uint64_t>(period, 1)});
  }
  return jobs;
}

// Payload of an iteration, by NIC and job.
std::vector<std::map<uint32_t, uint64_t>> sent_by_nic(const Traffic& traffic, size_t nics) {
  std::vector<std::map<uint32_t, uint64_t>> sent(nics);
  const std::vector<uint64_t> bytes = bytes_per_round(traffic);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Flow& flow = traffic.flows[i];
    if (flow.src != flow.dst) sent[flow.src][flow.job] += bytes[i];
  }
  return sent;
}

}  // namespace

Result<Scheme> scheme_for_waveforms(const std::vector<Scheme>& schemes, std::optional<Scheme> named) {
  if (named && std::find(schemes.begin(), schemes.end(), *named) == schemes.end())
    return refuse(fmt::format("{} is not among the schemes that run ({}); add --scheme {}", name_of(*named),
                              names_of(schemes), name_of(*named)));
  if (named) return *named;
  std::vector<Scheme> planned;
  std::copy_if(schemes.begin(), schemes.end(), std::back_inserter(planned), plans);
  if (planned.size() == 1) return planned.front();
  if (planned.empty())
    return refuse(fmt::format("no planned scheme runs; add --scheme orrery, or name one with --waveforms-of ({})",
                              names_of(schemes)));
  return refuse(
      fmt::format("several planned schemes run ({}); name the one that the controller carries out with "
                  "--waveforms-of",
                  names_of(planned)));
}

Result<std::string> waveforms_file(const RunRequest& request, const fabric::Graph& graph, const Traffic& traffic,
                                   const Observation& run) {
  msg::Waveforms out;
  out.topology = graph.name();
  out.fingerprint = graph.fingerprint();
  out.scheme = name_of(run.run.scheme);
  out.engine = request.scenario.engine == Engine::kFluid ? "fluid" : "packet";
  out.seed = run.run.seed;
  out.title = request.title;
  ORRERY_ASSIGN(out.jobs, jobs_of(traffic, run.result));
  const auto sent = sent_by_nic(traffic, graph.nics().size());
  for (size_t i = 0; i < graph.nics().size(); ++i) {
    if (sent[i].empty()) continue;
    const fabric::Nic& nic = graph.nics()[i];
    const Waveform& wave = run.result.waveforms[nic.uplink];
    out.bin_ns = std::max<uint64_t>(out.bin_ns, wave.slice / kPerNs);
    msg::NicWaveform& written = out.nics.emplace_back(
        msg::NicWaveform{.host = graph.node(nic.host).name, .nic = nic.name, .bytes = wave.bytes});
    for (const auto& [job, bytes] : sent[i]) written.shares.push_back({job, bytes});
  }
  if (out.nics.empty()) return refuse("no NIC sends anything: all ranks of every job share a host");
  auto file = msg::encode(out);
  if (!file) return refuse(fmt::format("{}: the fabric is too large for one file", file.error().message));
  return file;
}

}  // namespace orrery::sim
