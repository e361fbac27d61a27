// One Cap'n Proto message <-> one frame of bytes, with bounds on what a decoder will touch. kj's exceptions end here.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/base/result.h"

namespace orrery::msg {

struct Limits {
  size_t max_bytes = 4u << 20;          // of a frame
  uint64_t traversal_words = 2u << 20;  // a hostile message may point at the same bytes many times
  int nesting = 16;
};

// Text of an exception that kj threw while reading, as a kCorrupt error. Call from a catch block only.
Error current_decode_error();
// Copies the frame into words, as Cap'n Proto wants them aligned. Errors: kCorrupt, too long, empty or not a whole
// number of words.
Result<kj::Array<capnp::word>> aligned_words(std::string_view frame, const Limits& limits);
// Errors: kExhausted, the message is longer than `limits.max_bytes` and a receiver would refuse it.
Result<std::string> flatten(capnp::MessageBuilder& message, const Limits& limits);

// `read` takes Wire::Reader and returns a Result<T>, which is returned. Errors besides its own: kCorrupt.
template <typename Wire, typename Read>
auto decode(std::string_view frame, Read&& read, const Limits& limits = {})
    -> std::invoke_result_t<Read, typename Wire::Reader> {
  ORRERY_ASSIGN(const kj::Array<capnp::word> words, aligned_words(frame, limits));
  try {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = limits.traversal_words;
    options.nestingLimit = limits.nesting;
    capnp::FlatArrayMessageReader message(words, options);
    return std::forward<Read>(read)(message.getRoot<Wire>());
  } catch (...) {
    return current_decode_error();
  }
}

// `fill` takes Wire::Builder.
template <typename Wire, typename Fill>
Result<std::string> encode(Fill&& fill, const Limits& limits = {}) {
  try {
    capnp::MallocMessageBuilder message;
    std::forward<Fill>(fill)(message.initRoot<Wire>());
    return flatten(message, limits);
  } catch (...) {
    return current_decode_error();
  }
}

}  // namespace orrery::msg
