// What linuxptp's ptp4l says of the host's clock, asked over its management socket (IEEE 1588-2008 clause 15: GET
// TIME_STATUS_NP, linuxptp's own, and GET PORT_DATA_SET, both big-endian). Datagrams on a Unix socket; nothing blocks.
//
// Synchronized means: ptp4l answered in the last kPatienceNs, and the host is the grandmaster or follows one with an
// offset within the bound.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/msg/intent_messages.h"

namespace orrery::collect {

// What one answer says; fields of the other kind of answer keep their values.
struct PtpStatus {
  int64_t offset_ns = 0;
  bool has_grandmaster = false;
  uint8_t port_state = 0;  // kPtpMaster, kPtpSlave, ...
};

inline constexpr uint8_t kPtpMaster = 6;
inline constexpr uint8_t kPtpSlave = 9;
inline constexpr uint16_t kPtpTimeStatusNp = 0xC000;
inline constexpr uint16_t kPtpPortDataSet = 0x2004;

// The request for `management_id`, as it goes over the socket.
std::string ptp_request(uint16_t management_id, uint16_t sequence, uint8_t domain);
// Updates `status`; false when the bytes are no answer to one of the two requests (then `status` is unchanged).
bool read_ptp_answer(std::span<const uint8_t> message, PtpStatus& status);

class PtpClock {
 public:
  static constexpr uint64_t kPatienceNs = 3'500'000'000;

  // Errors: kSystem, kInvalidArgument (the path). ptp4l need not run yet.
  static Result<PtpClock> create(const std::string& socket_path, uint8_t domain, uint64_t bound_ns);

  int fd() const { return socket_.get(); }
  // Sends the requests; ptp4l not being there is no error but the absence of an answer.
  void ask();
  void read_answers(uint64_t now_ns);
  msg::ClockState state(uint64_t now_ns) const;

 private:
  PtpClock(UniqueFd socket, std::string path, uint8_t domain, uint64_t bound_ns);

  UniqueFd socket_;
  std::string path_;
  uint8_t domain_;
  uint64_t bound_ns_;
  PtpStatus status_;
  uint64_t answered_ns_ = 0;  // 0: never
  uint16_t sequence_ = 0;
};

}  // namespace orrery::collect
