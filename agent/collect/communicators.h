// The communicators one process has announced, checked and bounded. Everything it is told comes from a hostile ring.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "agent/collect/limits.h"
#include "common/abi/event_abi.h"

namespace orrery::collect {

struct Communicator {
  uint64_t comm_id = 0;
  uint64_t parent_id = 0;
  uint32_t rank = 0;
  uint32_t nranks = 0;
  bool ready = false;
  bool device_traffic = false;
};

class Communicators {
 public:
  enum class Outcome {
    kNew,        // first seen: to be announced at once
    kChanged,    // known, and now ready
    kKnown,      // told before; nothing new
    kMalformed,  // contradicts an earlier event
    kFull,       // over the bound
  };

  explicit Communicators(const Limits& limits) : limits_(limits) {}

  // COMM_INIT or COMM_READY, well formed (common/shm/event_check.h). A process may hold several ranks of one
  // communicator (one per device).
  Outcome announce(const orrery_comm_event& event, bool ready);
  // COMM_GONE names only the communicator: all its ranks in this process. Empty when unknown.
  std::vector<Communicator> remove(uint64_t comm_id);
  // DEVICE_TRAFFIC: the ranks of it for which that is news.
  std::vector<Communicator> mark_device_traffic(uint64_t comm_id);
  void touch(uint64_t comm_id, uint64_t time_ns);

  // Lowest rank this process holds of it; nothing when unknown.
  const Communicator* find(uint64_t comm_id) const;
  bool contains(uint64_t comm_id) const { return find(comm_id) != nullptr; }
  // To which bytes that move now belong: the one that called last, else the one announced last, 0 when there is none.
  uint64_t most_recent() const { return recent_id_; }
  std::vector<Communicator> all() const;
  std::vector<uint64_t> ids() const;
  size_t size() const { return entries_.size(); }

 private:
  void choose_recent();

  struct Entry {
    Communicator communicator;
    uint64_t last_call_ns = 0;
    uint64_t order = 0;
  };
  const Limits& limits_;
  std::map<std::pair<uint64_t, uint32_t>, Entry> entries_;  // by (comm_id, rank)
  uint64_t recent_id_ = 0;
  uint64_t recent_call_ns_ = 0;
  uint64_t next_order_ = 1;
};

}  // namespace orrery::collect
