// FNV-1a, 64 bits: tells by accident changed text from unchanged, no more.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

class Digest {
 public:
  void add_bytes(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  // With its length: texts that follow each other do not run together.
  void add(std::string_view text) {
    add_bytes(text);
    add(text.size());
  }
  void add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) value_ = (value_ ^ (number >> shift & 0xff)) * 0x100000001b3u;
  }
  uint64_t value() const { return value_; }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace orrery
