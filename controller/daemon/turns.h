// Jobs that share links take turns: a job that has to is held back a little at every collective, by release offset,
// until it sends while the others compute; then nobody is held back any more. planner::phase_offsets() says how far
// jobs are to be moved, and what comes of it is watched: a job that does not give way is left alone.
//
// Belongs to the controller's thread; knows neither sockets nor clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/daemon/jobs.h"

namespace orrery::daemon {

class Turns {
 public:
  struct Turn {
    uint64_t wait_ns = 0;  // at each of its collectives
    std::string why;       // a sentence for people
  };

  // Looks at the jobs as they are now; call when due. `room_ns`: by job, what its release offsets may grow by. Whether
  // anybody's wait has changed. Where the jobs could not be found, or make no sense, nobody waits and problem() says
  // so.
  bool look(const fabric::Graph& fabric, const Result<Jobs>& jobs, const std::vector<uint64_t>& room_ns,
            uint64_t now_ns);
  uint64_t due_ns() const { return due_ns_; }

  // Of the host's job, null when that shares no link with another.
  const Turn* of_host(fabric::NodeId host) const;
  uint64_t wait_ns(fabric::NodeId host) const;
  // What is wrong, and what is done about it; "" when nothing is.
  std::string problem(uint64_t now_ns) const;

 private:
  struct Attempt {           // to move a job, by job id
    uint64_t wanted_ns = 0;  // when it began; 0: there is none
    uint64_t waited_ns = 0;  // since then, as far as is known
    uint64_t wait_ns = 0;    // now in force
    uint64_t rest_until_ns = 0;
    uint64_t seen_ns = 0;
  };

  bool take(std::vector<Turn> turns, std::vector<uint32_t> of_host);
  std::vector<uint64_t> delays(const Jobs& jobs, const planner::PhaseOffsets& offsets) const;
  Turn turn_of(const fabric::Graph& fabric, const Jobs& jobs, uint32_t job, const planner::PhaseOffsets& offsets,
               uint64_t delay_ns, uint64_t room_ns, uint64_t now_ns);
  uint64_t wait_for(const Job& job, Attempt& attempt, uint64_t delay_ns, uint64_t room_ns, uint64_t now_ns) const;

  std::vector<Turn> turns_;
  std::vector<uint32_t> of_host_;  // by NodeId: index in turns_, or fabric::kNone
  std::map<uint64_t, Attempt> attempts_;
  std::string failure_;
  uint64_t looked_ns_ = 0;
  uint64_t due_ns_ = 0;
  uint64_t interval_ns_ = 0;  // from the last look to the next
};

}  // namespace orrery::daemon
