#include "controller/drivers/registry.h"

#include <fmt/format.h>

#include "common/base/nearest_name.h"

namespace orrery::drivers {

void Registry::add(std::string name, Factory factory) {
  if (!factories_.emplace(std::move(name), std::move(factory)).second) std::abort();
}

Result<std::unique_ptr<Driver>> Registry::make(std::string_view name) const {
  const auto found = factories_.find(name);
  if (found != factories_.end()) return found->second();
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& [known, factory] : factories_) {
    names.push_back(known);
    list += (list.empty() ? "" : ", ") + known;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("unknown driver '{}'{}; this build has {}", name, did_you_mean(name, names), list)};
}

}  // namespace orrery::drivers
