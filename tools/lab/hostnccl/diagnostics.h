// What the library tells its user: NCCL_DEBUG lines and the text behind ncclGetLastError. Process-wide, because NCCL's
// C interface reports errors without a context; safe from every thread.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::hostnccl {

enum class DebugLevel { kNone, kVersion, kWarn, kInfo };

// NCCL_DEBUG, read once.
DebugLevel debug_level();
// True when NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS asks for one line per collective.
bool logs_collectives();
void log_version();
void log_info(int device, const std::string& text);
void log_warning(int device, const std::string& text);

// Remembers `text` for last_error() and prints it at NCCL_DEBUG=WARN. Returns `code`, so that callers can return in one
// line.
ncclResult_t report(ncclResult_t code, const std::string& text);
ncclResult_t report(const Error& error);
ncclResult_t result_code(ErrorCode code);
std::string last_error();
const char* describe(ncclResult_t result);

}  // namespace orrery::hostnccl
