// One screen of `orreryctl watch`, and the loop that refreshes it.
#pragma once

#include <string>
#include <vector>

#include "common/msg/control_messages.h"
#include "tools/ctl/render.h"

namespace orrery::ctl {

struct Snapshot {
  msg::Health health;
  msg::PlanList plan;
  std::vector<msg::JobState> jobs;
  std::vector<msg::LinkState> links;
};

// At most `height` lines of at most `width` columns.
std::string screen_of(const Snapshot& snapshot, const Style& style, int width, int height);
// One line without a newline, for logs.
std::string line_of(const Snapshot& snapshot, const std::string& time_of_day);
Json json_of(const Snapshot& snapshot);

}  // namespace orrery::ctl
