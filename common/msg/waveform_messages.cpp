#include "common/msg/waveform_messages.h"

#include "common/msg/codec.h"
#include "common/msg/wire_read.h"
#include "schemas/waveform.capnp.h"

namespace orrery::msg {
namespace {

// Far beyond any fabric and run, and so small that sums and rates stay within 64 bits.
constexpr size_t kMaxNics = 1u << 20;
constexpr size_t kMaxJobs = 65'536;
constexpr size_t kMaxBins = 65'536;
constexpr uint64_t kMaxNs = uint64_t{1} << 50;     // thirteen days
constexpr uint64_t kMaxBytes = uint64_t{1} << 47;  // of a bin, or of a job's iteration
constexpr Limits kLimits = {.max_bytes = kMaxWaveformsBytes, .traversal_words = kMaxWaveformsBytes / 4, .nesting = 8};

Status check_range(std::string_view field, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return {};
  return corrupt(field, fmt::format("is {}, not within {}..{}", value, least, most));
}

Result<PredictedJob> read_job(wire::PredictedJob::Reader in) {
  PredictedJob out{.name = read_text(in.getName()), .iterations = in.getIterations(), .period_ns = in.getPeriodNs()};
  ORRERY_TRY(check_range("jobs.iterations", out.iterations, 1, UINT32_MAX));
  ORRERY_TRY(check_range("jobs.periodNs", out.period_ns, 1, kMaxNs));
  return out;
}

Result<NicWaveform> read_nic(wire::NicWaveform::Reader in, size_t jobs) {
  NicWaveform out;
  ORRERY_ASSIGN(out.host, read_name("nics.host", in.getHost()));
  ORRERY_ASSIGN(out.nic, read_name("nics.nic", in.getNic()));
  ORRERY_TRY(check_count("nics.bytes", in.getBytes().size(), kMaxBins));
  out.bytes.reserve(in.getBytes().size());
  for (const uint64_t bytes : in.getBytes()) {
    ORRERY_TRY(check_range("nics.bytes", bytes, 0, kMaxBytes));
    out.bytes.push_back(bytes);
  }
  ORRERY_TRY(check_count("nics.shares", in.getShares().size(), jobs));
  for (const auto share : in.getShares()) {
    if (share.getJob() >= jobs) return corrupt("nics.shares.job", "is of no job in the list");
    ORRERY_TRY(check_range("nics.shares.bytesPerIteration", share.getBytesPerIteration(), 0, kMaxBytes));
    out.shares.push_back({share.getJob(), share.getBytesPerIteration()});
  }
  return out;
}

Result<Waveforms> read_waveforms(wire::Waveforms::Reader in) {
  if (in.getSchemaVersion() != kWaveformsVersion)
    return Error{ErrorCode::kInvalidArgument, fmt::format("is in format {}, this version reads format {}",
                                                          in.getSchemaVersion(), kWaveformsVersion)};
  Waveforms out;
  out.topology = read_text(in.getTopology());
  out.fingerprint = in.getFingerprint();
  out.scheme = read_text(in.getScheme());
  out.engine = read_text(in.getEngine());
  out.seed = in.getSeed();
  out.title = read_text(in.getTitle());
  out.bin_ns = in.getBinNs();
  ORRERY_TRY(check_range("binNs", out.bin_ns, 1, kMaxNs));
  ORRERY_ASSIGN(out.jobs, read_list<PredictedJob>("jobs", in.getJobs(), kMaxJobs, read_job));
  ORRERY_ASSIGN(out.nics, read_list<NicWaveform>("nics", in.getNics(), kMaxNics,
                                                 [&](auto nic) { return read_nic(nic, out.jobs.size()); }));
  return out;
}

void write_nic(wire::NicWaveform::Builder out, const NicWaveform& in) {
  out.setHost(in.host);
  out.setNic(in.nic);
  auto bytes = out.initBytes(static_cast<unsigned>(in.bytes.size()));
  for (unsigned i = 0; i < in.bytes.size(); ++i) bytes.set(i, in.bytes[i]);
  auto shares = out.initShares(static_cast<unsigned>(in.shares.size()));
  for (unsigned i = 0; i < in.shares.size(); ++i) {
    shares[i].setJob(in.shares[i].job);
    shares[i].setBytesPerIteration(in.shares[i].bytes_per_iteration);
  }
}

void write_waveforms(wire::Waveforms::Builder out, const Waveforms& in) {
  out.setSchemaVersion(kWaveformsVersion);
  out.setTopology(in.topology);
  out.setFingerprint(in.fingerprint);
  out.setScheme(in.scheme);
  out.setEngine(in.engine);
  out.setSeed(in.seed);
  out.setTitle(in.title);
  out.setBinNs(in.bin_ns);
  auto jobs = out.initJobs(static_cast<unsigned>(in.jobs.size()));
  for (unsigned i = 0; i < in.jobs.size(); ++i) {
    jobs[i].setName(in.jobs[i].name);
    jobs[i].setIterations(in.jobs[i].iterations);
    jobs[i].setPeriodNs(in.jobs[i].period_ns);
  }
  auto nics = out.initNics(static_cast<unsigned>(in.nics.size()));
  for (unsigned i = 0; i < in.nics.size(); ++i) write_nic(nics[i], in.nics[i]);
}

}  // namespace

Result<std::string> encode(const Waveforms& waveforms) {
  return encode<wire::Waveforms>([&](wire::Waveforms::Builder out) { write_waveforms(out, waveforms); }, kLimits);
}

Result<Waveforms> decode_waveforms(std::string_view bytes) {
  return decode<wire::Waveforms>(bytes, read_waveforms, kLimits);
}

}  // namespace orrery::msg
