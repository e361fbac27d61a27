#include "tools/lab/hostnccl/diagnostics.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace orrery::hostnccl {
namespace {

struct Diagnostics {
  DebugLevel level = DebugLevel::kNone;
  bool collectives = false;
  std::string host;
  std::FILE* out = stdout;
  std::mutex mutex;
  std::string last_error;
};

DebugLevel parse_level(const char* text) {
  if (!text) return DebugLevel::kNone;
  if (strcasecmp(text, "VERSION") == 0) return DebugLevel::kVersion;
  if (strcasecmp(text, "WARN") == 0) return DebugLevel::kWarn;
  if (strcasecmp(text, "INFO") == 0 || strcasecmp(text, "TRACE") == 0) return DebugLevel::kInfo;
  return DebugLevel::kNone;
}

Diagnostics* create() {
  auto* made = new Diagnostics;
  made->level = parse_level(std::getenv("NCCL_DEBUG"));
  const char* subsystems = std::getenv("NCCL_DEBUG_SUBSYS");
  made->collectives = made->level == DebugLevel::kInfo && subsystems &&
                      (std::strstr(subsystems, "COLL") || std::strstr(subsystems, "ALL"));
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  made->host = host;
  if (const char* path = std::getenv("NCCL_DEBUG_FILE")) {
    if (std::FILE* file = std::fopen(path, "a")) made->out = file;
  }
  return made;
}

// Never destroyed: detached threads may still report while the process exits.
Diagnostics& diagnostics() {
  static Diagnostics* const instance = create();
  return *instance;
}

void print(const char* level, int device, const std::string& text) {
  auto& state = diagnostics();
  std::lock_guard lock(state.mutex);
  std::fprintf(state.out, "%s:%d:%ld [%d] NCCL %s %s\n", state.host.c_str(), static_cast<int>(getpid()),
               syscall(SYS_gettid), device, level, text.c_str());
  std::fflush(state.out);
}

}  // namespace

DebugLevel debug_level() {
  return diagnostics().level;
}
bool logs_collectives() {
  return diagnostics().collectives;
}

void log_version() {
  if (debug_level() == DebugLevel::kNone) return;
  auto& state = diagnostics();
  std::lock_guard lock(state.mutex);
  std::fprintf(state.out, "NCCL version %d.%d.%d+hostnccl\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  std::fflush(state.out);
}

void log_info(int device, const std::string& text) {
  if (debug_level() >= DebugLevel::kInfo) print("INFO", device, text);
}
void log_warning(int device, const std::string& text) {
  if (debug_level() >= DebugLevel::kWarn) print("WARN", device, text);
}

ncclResult_t report(ncclResult_t code, const std::string& text) {
  {
    auto& state = diagnostics();
    std::lock_guard lock(state.mutex);
    state.last_error = text;
  }
  log_warning(0, text);
  return code;
}

ncclResult_t report(const Error& error) {
  return report(result_code(error.code), error.message);
}

ncclResult_t result_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ncclInvalidArgument;
    case ErrorCode::kRefused:
      return ncclInvalidUsage;
    case ErrorCode::kUnavailable:
      return ncclRemoteError;
    case ErrorCode::kCorrupt:
      return ncclInternalError;
    default:
      return ncclSystemError;
  }
}

std::string last_error() {
  auto& state = diagnostics();
  std::lock_guard lock(state.mutex);
  return state.last_error;
}

const char* describe(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    default:
      return "unknown result code";
  }
}

}  // namespace orrery::hostnccl
