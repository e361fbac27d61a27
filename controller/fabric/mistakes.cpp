#include "controller/fabric/mistakes.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::fabric {

void Mistakes::add(uint32_t line, std::string key, std::string text) {
  ++count_;
  if (!full()) kept_.push_back({line, std::move(key), std::move(text)});
}

Error Mistakes::to_error() const {
  std::vector<const Mistake*> ordered;
  for (const Mistake& mistake : kept_) ordered.push_back(&mistake);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Mistake* a, const Mistake* b) { return a->line < b->line; });
  std::string message;
  for (const Mistake* mistake : ordered) {
    if (!message.empty()) message += '\n';
    message += file_;
    if (mistake->line != 0) message += fmt::format(":{}", mistake->line);
    message += ": ";
    if (!mistake->key.empty()) message += mistake->key + ": ";
    message += mistake->text;
  }
  if (count_ > kept_.size())
    message += fmt::format("\n{}: {} more mistakes not shown; correct these first", file_, count_ - kept_.size());
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

std::string quoted(std::string_view text) {
  constexpr size_t kMost = 64;
  std::string out = "'";
  for (char c : text.substr(0, kMost)) out += (c >= 0x20 && c != 0x7f) || (c & 0x80) != 0 ? c : '?';
  if (text.size() > kMost) out += "...";
  return out + "'";
}

}  // namespace orrery::fabric
