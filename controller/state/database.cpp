#include "controller/state/database.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace orrery::state {
namespace {

constexpr int kSchemaVersion = 1;

// A prepared statement. Numbers are stored as SQLite's signed 64-bit integers, bit for bit.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    status_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(uint64_t value) {
    if (status_ == SQLITE_OK) status_ = sqlite3_bind_int64(statement_, ++bound_, static_cast<sqlite3_int64>(value));
    return *this;
  }
  Statement& bind(const std::string& text) {
    if (status_ == SQLITE_OK)
      status_ = sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(const IpAddress& address) {
    if (status_ == SQLITE_OK)
      status_ = sqlite3_bind_blob(statement_, ++bound_, address.bytes().data(), 16, SQLITE_TRANSIENT);
    return *this;
  }
  // Whether there is a row. False at the end and on failure: see failed().
  bool step() {
    if (status_ != SQLITE_OK && status_ != SQLITE_ROW) return false;
    status_ = sqlite3_step(statement_);
    return status_ == SQLITE_ROW;
  }
  bool failed() const { return status_ != SQLITE_OK && status_ != SQLITE_ROW && status_ != SQLITE_DONE; }
  // Runs a statement without rows and makes it ready for the next binding.
  bool run() {
    step();
    if (failed()) return false;
    status_ = sqlite3_reset(statement_);
    bound_ = 0;
    return status_ == SQLITE_OK;
  }

  uint64_t number(int column) const { return static_cast<uint64_t>(sqlite3_column_int64(statement_, column)); }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr ? std::string()
                            : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }
  IpAddress address(int column) const {
    if (sqlite3_column_bytes(statement_, column) != 16) return {};
    return IpAddress::from_bytes(static_cast<const uint8_t*>(sqlite3_column_blob(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int status_ = SQLITE_OK;
  int bound_ = 0;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS number(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS plan_flow(flow_id INTEGER PRIMARY KEY, comm_id INTEGER NOT NULL, src BLOB NOT NULL, dst BLOB NOT NULL,
  src_port INTEGER NOT NULL, dst_port INTEGER NOT NULL, protocol INTEGER NOT NULL, path TEXT NOT NULL, bytes INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS communicator_rank(comm_id INTEGER NOT NULL, rank INTEGER NOT NULL, address BLOB NOT NULL, PRIMARY KEY(comm_id, rank)) STRICT;
CREATE TABLE IF NOT EXISTS signature(hosts_hash INTEGER NOT NULL, op INTEGER NOT NULL, bytes INTEGER NOT NULL, peer INTEGER NOT NULL,
  PRIMARY KEY(hosts_hash, op, bytes, peer)) STRICT;
)";

}  // namespace

Error Database::failure(const char* what) const {
  const int code = handle_ ? sqlite3_errcode(handle_.get()) : SQLITE_CANTOPEN;
  const char* text = handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory";
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return {ErrorCode::kCorrupt,
            fmt::format("state file {} is damaged ({}); move it away and restart the controller to begin a new one",
                        path_, text)};
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
    return {
        ErrorCode::kUnavailable,
        fmt::format(
            "state file {} is in use by another process; stop the other controller or set state.path to another file",
            path_)};
  return {ErrorCode::kSystem,
          fmt::format("cannot {} state file {}: {}; check that its directory exists, is writable and has room", what,
                      path_, text)};
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int status = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<Database> database(new Database(path, std::unique_ptr<sqlite3, Close>(raw)));
  if (status != SQLITE_OK) return database->failure("open");
  ORRERY_TRY(database->set_up());
  return database;
}

Status Database::set_up() {
  ORRERY_TRY(execute("PRAGMA locking_mode=EXCLUSIVE"));
  ORRERY_TRY(execute("PRAGMA journal_mode=WAL"));
  ORRERY_TRY(execute("PRAGMA synchronous=NORMAL"));
  Statement version(handle_.get(), "PRAGMA user_version");
  if (!version.step()) return failure("read");
  if (version.number(0) > kSchemaVersion)
    return Error{
        ErrorCode::kRefused,
        fmt::format("state file {} was written by a newer controller; use that version or move the file away", path_)};
  {
    Statement check(handle_.get(), "PRAGMA quick_check(1)");
    if (!check.step()) return failure("read");
    if (check.text(0) != "ok")
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("state file {} is damaged ({}); move it away and restart the controller to begin a new one",
                      path_, check.text(0))};
  }
  ORRERY_TRY(execute(kTables));
  return execute(fmt::format("PRAGMA user_version={}", kSchemaVersion).c_str());
}

Status Database::execute(const char* sql) {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return failure("write");
  return {};
}

Result<uint64_t> Database::read_number(const char* key) {
  Statement statement(handle_.get(), "SELECT value FROM number WHERE key=?");
  const uint64_t value = statement.bind(std::string(key)).step() ? statement.number(0) : 0;
  if (statement.failed()) return failure("read");
  return value;
}

Status Database::write_number(const char* key, uint64_t value) {
  Statement statement(handle_.get(), "INSERT OR REPLACE INTO number(key, value) VALUES(?, ?)");
  if (!statement.bind(std::string(key)).bind(value).run()) return failure("write");
  return {};
}

Result<uint64_t> Database::read_term() {
  return read_number("term");
}
Status Database::write_term(uint64_t term) {
  return write_number("term", term);
}

Result<SavedState> Database::read() {
  SavedState state;
  ORRERY_ASSIGN(const uint64_t next_flow_id, read_number("next_flow_id"));
  state.next_flow_id = std::max<uint64_t>(next_flow_id, 1);
  ORRERY_TRY(read_flows(state));
  ORRERY_TRY(read_communicators(state));
  ORRERY_TRY(read_signatures(state));
  return state;
}

Status Database::read_flows(SavedState& state) {
  Statement statement(
      handle_.get(),
      "SELECT flow_id, comm_id, src, dst, src_port, dst_port, protocol, path, bytes FROM plan_flow ORDER BY flow_id");
  while (statement.step()) {
    SavedFlow flow{.flow_id = statement.number(0),
                   .comm_id = statement.number(1),
                   .path = split(statement.text(7)),
                   .bytes = statement.number(8)};
    flow.tuple = {statement.address(2), statement.address(3), static_cast<uint16_t>(statement.number(4)),
                  static_cast<uint16_t>(statement.number(5)), static_cast<uint8_t>(statement.number(6))};
    state.flows.push_back(std::move(flow));
  }
  return statement.failed() ? Status(failure("read")) : Status();
}

Status Database::read_communicators(SavedState& state) {
  Statement statement(handle_.get(), "SELECT comm_id, address FROM communicator_rank ORDER BY comm_id, rank");
  while (statement.step()) {
    if (state.communicators.empty() || state.communicators.back().comm_id != statement.number(0))
      state.communicators.push_back({.comm_id = statement.number(0)});
    state.communicators.back().ranks.push_back(statement.address(1));
  }
  return statement.failed() ? Status(failure("read")) : Status();
}

Status Database::read_signatures(SavedState& state) {
  Statement statement(handle_.get(),
                      "SELECT hosts_hash, op, bytes, peer FROM signature ORDER BY hosts_hash, op, bytes, peer");
  while (statement.step())
    state.signatures.push_back({statement.number(0), static_cast<uint16_t>(statement.number(1)), statement.number(2),
                                static_cast<uint32_t>(statement.number(3))});
  return statement.failed() ? Status(failure("read")) : Status();
}

Status Database::write(const SavedState& state) {
  ORRERY_TRY(execute("BEGIN IMMEDIATE"));
  if (Status written = write_rows(state); !written) {
    static_cast<void>(execute("ROLLBACK"));
    return written;
  }
  return execute("COMMIT");
}

Status Database::write_rows(const SavedState& state) {
  ORRERY_TRY(write_number("next_flow_id", state.next_flow_id));
  ORRERY_TRY(execute("DELETE FROM plan_flow; DELETE FROM communicator_rank; DELETE FROM signature"));
  Statement flow(handle_.get(), "INSERT OR REPLACE INTO plan_flow VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const SavedFlow& f : state.flows) {
    flow.bind(f.flow_id)
        .bind(f.comm_id)
        .bind(f.tuple.src)
        .bind(f.tuple.dst)
        .bind(uint64_t{f.tuple.src_port})
        .bind(uint64_t{f.tuple.dst_port});
    if (!flow.bind(uint64_t{f.tuple.protocol}).bind(fmt::format("{}", fmt::join(f.path, " "))).bind(f.bytes).run())
      return failure("write");
  }
  Statement rank(handle_.get(), "INSERT OR REPLACE INTO communicator_rank VALUES(?, ?, ?)");
  for (const SavedCommunicator& communicator : state.communicators)
    for (size_t i = 0; i < communicator.ranks.size(); ++i)
      if (!rank.bind(communicator.comm_id).bind(uint64_t{i}).bind(communicator.ranks[i]).run()) return failure("write");
  Statement signature(handle_.get(), "INSERT OR REPLACE INTO signature VALUES(?, ?, ?, ?)");
  for (const SavedSignature& s : state.signatures)
    if (!signature.bind(s.hosts_hash).bind(uint64_t{s.op}).bind(s.bytes).bind(uint64_t{s.peer}).run())
      return failure("write");
  return {};
}

}  // namespace orrery::state
