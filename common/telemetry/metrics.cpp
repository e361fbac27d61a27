#include "common/telemetry/metrics.h"

#include <fmt/format.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>

namespace orrery::telemetry {
namespace {

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return "counter";
    case Kind::kGauge:
      return "gauge";
    case Kind::kHistogram:
      return "histogram";
  }
  return "";
}

}  // namespace

bool is_metric_name(std::string_view name, Kind kind) {
  constexpr std::string_view kPrefix = "orrery_", kTotal = "_total";
  if (!name.starts_with(kPrefix)) return false;
  if (name.ends_with(kTotal) != (kind == Kind::kCounter)) return false;
  name.remove_prefix(kPrefix.size());
  if (kind == Kind::kCounter) name.remove_suffix(kTotal.size());
  const auto plain = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; };
  if (!std::all_of(name.begin(), name.end(), plain)) return false;
  if (name.starts_with('_') || name.ends_with('_') || name.find("__") != std::string_view::npos) return false;
  return std::count(name.begin(), name.end(), '_') >= 2;  // module, noun and unit at least
}

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {}
Metrics::~Metrics() = default;

void Metrics::record(const std::string& name, const std::string& help, Kind kind) {
  const auto [known, fresh] = descriptions_.try_emplace(name, Description{kind, help});
  if (!is_metric_name(name, kind) || (!fresh && known->second.kind != kind)) std::abort();
}

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  record(name, help, Kind::kCounter);
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  record(name, help, Kind::kGauge);
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(labels);
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                              const Labels& labels) {
  record(name, help, Kind::kHistogram);
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_).Add(labels, bounds);
}

Status Metrics::serve(const std::string& address) {
  if (address.empty()) return {};
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
    exposer_->RegisterCollectable(registry_);
  } catch (const std::exception& e) {
    exposer_.reset();
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot serve metrics on '{}' ({}): use a free ADDRESS:PORT, or an empty one for none",
                             address, e.what())};
  }
  return {};
}

std::string Metrics::scrape() const {
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

std::string Metrics::reference(std::string_view binary) const {
  std::string text = fmt::format("# Metrics of {}\n\n| name | kind | meaning |\n| --- | --- | --- |\n", binary);
  for (const auto& [name, description] : descriptions_)
    text += fmt::format("| `{}` | {} | {} |\n", name, kind_name(description.kind), description.help);
  return text;
}

}  // namespace orrery::telemetry
