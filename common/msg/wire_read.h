// Checks shared by the message decoders: every value from the wire passes one of these or a range check of its own.
#pragma once

#include <capnp/blob.h>
#include <capnp/list.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/msg/queue_pair.h"
#include "schemas/common.capnp.h"

namespace orrery::msg {

inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxTextBytes = 4096;
inline constexpr size_t kMaxItems = 65536;  // of any list of structs
inline constexpr size_t kMaxPathLinks = 16;
inline constexpr size_t kMaxSmallList = 256;  // ports, addresses, features, alternatives
inline constexpr uint64_t kMaxLeaseNs = 60'000'000'000;

inline Error corrupt(std::string_view field, std::string_view what) {
  return {ErrorCode::kCorrupt, fmt::format("{} {}", field, what)};
}

// A name of a host, switch, port, feature: printable ASCII without blanks, 1..kMaxNameBytes; or "" where `optional`.
Result<std::string> read_name(std::string_view field, capnp::Text::Reader text, bool optional = false);
// Text for people: cut at kMaxTextBytes, bytes that are neither printable ASCII nor valid UTF-8 become '?'.
std::string read_text(capnp::Text::Reader text);
Result<std::vector<std::string>> read_names(std::string_view field, capnp::List<capnp::Text>::Reader list,
                                            size_t limit);
Result<std::vector<std::string>> read_texts(std::string_view field, capnp::List<capnp::Text>::Reader list,
                                            size_t limit);
// 16 bytes; or none where `optional` (gives "::").
Result<IpAddress> read_address(std::string_view field, capnp::Data::Reader data, bool optional = false);
Result<FiveTuple> read_tuple(std::string_view field, wire::FiveTuple::Reader tuple, bool optional = false);
QueuePair read_queue_pair(wire::QueuePair::Reader in);
void write_queue_pair(wire::QueuePair::Builder out, const QueuePair& in);
Status check_count(std::string_view field, size_t count, size_t limit);

capnp::Data::Reader data_of(const IpAddress& address);
Result<std::vector<uint32_t>> read_numbers(std::string_view field, capnp::List<uint32_t>::Reader list, size_t limit);

void write_tuple(wire::FiveTuple::Builder out, const FiveTuple& tuple);
void write_numbers(capnp::List<uint32_t>::Builder out, const std::vector<uint32_t>& numbers);
void write_texts(capnp::List<capnp::Text>::Builder out, const std::vector<std::string>& texts);

// Reads a list of structs with `read_one(Reader) -> Result<T>`.
template <typename T, typename List, typename ReadOne>
Result<std::vector<T>> read_list(std::string_view field, List list, size_t limit, ReadOne&& read_one) {
  ORRERY_TRY(check_count(field, list.size(), limit));
  std::vector<T> out;
  out.reserve(list.size());
  for (auto item : list) {
    ORRERY_ASSIGN(T value, read_one(item));
    out.push_back(std::move(value));
  }
  return out;
}

}  // namespace orrery::msg
