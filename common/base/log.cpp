#include "common/base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "common/base/nearest_name.h"

namespace orrery {
namespace {

// Journal priority of RFC 5424 as systemd reads it from a "<N>" prefix.
class JournalPrefix : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    static constexpr std::array<const char*, 7> kPrefix = {"<7>", "<7>", "<6>", "<4>", "<3>", "<2>", "<7>"};
    const char* prefix = kPrefix[static_cast<size_t>(message.level)];
    out.append(prefix, prefix + 3);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JournalPrefix>(); }
};

constexpr std::array<std::string_view, 5> kLevels = {"trace", "debug", "info", "warning", "error"};

}  // namespace

Status set_up_logging(std::string_view program, std::string_view level) {
  bool known = false;
  for (std::string_view name : kLevels) known |= name == level;
  if (!known)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("unknown log level '{}'{}", level, did_you_mean(level, kLevels))};
  auto logger = spdlog::stderr_color_mt(std::string(program));
  if (isatty(STDERR_FILENO)) {
    logger->set_pattern("%H:%M:%S.%e %n %^%l%$: %v");
  } else {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JournalPrefix>('*').set_pattern("%*%n: %v");
    logger->set_formatter(std::move(formatter));
  }
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace orrery
