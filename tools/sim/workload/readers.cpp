#include "tools/sim/workload/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "tools/sim/workload/input.h"

namespace orrery::sim {
namespace {

constexpr std::array<std::string_view, 6> kFormats{"aicb", "simai", "htsim", "nccl-tests", "intents", "chakra"};

// "trace.3.et", or "trace": the files of all ranks, up to the first that is missing.
Result<std::vector<Input>> load_ranks(const std::string& path) {
  std::string prefix = path;
  if (prefix.ends_with(".et")) {
    prefix.resize(prefix.size() - 3);
    const size_t dot = prefix.rfind('.');
    uint64_t rank = 0;
    if (dot != std::string::npos && parse_whole(std::string_view(prefix).substr(dot + 1), rank)) prefix.resize(dot);
  }
  std::vector<Input> inputs;
  size_t left = kMaxInputBytes;
  for (uint32_t rank = 0;; ++rank) {
    const std::string name = fmt::format("{}.{}.et", prefix, rank);
    std::error_code ignored;
    if (rank > 0 && !std::filesystem::exists(name, ignored)) return inputs;
    ORRERY_ASSIGN(std::string text, read_file(name, left, "the trace"));
    left -= text.size();
    inputs.push_back({name, std::move(text)});
  }
}

}  // namespace

std::string_view name_of(Format format) {
  return kFormats[static_cast<size_t>(format)];
}

std::optional<Format> format_of(std::string_view name) {
  const auto found = std::find(kFormats.begin(), kFormats.end(), name);
  if (found == kFormats.end()) return std::nullopt;
  return static_cast<Format>(found - kFormats.begin());
}

Result<Workload> read_workload(Format format, const std::vector<Input>& inputs, const ReadOptions& options) {
  if (inputs.empty()) return Error{ErrorCode::kInvalidArgument, "no file to read a workload from"};
  switch (format) {
    case Format::kAicb:
      return read_aicb(inputs[0], options);
    case Format::kSimai:
      return read_simai(inputs[0], options);
    case Format::kHtsim:
      return read_htsim(inputs[0], options);
    case Format::kNcclTests:
      return read_nccl_tests(inputs[0], options);
    case Format::kIntents:
      return read_intents(inputs[0], options);
    case Format::kChakra:
      break;
  }
  return read_chakra(inputs, options);
}

Result<Workload> load_workload(Format format, const std::string& path, const ReadOptions& options) {
  if (format == Format::kChakra) {
    ORRERY_ASSIGN(const std::vector<Input> inputs, load_ranks(path));
    return read_chakra(inputs, options);
  }
  // Recordings are JSON, an object per line.
  const size_t longest_line = format == Format::kIntents ? kMaxInputBytes : kMaxLineBytes;
  ORRERY_ASSIGN(std::string text, read_text(path, kMaxInputBytes, "the workload", longest_line));
  return read_workload(format, {{path, std::move(text)}}, options);
}

}  // namespace orrery::sim
