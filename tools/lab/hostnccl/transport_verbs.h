// Transport over RDMA verbs in NCCL's own calling pattern (docs/reference/hostnccl.md): per stream, queue pairs, a
// completion queue and a TCP control connection. The proxy thread polls all completion queues while something is under
// way, less and less eagerly (PollSettings), and sleeps in poll when nothing is.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tools/lab/hostnccl/bootstrap.h"
#include "tools/lab/hostnccl/socket.h"
#include "tools/lab/hostnccl/transport.h"
#include "tools/lab/hostnccl/verbs_receiver.h"
#include "tools/lab/hostnccl/verbs_sender.h"

namespace orrery::hostnccl {

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(int rank, PeerTable table, UniqueFd listener, const VerbsPort& port, const Settings& settings);
  ~VerbsTransport() override;

  Stream& sender(const StreamKey& key) override;
  Stream& receiver(const StreamKey& key) override;
  Result<size_t> step(std::vector<pollfd>& extra, std::chrono::nanoseconds max_wait) override;
  std::optional<int> lost_peer() const override;
  std::unique_ptr<MemoryHold> hold(const void* data, size_t bytes, bool written) override;
  void leave() override;
  void halt() override;

 private:
  VerbsReceiver& open_receiver(const StreamKey& key);
  size_t progress();
  bool needs_polling() const;
  size_t count_failures() const;
  // Waits for the sockets and `extra`. True when one of them had an event.
  Result<bool> poll_sockets(std::vector<pollfd>& extra, std::chrono::nanoseconds wait);
  void accept_all();
  // False when the connection is settled (bound to a stream or dropped).
  bool read_first_frame(ControlChannel& incoming);

  template <typename Function>
  void for_each_stream(Function function) const {
    for (const auto& [key, stream] : senders_) function(*stream);
    for (const auto& [key, stream] : receivers_) function(*stream);
  }

  const PeerTable table_;
  const UniqueFd listener_;
  VerbsContext context_;
  VerbsMemory memory_;
  std::map<StreamKey, std::unique_ptr<VerbsSender>> senders_;
  std::map<StreamKey, std::unique_ptr<VerbsReceiver>> receivers_;
  std::vector<ControlChannel> incoming_;
  std::vector<pollfd> poll_fds_;
  uint32_t steps_ = 0;   // since the sockets were last looked at
  size_t failures_ = 0;  // streams that had failed at the last step
};

}  // namespace orrery::hostnccl
