// orrery-switch: see docs/reference/switch.md.
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <cstdarg>
#include <cstdio>

#include "common/base/log.h"
#include "controller/drivers/ebpf/switch_daemon.h"

namespace {

// libbpf's own words explain a refused program; they are for `log.level: debug`.
int log_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG || !spdlog::should_log(spdlog::level::debug)) return 0;
  char text[4096];
  std::vsnprintf(text, sizeof(text), format, arguments);
  spdlog::debug("libbpf: {}", text);
  return 0;
}

}  // namespace

int main(int argc, char** argv, char** envp) {
  using namespace orrery;
  drivers::ebpf::SwitchConfig config;
  if (const auto code = drivers::ebpf::load_switch_config(config, argc, argv, envp)) return *code;
  if (const auto logging = set_up_logging("orrery-switch", config.log_level); !logging) {
    fmt::print(stderr, "orrery-switch: {}\n", logging.error().message);
    return 2;
  }
  libbpf_set_print(log_libbpf);
  auto daemon = drivers::ebpf::SwitchDaemon::start(config);
  if (!daemon) {
    spdlog::error("{}", daemon.error().message);
    return 1;
  }
  fmt::print("READY orrery-switch {} ports={} up={}\n", config.name, (*daemon)->port_count(), (*daemon)->ports_up());
  std::fflush(stdout);
  sd_notify(0, "READY=1");
  const auto status = (*daemon)->run();
  sd_notify(0, "STOPPING=1");
  if (status) return 0;
  spdlog::error("{}", status.error().message);
  return 1;
}
