// Writes the golden messages of the newest release into a folder: run once, when the release is made. Files that exist
// are never overwritten.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "tests/contract/samples.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} schemas/golden/RELEASE\n", argv[0]);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const orrery::test::EncodedSample& sample : orrery::test::encoded_samples_0_3()) {
    if (std::filesystem::exists(folder / sample.file)) {
      fmt::print(stderr, "{} exists: golden messages are never rewritten\n", (folder / sample.file).string());
      return 1;
    }
    std::ofstream(folder / sample.file, std::ios::binary) << sample.bytes;
  }
  return 0;
}
