#include "common/msg/wire_read.h"

#include <netinet/in.h>

#include <algorithm>

namespace orrery::msg {
namespace {

// Length of the valid UTF-8 sequence at `text`, 0 when there is none. Control characters do not count as valid.
size_t sequence_length(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const size_t length = byte(0) >= 0xc2 && byte(0) <= 0xdf   ? 2
                        : (byte(0) & 0xf0) == 0xe0           ? 3
                        : byte(0) >= 0xf0 && byte(0) <= 0xf4 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;   // overlong
  if (byte(0) == 0xed && byte(1) >= 0xa0) return 0;  // surrogate
  if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;   // overlong
  if (byte(0) == 0xf4 && byte(1) >= 0x90) return 0;  // beyond U+10FFFF
  return length;
}

std::string_view view_of(capnp::Text::Reader text) {
  return {text.begin(), text.size()};
}

}  // namespace

Result<std::string> read_name(std::string_view field, capnp::Text::Reader text, bool optional) {
  const std::string_view name = view_of(text);
  if (name.empty() && optional) return std::string();
  if (name.empty()) return corrupt(field, "is empty");
  if (name.size() > kMaxNameBytes) return corrupt(field, fmt::format("is longer than {} bytes", kMaxNameBytes));
  if (!std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
    return corrupt(field, "has characters other than printable ASCII");
  return std::string(name);
}

std::string read_text(capnp::Text::Reader text) {
  std::string_view rest = view_of(text).substr(0, kMaxTextBytes);
  std::string out;
  out.reserve(rest.size());
  while (!rest.empty()) {
    const size_t length = sequence_length(rest);
    if (length == 0)
      out.push_back('?');
    else
      out.append(rest.substr(0, length));
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

Result<std::vector<std::string>> read_names(std::string_view field, capnp::List<capnp::Text>::Reader list,
                                            size_t limit) {
  ORRERY_TRY(check_count(field, list.size(), limit));
  std::vector<std::string> names;
  for (const auto item : list) {
    ORRERY_ASSIGN(std::string name, read_name(field, item));
    names.push_back(std::move(name));
  }
  return names;
}

Result<std::vector<std::string>> read_texts(std::string_view field, capnp::List<capnp::Text>::Reader list,
                                            size_t limit) {
  ORRERY_TRY(check_count(field, list.size(), limit));
  std::vector<std::string> texts;
  for (const auto item : list) texts.push_back(read_text(item));
  return texts;
}

Result<IpAddress> read_address(std::string_view field, capnp::Data::Reader data, bool optional) {
  if (data.size() == 0 && optional) return IpAddress();
  if (data.size() != 16) return corrupt(field, fmt::format("is an address of {} bytes, not 16", data.size()));
  return IpAddress::from_bytes(data.begin());
}

Result<FiveTuple> read_tuple(std::string_view field, wire::FiveTuple::Reader tuple, bool optional) {
  FiveTuple out;
  ORRERY_ASSIGN(out.src, read_address(field, tuple.getSrc(), optional));
  ORRERY_ASSIGN(out.dst, read_address(field, tuple.getDst(), optional));
  out.src_port = tuple.getSrcPort();
  out.dst_port = tuple.getDstPort();
  out.protocol = tuple.getProtocol();
  return out;
}

Status check_count(std::string_view field, size_t count, size_t limit) {
  if (count <= limit) return {};
  return corrupt(field, fmt::format("has {} items, more than {}", count, limit));
}

capnp::Data::Reader data_of(const IpAddress& address) {
  return {address.bytes().data(), address.bytes().size()};
}

void write_tuple(wire::FiveTuple::Builder out, const FiveTuple& tuple) {
  out.setSrc(data_of(tuple.src));
  out.setDst(data_of(tuple.dst));
  out.setSrcPort(tuple.src_port);
  out.setDstPort(tuple.dst_port);
  out.setProtocol(tuple.protocol);
}

void write_texts(capnp::List<capnp::Text>::Builder out, const std::vector<std::string>& texts) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, texts[i].c_str());
}

Result<std::vector<uint32_t>> read_numbers(std::string_view field, capnp::List<uint32_t>::Reader list, size_t limit) {
  ORRERY_TRY(check_count(field, list.size(), limit));
  std::vector<uint32_t> out;
  for (const uint32_t number : list) out.push_back(number);
  return out;
}

void write_numbers(capnp::List<uint32_t>::Builder out, const std::vector<uint32_t>& numbers) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, numbers[i]);
}

QueuePair read_queue_pair(wire::QueuePair::Reader in) {
  QueuePair out;
  out.qpn = in.getQpn();
  out.dest_qpn = in.getDestQpn();
  out.device = read_text(in.getDevice());
  out.flags = in.getFlags();
  out.traffic_class = in.getTrafficClass();
  out.flow_label = in.getFlowLabel();
  out.cycle = in.getCycle();
  out.moves = in.getMoves();
  out.posted_sends = in.getPostedSends();
  out.completed_sends = in.getCompletedSends();
  out.completion_errors = in.getCompletionErrors();
  out.failed_posts = in.getFailedPosts();
  out.deferred_sends = in.getDeferredSends();
  out.drained_early = in.getDrainedEarly();
  return out;
}

void write_queue_pair(wire::QueuePair::Builder out, const QueuePair& in) {
  out.setQpn(in.qpn);
  out.setDestQpn(in.dest_qpn);
  out.setDevice(in.device);
  out.setFlags(in.flags);
  out.setTrafficClass(in.traffic_class);
  out.setFlowLabel(in.flow_label);
  out.setCycle(in.cycle);
  out.setMoves(in.moves);
  out.setPostedSends(in.posted_sends);
  out.setCompletedSends(in.completed_sends);
  out.setCompletionErrors(in.completion_errors);
  out.setFailedPosts(in.failed_posts);
  out.setDeferredSends(in.deferred_sends);
  out.setDrainedEarly(in.drained_early);
}

}  // namespace orrery::msg
