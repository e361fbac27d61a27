#include "tools/planning/placement/units.h"

#include <algorithm>
#include <map>

namespace orrery::planning {
namespace {

Demand joined(const Demand& demand, uint32_t size) {
  if (size == 1) return demand;
  std::map<std::pair<uint32_t, uint32_t>, double> bytes;
  for (const Pair& pair : demand.pairs)
    if (pair.a / size != pair.b / size) bytes[{pair.a / size, pair.b / size}] += pair.bytes;
  Demand units{demand.name, demand.slots / size, demand.ranks_per_slot * size, {}, {}};
  for (const auto& [slots, sum] : bytes) units.pairs.push_back({slots.first, slots.second, sum});
  return units;
}

}  // namespace

Units::Units(const Sites& nic_sites, const std::vector<Demand>& nic_demands, const std::vector<bool>& free_nics,
             uint32_t nics_of_unit)
    : size(nics_of_unit), sites(nic_sites.of_every(nics_of_unit)) {
  for (const Demand& demand : nic_demands) demands.push_back(joined(demand, size));
  for (size_t unit = 0; unit < sites.nics(); ++unit) {
    const auto first = free_nics.begin() + static_cast<ptrdiff_t>(unit * size);
    free.push_back(std::all_of(first, first + size, [](bool nic) { return nic; }));
  }
}

std::optional<Assignment> Units::of(const Assignment& nics) const {
  Assignment units;
  for (const auto& job : nics) {
    auto& out = units.emplace_back();
    for (size_t i = 0; i < job.size(); ++i) {
      if (i % size == 0) out.push_back(job[i] / size);
      if (job[i] != out.back() * size + i % size || out.back() >= free.size()) return std::nullopt;
    }
  }
  return units;
}

Assignment Units::expand(const Assignment& units) const {
  Assignment nics;
  for (const auto& job : units) {
    auto& out = nics.emplace_back();
    for (const uint32_t unit : job)
      for (uint32_t i = 0; i < size; ++i) out.push_back(unit * size + i);
  }
  return nics;
}

bool Units::room() const {
  uint64_t wanted = 0;
  for (const Demand& demand : demands) wanted += demand.slots;
  return wanted <= static_cast<uint64_t>(std::count(free.begin(), free.end(), true));
}

}  // namespace orrery::planning
