// Sizes, rates and ratios as people write them, for every command line.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace orrery::ctl {

// "400G", "125M", "64Mi", "1500": k, M, G and T are powers of 1000, Ki, Mi and Gi of 1024.
Result<uint64_t> parse_quantity(const std::string& text);
// "4:1", "1.5:1" or "4": what the first number is to the second; at least 1.
Result<double> parse_ratio(const std::string& text);

}  // namespace orrery::ctl
