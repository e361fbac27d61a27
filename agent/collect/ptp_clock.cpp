#include "agent/collect/ptp_clock.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace orrery::collect {
namespace {

constexpr size_t kHeaderBytes = 34;  // common PTP header
constexpr size_t kTlvOffset = 48;    // after targetPortIdentity, hops, action
constexpr size_t kTlvDataOffset = kTlvOffset + 6;
constexpr uint8_t kManagement = 0x0D;
constexpr uint8_t kActionResponse = 2;
constexpr uint16_t kTlvManagement = 1;
constexpr size_t kTimeStatusBytes =
    50;  // offset 8, ingress 8, rate 4, phase 4, indicator 2, phase change 12, gmPresent 4, identity 8
constexpr size_t kGmPresentOffset = 38;
constexpr size_t kPortStateOffset = 10;  // after portIdentity

void put16(std::string& message, size_t at, uint16_t value) {
  message[at] = static_cast<char>(value >> 8);
  message[at + 1] = static_cast<char>(value & 0xff);
}

template <typename T>
T get(std::span<const uint8_t> message, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = value << 8 | message[at + i];
  return static_cast<T>(value);
}

}  // namespace

std::string ptp_request(uint16_t management_id, uint16_t sequence, uint8_t domain) {
  std::string message(kTlvDataOffset, '\0');
  message[0] = kManagement;
  message[1] = 2;  // versionPTP
  put16(message, 2, static_cast<uint16_t>(message.size()));
  message[4] = static_cast<char>(domain);
  put16(message, 30, sequence);
  message[32] = 4;     // controlField: management
  message[33] = 0x7f;  // logMessageInterval
  for (size_t i = kHeaderBytes; i < kHeaderBytes + 10; ++i)
    message[i] = static_cast<char>(0xff);  // every port of every clock
  put16(message, kTlvOffset, kTlvManagement);
  put16(message, kTlvOffset + 2, 2);  // length: only the id
  put16(message, kTlvOffset + 4, management_id);
  return message;
}

bool read_ptp_answer(std::span<const uint8_t> message, PtpStatus& status) {
  if (message.size() < kTlvDataOffset || (message[0] & 0x0f) != kManagement || (message[1] & 0x0f) != 2) return false;
  if ((message[46] & 0x0f) != kActionResponse || get<uint16_t>(message, kTlvOffset) != kTlvManagement) return false;
  const std::span<const uint8_t> data = message.subspan(kTlvDataOffset);
  switch (get<uint16_t>(message, kTlvOffset + 4)) {
    case kPtpTimeStatusNp:
      if (data.size() < kTimeStatusBytes) return false;
      status.offset_ns = get<int64_t>(data, 0);
      status.has_grandmaster = get<int32_t>(data, kGmPresentOffset) != 0;
      return true;
    case kPtpPortDataSet:
      if (data.size() <= kPortStateOffset) return false;
      // Of several ports the one that follows a master counts.
      if (status.port_state != kPtpSlave || data[kPortStateOffset] == kPtpSlave)
        status.port_state = data[kPortStateOffset];
      return true;
    default:
      return false;
  }
}

Result<PtpClock> PtpClock::create(const std::string& socket_path, uint8_t domain, uint64_t bound_ns) {
  if (socket_path.empty() || socket_path.size() >= sizeof(sockaddr_un::sun_path))
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("clock.socket_path '{}' cannot be a socket's path", socket_path)};
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_error("cannot make the socket to ptp4l", errno);
  // An address of the kernel's choice, which ptp4l answers to.
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(sa_family_t)) != 0)
    return system_error("cannot bind the socket to ptp4l", errno);
  return PtpClock(std::move(socket), socket_path, domain, bound_ns);
}

PtpClock::PtpClock(UniqueFd socket, std::string path, uint8_t domain, uint64_t bound_ns)
    : socket_(std::move(socket)), path_(std::move(path)), domain_(domain), bound_ns_(bound_ns) {}

void PtpClock::ask() {
  sockaddr_un peer{};
  peer.sun_family = AF_UNIX;
  std::memcpy(peer.sun_path, path_.c_str(), path_.size() + 1);
  status_.port_state = 0;
  for (const uint16_t id : {kPtpTimeStatusNp, kPtpPortDataSet}) {
    const std::string request = ptp_request(id, ++sequence_, domain_);
    (void)!sendto(socket_.get(), request.data(), request.size(), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&peer),
                  sizeof peer);
  }
}

void PtpClock::read_answers(uint64_t now_ns) {
  std::array<uint8_t, 1500> message;
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT);
    if (got < 0) return;
    if (read_ptp_answer(std::span(message).first(static_cast<size_t>(got)), status_)) answered_ns_ = now_ns;
  }
}

msg::ClockState PtpClock::state(uint64_t now_ns) const {
  msg::ClockState state;
  state.source = "ptp4l";
  state.bound_ns = bound_ns_;
  state.offset_ns = status_.offset_ns;
  const auto offset = static_cast<uint64_t>(status_.offset_ns);
  const uint64_t distance_ns = status_.offset_ns < 0 ? 0 - offset : offset;
  const bool answers = answered_ns_ != 0 && now_ns - answered_ns_ < kPatienceNs;
  const bool leads = status_.port_state == kPtpMaster && !status_.has_grandmaster;
  const bool follows = status_.has_grandmaster && distance_ns <= bound_ns_;
  state.synchronized = answers && (leads || follows);
  return state;
}

}  // namespace orrery::collect
