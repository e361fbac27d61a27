// Remembers recent plans, so that an unchanged snapshot costs a lookup. plan() itself stays pure: this is for its
// callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/result.h"
#include "controller/planner/planner.h"

namespace orrery::planner {

// Everything plan() depends on, as bytes: two snapshots have the same signature when and only when they have the same
// plan input.
std::string signature(const Snapshot& snapshot);

// Not thread-safe; owned by the caller's thread. Keeps the `capacity` most recently used plans, fewer when their inputs
// are large.
class PlanCache {
 public:
  static constexpr size_t kMaxKeyBytes = 32u << 20;  // of all signatures together

  explicit PlanCache(size_t capacity = 32) : capacity_(capacity) {}
  // The plan of an equal snapshot seen before, else plan(snapshot). Errors: as plan(); they are not remembered.
  Result<std::shared_ptr<const Plan>> plan(const Snapshot& snapshot);
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Plan> plan;
  };
  size_t capacity_;
  size_t key_bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace orrery::planner
