#include "tools/planning/fabric/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <unordered_map>

#include "tools/planning/fabric/counts.h"
#include "tools/sim/workload/input.h"

namespace orrery::planning {
namespace {

enum Column : size_t { kHost, kLeaf, kPod, kCore, kColumns };
constexpr std::array<std::array<std::string_view, 4>, kColumns> kNames{{
    {"ip", "host", "hostname", "node"},
    {"asw", "leaf", "tor", "rack"},
    {"psw", "pod", "spine", "agg"},
    {"dsw", "core", "", ""},
}};

// A field without the blanks and quotes around it.
std::string_view plain(std::string_view field) {
  field = sim::trimmed(field);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return sim::trimmed(field);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t start = 0; start <= line.size();) {
    const size_t end = std::min(line.find(',', start), line.size());
    fields.push_back(plain(line.substr(start, end - start)));
    start = end + 1;
  }
  return fields;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// S2 before S10.
bool natural_less(const std::string& a, const std::string& b) {
  const auto split = [](const std::string& text) {
    const size_t end = text.find_last_not_of("0123456789") + 1;
    return std::pair(text.substr(0, end), text.substr(end));
  };
  const auto [word_a, number_a] = split(a);
  const auto [word_b, number_b] = split(b);
  if (word_a != word_b) return word_a < word_b;
  if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
  return number_a < number_b;
}

struct NaturalOrder {
  bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
};

struct Row {
  uint64_t line = 0;
  std::string host, leaf, pod, core;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // a byte order mark, as spreadsheets write it
  }

  Result<std::vector<Row>> read() {
    for (size_t position = 0; position < text_.size();) {
      ++line_;
      const std::string_view line = sim::trimmed(sim::next_line(text_, position));
      if (line.empty()) continue;
      if (columns_.empty()) {
        ORRERY_TRY(read_header(line));
      } else {
        ORRERY_TRY(read_row(line));
      }
    }
    if (rows_.empty())
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: has no hosts; give a header such as ip,DSW,PSW,ASW and a line per host", file_)};
    return std::move(rows_);
  }

 private:
  Error at(const std::string& what) const { return sim::line_error(file_, line_, what); }

  Status read_header(std::string_view line) {
    std::array<bool, kColumns> found{};
    for (const std::string_view field : fields_of(line)) {
      std::optional<Column>& column = columns_.emplace_back();
      for (size_t c = 0; c < kColumns; ++c)
        if (std::find(kNames[c].begin(), kNames[c].end(), lower(field)) != kNames[c].end() && !field.empty() &&
            !found[c]) {
          column = static_cast<Column>(c);
          found[c] = true;
        }
    }
    if (!found[kHost]) return at("the header names no column of hosts; call it ip or host");
    if (!found[kLeaf]) return at("the header names no column of leaves; call it ASW or leaf");
    return {};
  }

  Status read_row(std::string_view line) {
    const auto fields = fields_of(line);
    if (fields.size() != columns_.size())
      return at(fmt::format("{} fields, but the header has {}; is the line cut off?", fields.size(), columns_.size()));
    Row row{.line = line_};
    const std::array<std::string*, kColumns> places{&row.host, &row.leaf, &row.pod, &row.core};
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!columns_[i]) continue;
      if (!is_name(fields[i]))
        return at(fmt::format("{} is no name; names have letters, digits, - _ and . and begin with a letter or digit",
                              sim::shown(fields[i])));
      *places[*columns_[i]] = fields[i];
    }
    if (rows_.size() == fabric::kMaxHosts) return at(fmt::format("more than {} hosts", fabric::kMaxHosts));
    const auto [known, fresh] = lines_.emplace(row.host, line_);
    if (!fresh) return at(fmt::format("{} stands on line {} too; a host has one line", row.host, known->second));
    rows_.push_back(std::move(row));
    return {};
  }

  static bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= 256 && std::isalnum(static_cast<unsigned char>(text[0])) &&
           std::all_of(text.begin(), text.end(), [](char c) {
             return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
           });
  }

  std::string_view text_;
  const std::string& file_;
  uint64_t line_ = 0;
  std::vector<std::optional<Column>> columns_;
  std::vector<Row> rows_;
  std::unordered_map<std::string, uint64_t> lines_;  // of each host
};

class ClosOfRows {
 public:
  ClosOfRows(const std::vector<Row>& rows, const std::string& file, const HostListOptions& options)
      : rows_(rows), file_(file), options_(options) {}

  Result<Clos> build() {
    clos_.name = options_.name;
    clos_.mtu_bytes = options_.mtu_bytes;
    clos_.hash_seed = options_.hash_seed;
    ORRERY_TRY(check_cores());
    add_leaves();
    ORRERY_TRY(add_hosts());
    ORRERY_TRY(choose_uplinks());
    return std::move(clos_);
  }

 private:
  Status check_cores() const {
    for (const Row& row : rows_)
      if (row.core != rows_[0].core)
        return sim::line_error(file_, row.line,
                               fmt::format("{} is under the core {}, {} under {}, with no path between them; import "
                                           "each core's lines as a fabric of their own",
                                           row.host, row.core, rows_[0].host, rows_[0].core));
    return {};
  }

  void add_leaves() {
    std::map<std::string, std::map<std::string, uint32_t, NaturalOrder>, NaturalOrder> leaves;  // by pod and name
    for (const Row& row : rows_) leaves[row.pod].emplace(row.leaf, 0);
    for (auto& [pod, names] : leaves) {
      for (auto& [name, index] : names) {
        index = static_cast<uint32_t>(clos_.leaves.size());
        clos_.leaves.push_back({pod.empty() ? name : pod + "-" + name, static_cast<uint32_t>(clos_.pods.size())});
      }
      clos_.pods.push_back(pod.empty() ? "" : pod + "-");
    }
    for (const Row& row : rows_) leaf_of_.push_back(leaves[row.pod][row.leaf]);
  }

  Status add_hosts() {
    std::unordered_map<std::string, uint64_t> lines;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      constexpr size_t kShort = 12;
      std::string name = row.host.size() > fabric::kMaxNodeNameBytes ? row.host.substr(0, kShort) : row.host;
      const auto [known, fresh] = lines.emplace(name, row.line);
      if (!fresh)
        return sim::line_error(file_, row.line,
                               fmt::format("the first {} characters of the host's name are those of line {}; shorten "
                                           "both to {} characters or fewer that differ",
                                           kShort, known->second, fabric::kMaxNodeNameBytes));
      clos_.hosts.push_back({std::move(name), std::vector<uint32_t>(options_.nics, leaf_of_[i])});
    }
    return {};
  }

  Status choose_uplinks() {
    std::vector<uint32_t> hosts(clos_.leaves.size()), leaves(clos_.pods.size());
    for (const uint32_t leaf : leaf_of_) ++hosts[leaf];
    for (const ClosLeaf& leaf : clos_.leaves) ++leaves[leaf.pod];
    clos_.nic_bps = options_.nic_bps;
    clos_.uplink_bps = options_.uplink_bps != 0 ? options_.uplink_bps : options_.nic_bps;
    clos_.core_bps = options_.core_bps != 0 ? options_.core_bps : clos_.uplink_bps;
    const double fullest = *std::max_element(hosts.begin(), hosts.end()) * static_cast<double>(options_.nics) *
                           static_cast<double>(options_.nic_bps);
    const uint32_t uplinks = cables_for(fullest, options_.oversubscription, clos_.uplink_bps);
    clos_.spines = options_.spines != 0 ? options_.spines : uplinks;
    clos_.cables_per_spine = (uplinks + clos_.spines - 1) / clos_.spines;
    if (clos_.pods.size() == 1) return {};
    const double below = *std::max_element(leaves.begin(), leaves.end()) * static_cast<double>(clos_.cables_per_spine) *
                         static_cast<double>(clos_.uplink_bps);
    clos_.cores = cables_for(below, options_.core_oversubscription, clos_.core_bps);
    return {};
  }

  const std::vector<Row>& rows_;
  const std::string& file_;
  const HostListOptions& options_;
  std::vector<uint32_t> leaf_of_;  // by row
  Clos clos_;
};

}  // namespace

Result<Clos> read_host_list(std::string_view text, const std::string& file_name, const HostListOptions& options) {
  ORRERY_ASSIGN(const std::vector<Row> rows, Reader(text, file_name).read());
  return ClosOfRows(rows, file_name, options).build();
}

Result<Clos> load_host_list(const std::string& path, const HostListOptions& options) {
  ORRERY_ASSIGN(const std::string text, sim::read_text(path, kMaxHostListBytes, "the list of hosts"));
  return read_host_list(text, path, options);
}

}  // namespace orrery::planning
