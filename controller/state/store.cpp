#include "controller/state/store.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "common/base/clock.h"
#include "controller/state/database.h"

namespace orrery::state {
namespace {
// Two starts without a file that remembers the term are never as near to each other.
constexpr uint64_t kTermNs = 1'000'000;
}  // namespace

Store::Store() = default;

std::unique_ptr<Store> Store::open(const std::string& path) {
  std::unique_ptr<Store> store(new Store());
  store->term_ = tai_now_ns() / kTermNs;
  if (path.empty()) return store;
  if (Status started = store->start(path); !started) {
    store->database_.reset();
    store->give_up(started.error());
    return store;
  }
  store->thread_ = std::thread([raw = store.get()] { raw->run(); });
  return store;
}

Status Store::start(const std::string& path) {
  ORRERY_ASSIGN(database_, Database::open(path));
  ORRERY_ASSIGN(const uint64_t saved_term, database_->read_term());
  term_ = std::max(term_, saved_term + 1);
  ORRERY_TRY(database_->write_term(term_));
  ORRERY_ASSIGN(loaded_, database_->read());
  return {};
}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Store::save(SavedState state) {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable() || !problem_.empty()) return;
    waiting_ = std::move(state);
  }
  changed_.notify_all();
}

void Store::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_ && !writing_; });
}

std::string Store::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void Store::give_up(const Error& error) {
  spdlog::error("{}; going on without saving: after a restart the plan will be made anew", error.message);
  const std::lock_guard lock(mutex_);
  problem_ = error.message;
  waiting_.reset();
}

void Store::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return waiting_ || stopping_; });
    if (!waiting_) return;
    const SavedState state = *std::exchange(waiting_, std::nullopt);
    writing_ = true;
    lock.unlock();
    const Status written = database_->write(state);
    if (!written) give_up(written.error());
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace orrery::state
