// A controller that is none: answers orreryctl's questions with what the test gave it, on an ipc socket in a scratch
// directory.
//
// Owns a thread from create to destruction. Set the answers before asking, or through answer_with(), which locks.
#pragma once

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/msg/control_messages.h"
#include "common/msg/socket.h"
#include "tests/fakes/scratch_directory.h"

namespace orrery::test {

class FakeControlSocket {
 public:
  FakeControlSocket() : socket_(bind_socket()), thread_([this] { run(); }) {}
  ~FakeControlSocket() {
    stopping_ = true;
    thread_.join();
  }
  FakeControlSocket(const FakeControlSocket&) = delete;
  FakeControlSocket& operator=(const FakeControlSocket&) = delete;

  std::string endpoint() const { return directory_.ipc("control.sock"); }

  void answer_with(msg::Request::Kind kind, msg::Response response) {
    const std::lock_guard lock(mutex_);
    frames_[kind] = msg::encode(response).value();
  }
  // Whatever is asked, exactly these bytes come back.
  void answer_with_bytes(std::string bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ = std::move(bytes);
  }
  // Takes questions and never answers them.
  void fall_silent() { silent_ = true; }
  std::vector<msg::Request> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  msg::Socket bind_socket() {
    auto socket = msg::Socket::bind(context_, msg::SocketKind::kReply, "fake", endpoint());
    if (!socket) std::abort();
    return std::move(*socket);
  }

  void run() {
    msg::Socket* const sockets[] = {&socket_};
    while (!stopping_) {
      if (const auto readable = msg::wait_readable(sockets, 10); !readable || *readable == 0) continue;
      const auto message = socket_.receive();
      if (!message || !*message || silent_) continue;
      (void)!socket_.send(answer((*message)->body)).has_value();
    }
  }

  std::string answer(const std::string& question) {
    const std::lock_guard lock(mutex_);
    const auto request = msg::decode_request(question);
    if (request) asked_.push_back(*request);
    if (!bytes_.empty()) return bytes_;
    const auto frame = request ? frames_.find(request->kind) : frames_.end();
    if (frame != frames_.end()) return frame->second;
    return msg::encode(msg::Response(msg::RequestError{"the fake has no answer to this; set one in the test"})).value();
  }

  ScratchDirectory directory_;
  msg::Context context_;
  mutable std::mutex mutex_;
  std::map<msg::Request::Kind, std::string> frames_;
  std::string bytes_;
  std::vector<msg::Request> asked_;
  std::atomic<bool> silent_ = false;
  std::atomic<bool> stopping_ = false;
  msg::Socket socket_;
  std::thread thread_;
};

}  // namespace orrery::test
