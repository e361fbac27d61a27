// The controller's memory across restarts: one SQLite file (WAL). It never stands in the way: save() only hands the
// state to a thread of the store's own, where the newest state wins, and any failure turns persistence off with a
// sentence in problem().
//
// The file is held exclusively, so that a second controller with the same file runs without persistence instead of
// spoiling it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/result.h"
#include "controller/state/saved_state.h"

namespace orrery::state {

class Database;  // store.cpp: the SQLite connection

class Store {
 public:
  // `path` empty: no persistence, by choice. Always returns a store; where the file cannot be used, problem() says why
  // and what to do.
  static std::unique_ptr<Store> open(const std::string& path);
  ~Store();  // writes what is waiting
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Higher than that of every earlier start: the saved term plus one, and never below the TAI time in milliseconds, so
  // that a start without its file still fences the plans of the start before.
  uint64_t term() const { return term_; }
  // As the last run left it; empty for a new file.
  const SavedState& loaded() const { return loaded_; }

  void save(SavedState state);
  // Blocks until everything saved so far is on disk or has failed. For tests and shutdown.
  void flush();
  // "" while persistence works or was not asked for. Thread-safe.
  std::string problem() const;

 private:
  Store();
  Status start(const std::string& path);
  void run();
  void give_up(const Error& error);

  std::unique_ptr<Database> database_;
  uint64_t term_ = 0;
  SavedState loaded_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<SavedState> waiting_;
  bool writing_ = false;
  bool stopping_ = false;
  std::string problem_;
  std::thread thread_;
};

}  // namespace orrery::state
