#include "controller/daemon/waveforms_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/unique_fd.h"

namespace orrery::daemon {
namespace {

constexpr const char* kCure = "write it again with orrery-sim run --waveforms";

Error refuse(const std::string& path, ErrorCode code, const std::string& what) {
  return {code, fmt::format("forecast.waveforms_file: {}: {}", path, what)};
}

Result<std::string> read(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0)
    return refuse(path, errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kSystem,
                  system_error(fmt::format("cannot be read, {} or leave the setting empty", kCure), errno).message);
  if (!S_ISREG(status.st_mode))
    return refuse(path, ErrorCode::kInvalidArgument,
                  "is no plain file; name the one that orrery-sim run --waveforms wrote");
  if (static_cast<uint64_t>(status.st_size) > msg::kMaxWaveformsBytes)
    return refuse(
        path, ErrorCode::kInvalidArgument,
        fmt::format("has {} bytes, more than the {} that are read; is it a file of orrery-sim run --waveforms?",
                    status.st_size, msg::kMaxWaveformsBytes));
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refuse(path, ErrorCode::kSystem, system_error("cannot be read", errno).message);
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

Result<NicPrediction> load_waveforms(const std::string& path, const fabric::Graph& fabric) {
  ORRERY_ASSIGN(const std::string bytes, read(path));
  const auto waveforms = msg::decode_waveforms(bytes);
  if (!waveforms && waveforms.error().code == ErrorCode::kCorrupt)
    return refuse(path, ErrorCode::kCorrupt,
                  fmt::format("damaged, cut off or no waveforms file ({}); {}", waveforms.error().message, kCure));
  if (!waveforms)
    return refuse(path, waveforms.error().code,
                  fmt::format("{}; {} of the controller's version", waveforms.error().message, kCure));
  auto prediction = NicPrediction::make(*waveforms, fabric);
  if (!prediction) return refuse(path, prediction.error().code, prediction.error().message);
  return prediction;
}

}  // namespace orrery::daemon
