#include "tools/lab/hostnccl/verbs_plan.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace orrery::hostnccl {
namespace {

constexpr size_t kShareAlignment = 128;
constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_ipv4_mapped(const Gid& gid) {
  return std::memcmp(gid.data(), kMappedPrefix, sizeof kMappedPrefix) == 0;
}

}  // namespace

HcaFilter::HcaFilter(std::string_view text) {
  if (text.starts_with('^')) {
    excludes_ = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    exact_ = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    Entry entry;
    const size_t colon = item.find(':');
    if (colon != std::string_view::npos) {
      const std::string_view port = item.substr(colon + 1);
      std::from_chars(port.data(), port.data() + port.size(), entry.port);
      item = item.substr(0, colon);
    }
    entry.name = item;
    if (!entry.name.empty()) entries_.push_back(std::move(entry));
  }
}

bool HcaFilter::admits(std::string_view device, int port) const {
  if (entries_.empty()) return true;
  const bool listed = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool named = exact_ ? device == entry.name : device.starts_with(entry.name);
    return named && (entry.port < 0 || entry.port == port);
  });
  return listed != excludes_;
}

bool is_zero(const Gid& gid) {
  return std::all_of(gid.begin(), gid.end(), [](uint8_t byte) { return byte == 0; });
}

bool carries(const Gid& gid, const sockaddr_in& address) {
  return is_ipv4_mapped(gid) && std::memcmp(gid.data() + sizeof kMappedPrefix, &address.sin_addr, 4) == 0;
}

std::string to_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4_mapped(gid)) {
    ::inet_ntop(AF_INET, gid.data() + sizeof kMappedPrefix, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

std::optional<int> choose_gid(const std::vector<GidEntry>& entries, const sockaddr_in& local) {
  const auto rank = [&](const GidEntry& entry) {
    if (is_zero(entry.gid)) return 0;
    if (!entry.is_roce_v2) return 1;
    if (!is_ipv4_mapped(entry.gid)) return 2;
    return carries(entry.gid, local) ? 4 : 3;
  };
  const GidEntry* best = nullptr;
  for (const auto& entry : entries) {
    if (rank(entry) > (best ? rank(*best) : 0)) best = &entry;
  }
  return best ? std::optional(best->index) : std::nullopt;
}

Share share_of(size_t message_bytes, size_t queue_pairs, size_t index) {
  const size_t even = (message_bytes + queue_pairs - 1) / queue_pairs;
  const size_t chunk = (even + kShareAlignment - 1) / kShareAlignment * kShareAlignment;
  const size_t offset = std::min(chunk * index, message_bytes);
  return {offset, std::min(chunk, message_bytes - offset)};
}

}  // namespace orrery::hostnccl
