// Result<T>: a value or an Error. Shaped like std::expected (C++23), which g++ 12 lacks.
//
// Errors are for callers that can do something about them: `message` says what happened, to what, and what to do, in
// one line and without a trailing full stop; whoever decides to stop propagating it logs it once.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace orrery {

enum class ErrorCode {
  kInvalidArgument,  // the caller's or user's input is wrong
  kNotFound,
  kUnavailable,  // the peer, device or kernel feature is absent now; may work later
  kRefused,      // the other side understood and said no
  kExhausted,    // a table, limit or budget is full
  kCorrupt,      // bytes that do not decode
  kSystem,       // a system call failed; the message carries errno's text
};

struct Error {
  ErrorCode code = ErrorCode::kSystem;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // Precondition of value(), *, ->: has_value(). A broken precondition aborts.
  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }

  // Precondition: !has_value().
  const Error& error() const {
    if (has_value()) std::abort();
    return *std::get_if<1>(&state_);
  }

  T value_or(T other) const& { return has_value() ? value() : std::move(other); }

 private:
  T& get() {
    if (!has_value()) std::abort();
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    if (!error_) std::abort();
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// "what: text of errno", as a kSystem error.
Error system_error(std::string what, int error_number);

}  // namespace orrery

// ORRERY_TRY(expression);              return the error, if any
// ORRERY_ASSIGN(auto x, expression);   the same, else define x from the value
#define ORRERY_TRY(expression)                                                                       \
  do {                                                                                               \
    if (auto orrery_try_result = (expression); !orrery_try_result) return orrery_try_result.error(); \
  } while (false)
#define ORRERY_CONCAT_(a, b) a##b
#define ORRERY_CONCAT(a, b) ORRERY_CONCAT_(a, b)
#define ORRERY_ASSIGN_(name, definition, expression) \
  auto name = (expression);                          \
  if (!name) return name.error();                    \
  definition = *std::move(name)
#define ORRERY_ASSIGN(definition, expression) \
  ORRERY_ASSIGN_(ORRERY_CONCAT(orrery_result_, __LINE__), definition, expression)
