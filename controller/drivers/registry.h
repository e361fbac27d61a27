// Drivers by name. main adds the ones this build has; nothing registers itself.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "controller/drivers/driver.h"

namespace orrery::drivers {

class Registry {
 public:
  using Factory = std::function<Result<std::unique_ptr<Driver>>()>;

  // A name given twice is a mistake of the program and aborts.
  void add(std::string name, Factory factory);
  // kInvalidArgument for an unknown name, with the known ones; else what the factory returns.
  Result<std::unique_ptr<Driver>> make(std::string_view name) const;

 private:
  std::map<std::string, Factory, std::less<>> factories_;
};

}  // namespace orrery::drivers
