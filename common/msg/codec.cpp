#include "common/msg/codec.h"

#include <fmt/format.h>
#include <kj/exception.h>

#include <cstring>

namespace orrery::msg {

Error current_decode_error() {
  try {
    throw;
  } catch (const kj::Exception& exception) {
    return {ErrorCode::kCorrupt, fmt::format("not a valid Cap'n Proto message: {}", exception.getDescription().cStr())};
  } catch (const std::exception& exception) {
    return {ErrorCode::kCorrupt, fmt::format("not a valid message: {}", exception.what())};
  }
}

Result<kj::Array<capnp::word>> aligned_words(std::string_view frame, const Limits& limits) {
  if (frame.size() > limits.max_bytes)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("message of {} bytes is longer than the limit of {}", frame.size(), limits.max_bytes)};
  if (frame.empty() || frame.size() % sizeof(capnp::word) != 0)
    return Error{ErrorCode::kCorrupt, fmt::format("message of {} bytes is not a whole number of words", frame.size())};
  auto words = kj::heapArray<capnp::word>(frame.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), frame.data(), frame.size());
  return words;
}

Result<std::string> flatten(capnp::MessageBuilder& message, const Limits& limits) {
  const size_t bytes = capnp::computeSerializedSizeInWords(message) * sizeof(capnp::word);
  if (bytes > limits.max_bytes)
    return Error{ErrorCode::kExhausted,
                 fmt::format("message of {} bytes is longer than the limit of {}", bytes, limits.max_bytes)};
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  return std::string(reinterpret_cast<const char*>(words.begin()), bytes);
}

}  // namespace orrery::msg
