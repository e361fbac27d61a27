#include "tools/planning/placement/placed_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "controller/fabric/mistakes.h"
#include "controller/fabric/yaml_tree.h"

namespace orrery::planning {
namespace {

using fabric::YamlNode;

const YamlNode* value_of(const YamlNode& map, std::string_view key, uint32_t* line = nullptr) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text != key) continue;
    if (line != nullptr) *line = map.keys[i].line;
    return &map.items[i];
  }
  return nullptr;
}

size_t start_of_line(const std::string& text, uint32_t line) {
  size_t at = 0;
  for (uint32_t i = 1; i < line && at != std::string::npos; ++i) at = text.find('\n', at) + 1;
  return at;
}

// Behind the next "hosts:" that is a word of its own; npos when there is none.
size_t after_hosts_key(const std::string& text, size_t from) {
  constexpr std::string_view kKey = "hosts:";
  for (size_t at = text.find(kKey, from); at != std::string::npos; at = text.find(kKey, at + 1))
    if (at == 0 || text[at - 1] == ' ' || text[at - 1] == '{' || text[at - 1] == ',' || text[at - 1] == '\n')
      return at + kKey.size();
  return std::string::npos;
}

std::string list_of(const fabric::Graph& graph, const std::vector<uint32_t>& nics) {
  constexpr size_t kPerLine = 16;  // readers limit the length of a line
  std::string text = " [";
  for (size_t i = 0; i < nics.size(); ++i) {
    if (i != 0) text += i % kPerLine == 0 ? ",\n            " : ", ";
    text += "\"" + nic_name(graph, nics[i]) + "\"";
  }
  return text + "]";
}

// Server of each rank, and its number there.
std::vector<std::pair<uint32_t, uint32_t>> seats_of(const fabric::Graph& graph, const std::vector<uint32_t>& nics,
                                                    uint32_t ranks_per_nic) {
  std::map<uint32_t, uint32_t> taken;
  std::vector<std::pair<uint32_t, uint32_t>> seats;
  for (const uint32_t nic : nics)
    for (uint32_t i = 0; i < ranks_per_nic; ++i) {
      const uint32_t host = graph.nics()[nic].host;
      seats.push_back({host, taken[host]++});
    }
  return seats;
}

}  // namespace

std::string nic_name(const fabric::Graph& graph, uint32_t nic) {
  const fabric::Nic& it = graph.nics()[nic];
  const auto same = [&](size_t other) { return other < graph.nics().size() && graph.nics()[other].host == it.host; };
  const std::string& host = graph.node(it.host).name;
  return (nic > 0 && same(nic - 1)) || same(nic + 1) ? host + ":" + it.name : host;
}

Result<std::string> with_hosts(const std::string& text, const std::string& file, const fabric::Graph& graph,
                               const Assignment& nics) {
  fabric::Mistakes mistakes(file);
  const YamlNode root = fabric::parse_yaml(text, mistakes);
  if (!mistakes.empty()) return mistakes.to_error();
  const YamlNode* jobs = value_of(root, "jobs");
  std::string out;
  size_t copied = 0;
  for (size_t job = 0; jobs != nullptr && job < jobs->items.size() && job < nics.size(); ++job) {
    uint32_t line = 0;
    const YamlNode* hosts = value_of(jobs->items[job], "hosts", &line);
    const size_t begin = after_hosts_key(text, std::max(copied, start_of_line(text, line)));
    const size_t value = begin == std::string::npos ? begin : text.find_first_not_of(' ', begin);
    size_t end = std::string::npos;
    if (hosts != nullptr && value != std::string::npos) {
      if (hosts->kind == YamlNode::Kind::kScalar) end = text.find_first_not_of("0123456789", value);
      if (hosts->kind == YamlNode::Kind::kList && text[value] == '[') end = text.find(']', value) + 1;
      if (hosts->kind == YamlNode::Kind::kScalar && end == std::string::npos) end = text.size();
    }
    if (end == std::string::npos || end <= value)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}:{}: jobs[{}].hosts cannot be replaced in place; write it as 16 or as [h1, h2]", file,
                               line, job)};
    out += text.substr(copied, begin - copied) + list_of(graph, nics[job]);
    copied = end;
  }
  return out + text.substr(copied);
}

std::string host_file(const fabric::Graph& graph, const std::vector<uint32_t>& nics, uint32_t ranks_per_nic) {
  std::vector<uint32_t> order;
  std::map<uint32_t, uint32_t> slots;
  for (const auto& [host, seat] : seats_of(graph, nics, ranks_per_nic)) {
    if (seat == 0) order.push_back(host);
    slots[host] = seat + 1;
  }
  std::string out;
  for (const uint32_t host : order)
    fmt::format_to(std::back_inserter(out), "{} slots={}\n", graph.node(host).name, slots[host]);
  return out;
}

std::string rank_file(const fabric::Graph& graph, const std::vector<uint32_t>& nics, uint32_t ranks_per_nic) {
  std::string out;
  uint32_t rank = 0;
  for (const auto& [host, seat] : seats_of(graph, nics, ranks_per_nic))
    fmt::format_to(std::back_inserter(out), "rank {}={} slot={}\n", rank++, graph.node(host).name, seat);
  return out;
}

}  // namespace orrery::planning
