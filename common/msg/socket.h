// ZeroMQ sockets with the settings every part of Orrery wants: nothing blocks, queues are bounded, lost peers are
// noticed, a closing program does not linger. One message is one Cap'n Proto frame; PUB puts a topic frame before it,
// ROUTER the peer's identity.
//
// A Socket belongs to one thread. A Context outlives its sockets and may be shared by threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "common/base/result.h"
#include "common/msg/endpoint.h"
#include "common/msg/security.h"

namespace orrery::msg {

class Context {
 public:
  explicit Context(int io_threads = 1) : context_(io_threads) {}
  zmq::context_t& raw() { return context_; }

 private:
  zmq::context_t context_;
};

enum class SocketKind { kPublish, kSubscribe, kRouter, kDealer, kRequest, kReply };

struct SocketOptions {
  int send_queue = 1000;  // messages per peer; a full queue makes send() fail or, for PUB, drop
  int receive_queue = 1000;
  int64_t max_message_bytes = 4 << 20;  // a peer that sends more is disconnected
  std::string topic;                    // SUB: subscribed prefix
  Security security;
};

struct Message {
  std::string peer;   // ROUTER: whom it came from, opaque
  std::string topic;  // SUB
  std::string body;
};

class Socket {
 public:
  // `key` names the setting the endpoint came from, for errors. A stale ipc socket file is replaced; a missing parent
  // directory is an error.
  static Result<Socket> bind(Context& context, SocketKind kind, std::string_view key, std::string_view endpoint,
                             const SocketOptions& options = {});
  static Result<Socket> connect(Context& context, SocketKind kind, std::string_view key, std::string_view endpoint,
                                const SocketOptions& options = {});

  // Never blocks. Errors: kUnavailable, no peer or its queue is full (for ROUTER: that peer is gone).
  Status send(std::string_view body) { return send_parts({}, body); }
  Status publish(std::string_view topic, std::string_view body) { return send_parts(topic, body); }
  Status send_to(std::string_view peer, std::string_view body) { return send_parts(peer, body); }

  // Never blocks; nothing when no message waits. kCorrupt: a message had the wrong number of frames and was discarded,
  // `peer` in the text is left out because it is opaque; the next call goes on with the next message.
  Result<std::optional<Message>> receive();

  // Becomes readable when receive() may have something; level and edge rules of ZMQ_FD apply: drain with receive()
  // after each wake-up.
  int fd() const;
  zmq::socket_t& raw() { return socket_; }

 private:
  Socket(SocketKind kind, zmq::socket_t socket) : kind_(kind), socket_(std::move(socket)) {}
  static Result<Socket> create(Context& context, SocketKind kind, std::string_view key, const Endpoint& endpoint,
                               const SocketOptions& options, bool server);
  Status send_parts(std::optional<std::string_view> head, std::string_view body);

  SocketKind kind_;
  zmq::socket_t socket_;
};

// Waits until one of `sockets` has a message or `timeout_ms` passed; `readable` gets a bit per socket. Interrupted by a
// signal: no bits.
Result<uint64_t> wait_readable(std::span<Socket* const> sockets, int timeout_ms);

// One question, one answer, on a socket of its own. Errors: kUnavailable, no answer within `timeout_ms`, with what to
// look at.
Result<std::string> ask(Context& context, std::string_view key, std::string_view endpoint, const Security& security,
                        std::string_view body, int timeout_ms);

}  // namespace orrery::msg
