// At most so many messages per second and sender, counted in whole seconds. Memory is bounded: the counts are dropped
// each second, and beyond `kMaxSenders` senders in one second the rest share one count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace orrery::api {

class RateLimit {
 public:
  static constexpr size_t kMaxSenders = 65536;
  explicit RateLimit(uint32_t per_second) : per_second_(per_second) {}
  // Whether this message is within the limit.
  bool admit(std::string_view sender, uint64_t now_ns) {
    const uint64_t second = now_ns / 1'000'000'000;
    if (second != second_) counts_.clear();
    second_ = second;
    std::string key(sender);
    if (counts_.size() >= kMaxSenders && !counts_.contains(key)) key.clear();
    return ++counts_[key] <= per_second_;
  }

 private:
  const uint32_t per_second_;
  uint64_t second_ = 0;
  std::unordered_map<std::string, uint32_t> counts_;
};

}  // namespace orrery::api
