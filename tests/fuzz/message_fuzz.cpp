// Every decoder of wire messages on mutated golden messages: whatever the bytes, the answer is a value or an error, and
// a value that came out can be encoded and decoded again to the same value.
#include <catch2/catch.hpp>
#include <random>

#include "tests/contract/samples.h"

using namespace orrery;

namespace {

constexpr int kMutationsPerSample = 3000;

std::string mutated(const std::string& seed, std::mt19937& random) {
  std::string bytes = seed;
  const uint32_t changes = 1 + random() % 8;
  for (uint32_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 2:  // a word of another place: pointers that point elsewhere
        if (bytes.size() >= 16) bytes.replace(at / 8 * 8, 8, bytes.substr(random() % (bytes.size() / 8) * 8, 8));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, 8, static_cast<char>(random()));
        break;
      case 5:
        for (size_t byte = at / 8 * 8; byte < std::min(at / 8 * 8 + 8, bytes.size()); ++byte)
          bytes[byte] = static_cast<char>(0xff);
        break;
    }
  }
  return bytes;
}

template <typename Decode>
void feed(const std::string& bytes, Decode&& decode, int& accepted) {
  const auto value = decode(bytes);
  if (!value) {
    REQUIRE_FALSE(value.error().message.empty());
    return;
  }
  ++accepted;
  const auto again = msg::encode(*value);
  REQUIRE(again);
  const auto twice = decode(*again);
  REQUIRE(twice);
  // Encoded, because a fuzzed NaN is not equal to itself.
  REQUIRE(*msg::encode(*twice) == *again);
}

}  // namespace

TEST_CASE("no decoder crashes on mutated messages, and what it accepts is consistent") {
  std::mt19937 random(20261129);
  int accepted = 0;
  std::vector<test::EncodedSample> samples = test::encoded_samples();
  for (const auto& newer : {test::encoded_samples_0_2(), test::encoded_samples_0_3()})
    samples.insert(samples.end(), newer.begin(), newer.end());
  for (const test::EncodedSample& sample : samples)
    for (int i = 0; i < kMutationsPerSample; ++i) {
      const std::string bytes = mutated(sample.bytes, random);
      feed(bytes, msg::decode_intent_window, accepted);
      feed(bytes, msg::decode_agent_message, accepted);
      feed(bytes, msg::decode_controller_message, accepted);
      feed(bytes, msg::decode_switch_message, accepted);
      feed(bytes, msg::decode_switch_command, accepted);
      feed(bytes, msg::decode_request, accepted);
      feed(bytes, msg::decode_response, accepted);
      feed(bytes, msg::decode_waveforms, accepted);
    }
  CHECK(accepted > 1000);
}
