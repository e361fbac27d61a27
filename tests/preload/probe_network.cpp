#include "tests/preload/probe_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "tests/preload/probe_syscalls.h"

namespace orrery::probe {
namespace {

constexpr uint16_t kPort = 5000;
constexpr size_t kMegabyte = 1 << 20;

[[noreturn]] void give_up(const char* what) {
  std::printf("failed: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    if (write(fd, text.data(), text.size()) < 0) std::perror(path);
    close(fd);
  }
}

sockaddr_in v4(const char* address, uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  inet_pton(AF_INET, address, &name.sin_addr);
  name.sin_port = htons(port);
  return name;
}

int listen_at(const char* address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in name = v4(address, kPort);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 || listen(fd, 512) != 0) give_up("listen");
  return fd;
}

uint16_t local_port(int fd) {
  sockaddr_in6 name{};
  socklen_t bytes = sizeof(name);
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes);
  return ntohs(name.sin6_port);  // the same place as sin_port
}

int connect_v6() {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(kPort);
  inet_pton(AF_INET6, "::ffff:10.77.0.2", &name.sin6_addr);
  if (connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) give_up("connect v6");
  return fd;
}

void bind_to(int fd, const char* address, uint16_t port) {
  const int one = 1;
  if (port == 0) setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
  const sockaddr_in own = v4(address, port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) give_up("bind");
}

int connect_one(const std::string& how, int number) {
  if (how == "v6") return connect_v6();
  const int fd = socket(AF_INET, how == "udp" ? SOCK_DGRAM : SOCK_STREAM, 0);
  if (how == "bound") bind_to(fd, "10.77.0.1", static_cast<uint16_t>(45000 + number));
  if (how == "address") bind_to(fd, "10.77.0.1", 0);
  const int one = 1;
  if (how == "old-kernel-again") setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (how == "nonblocking") fcntl(fd, F_SETFL, O_NONBLOCK);
  const sockaddr_in name = v4(how == "loopback" ? "127.0.0.1" : "10.77.0.2", kPort);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 && errno != EINPROGRESS)
    give_up("connect");
  return fd;
}

void check(bool good, const char* what) {
  if (!good) give_up(what);
}

// Two messages in one call.
ssize_t send_messages(int fd, const iovec& part) {
  iovec halves[2] = {{part.iov_base, part.iov_len / 2},
                     {static_cast<char*>(part.iov_base) + part.iov_len / 2, part.iov_len - part.iov_len / 2}};
  mmsghdr messages[2] = {};
  for (int i = 0; i < 2; ++i) messages[i].msg_hdr.msg_iov = &halves[i], messages[i].msg_hdr.msg_iovlen = 1;
  const int sent = sendmmsg(fd, messages, 2, 0);
  check(sent > 0, "sendmmsg");
  return messages[0].msg_len + (sent == 2 ? messages[1].msg_len : 0);
}

ssize_t receive_messages(int fd, iovec part) {
  mmsghdr message{};
  message.msg_hdr.msg_iov = &part;
  message.msg_hdr.msg_iovlen = 1;
  check(recvmmsg(fd, &message, 1, 0, nullptr) == 1, "recvmmsg");
  return message.msg_len;
}

struct Pipe {
  Pipe() { check(pipe(ends) == 0, "pipe"); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2];
};

ssize_t send_by_splice(int fd, const iovec& part) {
  const Pipe pipe;
  const ssize_t ready = write(pipe.ends[1], part.iov_base, std::min<size_t>(part.iov_len, 4096));
  check(ready > 0, "write");
  return splice(pipe.ends[0], nullptr, fd, nullptr, static_cast<size_t>(ready), 0);
}

ssize_t receive_by_splice(int fd, const iovec& part) {
  const Pipe pipe;
  const ssize_t moved = splice(fd, nullptr, pipe.ends[1], nullptr, std::min<size_t>(part.iov_len, 4096), 0);
  return moved <= 0 ? moved : read(pipe.ends[0], part.iov_base, static_cast<size_t>(moved));
}

ssize_t send_file(int fd, const iovec& part) {
  const int file = memfd_create("part", 0);
  check(write(file, part.iov_base, part.iov_len) == static_cast<ssize_t>(part.iov_len), "memfd");
  off_t offset = 0;
  const ssize_t sent = sendfile(fd, file, &offset, part.iov_len);
  close(file);
  return sent;
}

// Reads `bytes` in every way there is, in turn.
void receive_all(int fd, size_t bytes, char expected) {
  std::vector<char> buffer(65536);
  for (int turn = 0; bytes > 0; ++turn) {
    const size_t want = std::min(bytes, buffer.size());
    ssize_t got = 0;
    iovec part{buffer.data(), want};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    switch (turn % 7) {
      case 0:
        got = read(fd, buffer.data(), want);
        break;
      case 1:
        got = recv(fd, buffer.data(), want, 0);
        break;
      case 2:
        got = recvfrom(fd, buffer.data(), want, 0, nullptr, nullptr);
        break;
      case 3:
        got = readv(fd, &part, 1);
        break;
      case 4:
        got = receive_messages(fd, part);
        break;
      case 5:
        got = receive_by_splice(fd, part);
        break;
      default:
        got = recvmsg(fd, &message, 0);
        break;
    }
    check(got > 0, "receive");
    for (ssize_t i = 0; i < got; ++i) check(buffer[static_cast<size_t>(i)] == expected, "data");
    bytes -= static_cast<size_t>(got);
  }
}

void send_all(int fd, size_t bytes, char value) {
  std::vector<char> buffer(65536, value);
  for (int turn = 0; bytes > 0; ++turn) {
    const size_t want = std::min(bytes, buffer.size());
    ssize_t sent = 0;
    iovec part{buffer.data(), want};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    switch (turn % 8) {
      case 0:
        sent = write(fd, buffer.data(), want);
        break;
      case 1:
        sent = send(fd, buffer.data(), want, MSG_NOSIGNAL);
        break;
      case 2:
        sent = sendto(fd, buffer.data(), want, 0, nullptr, 0);
        break;
      case 3:
        sent = writev(fd, &part, 1);
        break;
      case 4:
        sent = send_messages(fd, part);
        break;
      case 5:
        sent = send_by_splice(fd, part);
        break;
      case 6:
        sent = send_file(fd, part);
        break;
      default:
        sent = sendmsg(fd, &message, 0);
        break;
    }
    check(sent > 0, "send");
    bytes -= static_cast<size_t>(sent);
  }
}

long now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}
long first_send_ms = 0;  // when the first send that may be held had its answer

// send(), and when the first of them was answered.
ssize_t try_send(int fd, const void* data, size_t bytes, int flags) {
  const ssize_t sent = send(fd, data, bytes, flags);
  const int error = errno;
  if (first_send_ms == 0) first_send_ms = now_ms();
  errno = error;
  return sent;
}

// An ordinary event loop: writes when epoll says so.
long send_by_events(int fd, size_t bytes, char value) {
  const int epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLOUT;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  std::vector<char> buffer(65536, value);
  long refusals = 0;
  while (bytes > 0) {
    check(epoll_wait(epoll, &event, 1, 10'000) == 1, "epoll_wait");
    const ssize_t sent = try_send(fd, buffer.data(), std::min(bytes, buffer.size()), 0);
    check(sent > 0 || errno == EAGAIN, "send");
    refusals += sent < 0;
    if (sent > 0) bytes -= static_cast<size_t>(sent);
  }
  close(epoll);
  return refusals;
}

long send_byte(int fd, int flags) {
  long refusals = 0;
  while (try_send(fd, "x", 1, flags) != 1) {
    check(errno == EAGAIN, "send");
    ++refusals;
  }
  return refusals;
}

}  // namespace

void enter_network() {
  const std::string uid = "0 " + std::to_string(getuid()) + " 1";
  if (unshare(getuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    std::printf("no namespaces here\n");
    std::exit(77);
  }
  if (getuid() != 0) write_file("/proc/self/uid_map", uid);
  const char* set_up =
      "ip link set lo up && ip addr add 10.77.0.1/32 dev lo && ip addr add 10.77.0.2/32 dev lo && "
      "ip route replace local 10.77.0.2 dev lo table local src 10.77.0.1";
  if (std::system(set_up) != 0) {
    std::printf("no ip command here\n");
    std::exit(77);
  }
}

Pair connected_pair() {
  const int listener = listen_at("10.77.0.2");
  const int client = connect_one("plain", 0);
  const int server = accept(listener, nullptr, nullptr);
  if (server < 0) give_up("accept");
  close(listener);
  return {client, server};
}

void connect_many(int count, const std::string& how) {
  enter_network();
  if (how.starts_with("old-kernel")) refuse_port_range();
  const int listener = how == "udp" ? -1 : listen_at(how == "loopback" ? "127.0.0.1" : "10.77.0.2");
  std::vector<int> open;
  for (int i = 0; i < count; ++i) {
    open.push_back(connect_one(how, i));
    std::printf("port %d\n", local_port(open.back()));
    int tos = 0;
    socklen_t bytes = sizeof(tos);
    if (how == "dscp" && getsockopt(open.back(), IPPROTO_IP, IP_TOS, &tos, &bytes) == 0) std::printf("tos %d\n", tos);
    uint64_t pace = 0;
    bytes = sizeof(pace);
    if (how == "dscp" && getsockopt(open.back(), SOL_SOCKET, SO_MAX_PACING_RATE, &pace, &bytes) == 0)
      std::printf("pace %ld\n", static_cast<long>(pace));
    if (listener >= 0) open.push_back(accept(listener, nullptr, nullptr));
    check(open.back() >= 0, "accept");
    // The end that closes first keeps the port for a minute.
    for (; how == "old-kernel-again" && !open.empty(); open.erase(open.begin())) close(open.front());
  }
  std::printf("all open\n");
  std::fflush(stdout);
  char end;
  if (read(STDIN_FILENO, &end, 1) < 0) give_up("stdin");
}

void transfer(void* comm, void (*collective)(void*)) {
  enter_network();
  collective(comm);
  const Pair pair = connected_pair();
  const int second = dup(pair.client);
  close(pair.client);
  std::thread receiver([&] { receive_all(pair.server, kMegabyte, 'a'); });
  send_all(second, kMegabyte, 'a');
  receiver.join();
  std::thread back([&] { receive_all(second, kMegabyte, 'b'); });
  send_all(pair.server, kMegabyte, 'b');
  back.join();
  char byte = 0;
  check(recv(second, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "empty");
  std::printf("moved %zu\n", 2 * kMegabyte);
  std::fflush(stdout);
  check(read(STDIN_FILENO, &byte, 1) >= 0, "stdin");
  shutdown(second, SHUT_RDWR);
  check(recv(pair.server, &byte, 1, 0) == 0, "end of stream");
  close(second);
  close(pair.server);
}

void hold(void* comm, void (*collective)(void*), const std::string& how) {
  enter_network();
  const Pair pair = connected_pair();
  const int sender = how == "accepted" ? pair.server : pair.client;
  const int receiver = how == "accepted" ? pair.client : pair.server;
  const bool blocking = how == "blocking" || how == "dontwait";
  if (!blocking) fcntl(sender, F_SETFL, O_NONBLOCK);
  const int epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLET;
  if (how == "edge") check(epoll_ctl(epoll, EPOLL_CTL_ADD, sender, &event) == 0, "epoll_ctl");
  if (how == "edge-of-copy") check(epoll_ctl(epoll, EPOLL_CTL_ADD, dup(sender), &event) == 0, "epoll_ctl");
  if (how == "edge-of-fcntl-copy")
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fcntl(sender, F_DUPFD_CLOEXEC, 100), &event) == 0, "epoll_ctl");
  // Where no library sees it, as fclose does.
  if (how == "taken-over") check(syscall(SYS_dup2, eventfd(0, EFD_NONBLOCK), sender) == sender, "eventfd");
  const long start_ms = now_ms();
  collective(comm);
  long refusals = 0;
  if (how == "level") {
    std::thread reader([&] { receive_all(receiver, kMegabyte, 'x'); });
    refusals = send_by_events(sender, kMegabyte, 'x');
    reader.join();
  } else if (how == "taken-over") {
    const uint64_t one = 1;
    refusals = write(sender, &one, sizeof(one)) != sizeof(one);
  } else if (how == "two-bursts") {
    check(send_byte(sender, 0) > 0, "not held at all");
    usleep(20'000);
    refusals = send_byte(sender, 0);
  } else {
    refusals = send_byte(sender, how == "dontwait" ? MSG_DONTWAIT : 0);
    receive_all(receiver, 1, 'x');
  }
  std::printf("eagain %ld\nfirst %ld\nsent ok\n", refusals, first_send_ms - start_ms);
  std::fflush(stdout);
  char end;
  check(read(STDIN_FILENO, &end, 1) >= 0, "stdin");
}

void pace() {
  enter_network();
  const Pair pair = connected_pair();
  const auto print_pace = [&] {
    uint64_t rate = 0;
    socklen_t bytes = sizeof(rate);
    check(getsockopt(pair.client, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &bytes) == 0, "pace");
    std::printf("pace %ld\n", static_cast<long>(rate));
    std::fflush(stdout);
  };
  print_pace();
  char line;
  check(read(STDIN_FILENO, &line, 1) == 1, "stdin");
  send_all(pair.client, 1, 'p');
  print_pace();
}

void vfork_closes() {
  enter_network();
  const Pair pair = connected_pair();
  const pid_t child = vfork();
  if (child == 0) {
    close(pair.client);
    close(pair.server);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  send_all(pair.client, 1000, 'v');
  receive_all(pair.server, 1000, 'v');
  std::printf("moved 1000\n");
  std::fflush(stdout);
  char end;
  check(read(STDIN_FILENO, &end, 1) >= 0, "stdin");
}

void connect_badly() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  auto* page = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(page + 4096, 4096, PROT_NONE);
  const auto attempt = [&](const char* address, socklen_t bytes) {
    const int result = connect(fd, reinterpret_cast<const sockaddr*>(address), bytes);
    std::printf("connect %d %s\n", result, result < 0 ? std::strerror(errno) : "");
  };
  // Wholly, and in its second half, beyond what can be read.
  for (const char* address : std::initializer_list<const char*>{nullptr, page + 4096, page + 4088, page + 4080})
    attempt(address, sizeof(sockaddr_in));
  for (socklen_t bytes : {0u, 1u, 2u, 7u, 200u}) attempt(page, bytes);
}

void close_from() {
  enter_network();
  const Pair pair = connected_pair();
  const int first = std::min(pair.client, pair.server);
  closefrom(first);
  std::printf("closed %d\n", fcntl(pair.client, F_GETFD) < 0 && fcntl(pair.server, F_GETFD) < 0);
  std::fflush(stdout);
  char end;
  check(read(STDIN_FILENO, &end, 1) >= 0, "stdin");
}

void count_send_syscalls() {
  enter_network();
  const Pair pair = connected_pair();
  send_all(pair.client, 1, 's');
  receive_all(pair.server, 1, 's');
  trap_all_but_transfers();
  for (int i = 0; i < 10'000; ++i) {
    char byte = 's';
    if (send(pair.client, &byte, 1, 0) != 1 || recv(pair.server, &byte, 1, 0) != 1) leave(1);
  }
  print_raw("syscalls ", trapped_syscalls());
  leave(0);
}

void connect_when_told() {
  enter_network();
  const int listener = listen_at("10.77.0.2");
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    const int fd = connect_one("plain", 0);
    check(accept(listener, nullptr, nullptr) >= 0, "accept");
    std::printf("%d port %d\n", number, local_port(fd));
    std::fflush(stdout);
  }
}

}  // namespace orrery::probe
