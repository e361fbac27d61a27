#include "common/base/result.h"

#include <system_error>

namespace orrery {

Error system_error(std::string what, int error_number) {
  return {ErrorCode::kSystem, std::move(what) + ": " + std::system_category().message(error_number)};
}

}  // namespace orrery
