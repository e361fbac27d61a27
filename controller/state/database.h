// The SQLite side of the store: schema, reading, writing. Belongs to one thread at a time.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string>

#include "common/base/result.h"
#include "controller/state/saved_state.h"

namespace orrery::state {

class Database {
 public:
  // Opens or creates the file and checks it. Errors say what to do: kCorrupt, kUnavailable (held by another process),
  // kSystem.
  static Result<std::unique_ptr<Database>> open(const std::string& path);

  Result<uint64_t> read_term();
  Status write_term(uint64_t term);
  Result<SavedState> read();
  // Replaces everything in one transaction.
  Status write(const SavedState& state);

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  Database(std::string path, std::unique_ptr<sqlite3, Close> handle)
      : path_(std::move(path)), handle_(std::move(handle)) {}

  Error failure(const char* what) const;
  Status execute(const char* sql);
  Status set_up();
  Status write_rows(const SavedState& state);
  Result<uint64_t> read_number(const char* key);
  Status write_number(const char* key, uint64_t value);
  Status read_communicators(SavedState& state);
  Status read_flows(SavedState& state);
  Status read_signatures(SavedState& state);

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace orrery::state
