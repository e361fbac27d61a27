#include "tools/lab/hostnccl/proxy.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "tools/lab/hostnccl/diagnostics.h"
#include "tools/lab/hostnccl/stream_order.h"

namespace orrery::hostnccl {
namespace {

// A lost rank's last bytes may still be under way; only an operation that stands still for this long is given up.
constexpr auto kLostGrace = std::chrono::seconds(2);
constexpr auto kIdleWait = std::chrono::seconds(60);
constexpr auto kLostCheck = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<Proxy>> Proxy::start(Parts parts) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_error("eventfd", errno);
  std::unique_ptr<Proxy> proxy(new Proxy(std::move(parts), std::move(wake)));
  proxy->thread_ = std::thread([raw = proxy.get()] { raw->run(); });
  return proxy;
}

Proxy::Proxy(Parts parts, UniqueFd wake)
    : parts_(std::move(parts)), wake_fd_(std::move(wake)), last_progress_(Clock::now()) {
  context_ = {.rank = parts_.rank,
              .nranks = static_cast<int>(parts_.table.peers.size()),
              .shared = parts_.table.shared,
              .transport = parts_.transport.get()};
  for (uint32_t i = 0; i < context_.shared.channels; ++i)
    slots_.emplace_back(context_.shared.slice_bytes, *context_.transport);
}

Proxy::~Proxy() {
  abort();
}

void Proxy::wake() {
  (void)eventfd_write(wake_fd_.get(), 1);
}

void Proxy::enqueue(Work work) {
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    refused = failure() != ncclSuccess || stop_;
    if (!refused) {
      queue_.push_back(std::move(work));
      ++unfinished_;
    }
  }
  if (refused) {
    complete(work, failure() != ncclSuccess ? failure() : ncclInvalidUsage);
  } else {
    wake();
  }
}

ncclResult_t Proxy::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return unfinished_ == 0; });
  return failure();
}

void Proxy::finish() {
  join(true);
}
void Proxy::abort() {
  join(false);
}

void Proxy::join(bool orderly) {
  if (!thread_.joinable()) return;
  orderly_ = orderly;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
  StreamOrder::instance().forget(wake_fd_.get());
  slots_.clear();
  parts_.transport.reset();  // closes the connections
  parts_.monitor.reset();
}

std::string Proxy::failure_text() const {
  std::lock_guard lock(mutex_);
  return failure_text_;
}

void Proxy::run() {
  pthread_setname_np(pthread_self(), "NCCL Progress");
  while (!stop_) {
    if (!task_) take_work();
    if (task_) advance();
    if (!stop_) wait_for_events();
  }
  if (orderly_ && failure() == ncclSuccess) {
    parts_.transport->leave();
    parts_.monitor->say_goodbye();
  } else if (!orderly_) {
    fail({ErrorCode::kUnavailable, "the communicator was aborted"});
  }
}

// Starts the oldest work whose turn on its streams has come.
void Proxy::take_work() {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (queue_.empty()) return;
      for (const auto& operation : queue_.front().operations) {
        if (!StreamOrder::instance().may_start(operation.stream, operation.launch, wake_fd_.get())) return;
      }
      current_ = std::move(queue_.front());
      queue_.pop_front();
    }
    last_progress_ = Clock::now();
    auto task = make_task(current_);
    if (!task) return fail(task.error());
    task_ = std::move(*task);
    if (task_) return;
    complete_current();
  }
}

// A null task: the work is done already.
Result<std::unique_ptr<Task>> Proxy::make_task(Work& work) {
  for (auto& operation : work.operations) {
    if (operation.device_scalar) operation.reduction = make_premultiplied_sum(operation.type, operation.device_scalar);
  }
  const Operation& first = work.operations.front();
  if (first.kind == OperationKind::kSend || first.kind == OperationKind::kRecv) {
    return make_point_to_point_task(work.operations, context_, counters_);
  }
  const uint64_t sequence = collectives_++;
  if (context_.nranks == 1) {
    run_alone(first);
    return std::unique_ptr<Task>();
  }
  return make_ring_task(first, sequence, context_, slots_);
}

void Proxy::advance() {
  auto done = task_->advance();
  if (!done) return fail(done.error());
  if (!*done) return;
  complete_current();
  take_work();
  if (task_) (void)eventfd_write(wake_fd_.get(), 1);  // advance the next one without waiting for the network
}

void Proxy::wait_for_events() {
  extra_.assign(1, {wake_fd_.get(), POLLIN, 0});
  std::chrono::nanoseconds wait = kIdleWait;
  if (failure() == ncclSuccess) {
    parts_.monitor->collect(extra_);
    if (task_ && parts_.monitor->lost_rank()) wait = kLostCheck;
    auto moved = parts_.transport->step(extra_, wait);
    if (!moved) return fail(moved.error());
    if (*moved > 0) last_progress_ = Clock::now();
    parts_.monitor->handle(extra_);
    check_lost_peer();
  } else {
    (void)::poll(extra_.data(), extra_.size(), -1);
  }
  if (extra_[0].revents != 0) {
    eventfd_t ignored;
    (void)eventfd_read(wake_fd_.get(), &ignored);
  }
}

void Proxy::check_lost_peer() {
  const auto lost = parts_.monitor->lost_rank();
  if (!lost || !task_ || !task_->waits_for(*lost) || Clock::now() - last_progress_ < kLostGrace) return;
  const auto& address = parts_.table.peers[static_cast<size_t>(*lost)].data;
  fail({ErrorCode::kUnavailable,
        "rank " + std::to_string(*lost) + " (" + to_text(address) + ") ended or failed while operations were running"});
}

void Proxy::complete_current() {
  task_.reset();
  complete(std::exchange(current_, {}), ncclSuccess);
  std::lock_guard lock(mutex_);
  if (--unfinished_ == 0) idle_.notify_all();
}

void Proxy::complete(const Work& work, ncclResult_t result) {
  for (const auto& operation : work.operations) {
    StreamOrder::instance().complete(operation.stream, operation.launch, result);
  }
}

void Proxy::fail(const Error& error) {
  const ncclResult_t code = report(error);
  const bool first = failure() == ncclSuccess;
  std::deque<Work> dropped;
  {
    std::lock_guard lock(mutex_);
    if (first) {
      failure_text_ = error.message;
      failure_.store(code, std::memory_order_release);
    }
    dropped.swap(queue_);
  }
  task_.reset();
  parts_.transport->halt();  // before the callers may reuse their buffers
  if (!current_.operations.empty()) dropped.push_front(std::exchange(current_, {}));
  for (const auto& work : dropped) complete(work, code);
  {
    std::lock_guard lock(mutex_);
    unfinished_ = 0;
  }
  idle_.notify_all();
  if (first) parts_.monitor->announce_lost(parts_.transport->lost_peer().value_or(parts_.rank));
}

}  // namespace orrery::hostnccl
