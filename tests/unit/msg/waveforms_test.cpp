#include <catch2/catch.hpp>
#include <functional>

#include "common/msg/codec.h"
#include "common/msg/waveform_messages.h"
#include "schemas/waveform.capnp.h"

using namespace orrery;
using namespace orrery::msg;

namespace {

Waveforms sample() {
  return {.topology = "fabric",
          .scheme = "orrery",
          .engine = "fluid",
          .title = "a ring",
          .bin_ns = 4096,
          .jobs = {{"train", 2, 1'000'000}},
          .nics = {{"h1", "eth0", {100, 200, 300}, {{0, 500}}}}};
}

// The reason why `change` makes it a file that is not read.
std::string refusal_of(const std::function<void(Waveforms&)>& change) {
  Waveforms waveforms = sample();
  change(waveforms);
  const auto decoded = decode_waveforms(*encode(waveforms));
  return decoded ? "read" : decoded.error().message;
}

}  // namespace

TEST_CASE("waveforms survive being written and read") {
  const auto read = decode_waveforms(*encode(sample()));
  REQUIRE(read);
  CHECK(*read == sample());
}

TEST_CASE("a waveforms file cut off anywhere is refused as damaged, not as another version's") {
  const std::string whole = *encode(sample());
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    const auto read = decode_waveforms(std::string_view(whole).substr(0, size));
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::kCorrupt);
  }
}

TEST_CASE("waveforms in another version of the format are refused with both versions") {
  const auto bytes = encode<wire::Waveforms>([](wire::Waveforms::Builder out) {
    out.setSchemaVersion(2);
    out.setBinNs(0);  // whatever that version means by it
  });
  const auto read = decode_waveforms(*bytes);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::kInvalidArgument);
  CHECK(read.error().message == "is in format 2, this version reads format 1");
}

TEST_CASE("waveforms with impossible numbers are refused with the field") {
  CHECK(refusal_of([](Waveforms& w) { w.bin_ns = 0; }).starts_with("binNs is 0, not within 1.."));
  CHECK(refusal_of([](Waveforms& w) { w.bin_ns = UINT64_MAX; }).starts_with("binNs "));
  CHECK(refusal_of([](Waveforms& w) { w.jobs[0].period_ns = 0; }).starts_with("jobs.periodNs "));
  CHECK(refusal_of([](Waveforms& w) { w.jobs[0].iterations = 0; }).starts_with("jobs.iterations "));
  CHECK(refusal_of([](Waveforms& w) { w.nics[0].bytes[1] = UINT64_MAX; }).starts_with("nics.bytes "));
  CHECK(refusal_of([](Waveforms& w) { w.nics[0].shares[0].job = 1; }) == "nics.shares.job is of no job in the list");
  CHECK(refusal_of([](Waveforms& w) {
          w.nics[0].shares[0].bytes_per_iteration = UINT64_MAX;
        }).starts_with("nics.shares.bytesPerIteration "));
  CHECK(refusal_of([](Waveforms& w) { w.nics[0].host = ""; }).starts_with("nics.host "));
  CHECK(refusal_of([](Waveforms& w) { w.nics[0].nic = "a b"; }).starts_with("nics.nic "));
  CHECK(refusal_of([](Waveforms& w) { w.nics[0].shares.resize(2, {0, 1}); }).starts_with("nics.shares "));
  CHECK(refusal_of([](Waveforms&) {}) == "read");
}
