// Transport over TCP: per stream, SharedSettings::sockets non-blocking connections between which every transfer is
// divided. Level-triggered poll only; nothing spins. A send that is refused although the socket is writable (an
// interposer may answer EAGAIN to hold a burst back) is tried again after kHeldRetry.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "tools/lab/hostnccl/bootstrap.h"
#include "tools/lab/hostnccl/socket.h"
#include "tools/lab/hostnccl/transport.h"

namespace orrery::hostnccl {

class TcpStream;

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, PeerTable table, UniqueFd listener, std::chrono::seconds peer_timeout);
  ~TcpTransport() override;

  Stream& sender(const StreamKey& key) override;
  Stream& receiver(const StreamKey& key) override;
  Result<size_t> step(std::vector<pollfd>& extra, std::chrono::nanoseconds max_wait) override;
  std::optional<int> lost_peer() const override;

 private:
  // First bytes on every connection.
  struct Hello {
    uint32_t magic = 0;
    uint16_t kind = 0;
    uint16_t channel = 0;
    uint64_t communicator_id = 0;
    uint32_t from_rank = 0;
    uint32_t lane = 0;
  };
  static_assert(sizeof(Hello) == 24);
  struct Incoming {
    UniqueFd fd;
    Hello hello;
    size_t have = 0;
  };
  friend class TcpStream;

  TcpStream& open(std::map<StreamKey, std::unique_ptr<TcpStream>>& streams, const StreamKey& key, bool sends);
  void accept_all();
  // Returns false when the connection is settled (bound to a stream or dropped).
  bool read_hello(Incoming& incoming);

  const int rank_;
  const PeerTable table_;
  const UniqueFd listener_;
  const std::chrono::seconds peer_timeout_;
  std::map<StreamKey, std::unique_ptr<TcpStream>> senders_;
  std::map<StreamKey, std::unique_ptr<TcpStream>> receivers_;
  std::vector<Incoming> incoming_;
  std::vector<pollfd> poll_fds_;
};

}  // namespace orrery::hostnccl
