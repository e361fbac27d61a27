// The metrics of one daemon: a Prometheus registry and, when an address is given, the HTTP endpoint that serves it.
//
// main makes one Metrics and passes it to the modules, which take their counters and gauges from it once, at
// construction. Names are `orrery_<module>_<noun>_<unit>[_total]` (`_total` exactly on counters); a name outside the
// rule is a mistake of the program and aborts. The references returned live as long as the Metrics; updating one is
// thread-safe and lock-free.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace prometheus {
class Exposer;
}

namespace orrery::telemetry {

using Counter = prometheus::Counter;
using Gauge = prometheus::Gauge;
using Histogram = prometheus::Histogram;
using Labels = std::map<std::string, std::string>;

enum class Kind { kCounter, kGauge, kHistogram };

// Whether `name` follows the rule for a metric of this kind.
bool is_metric_name(std::string_view name, Kind kind);

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The same name with other labels adds a series; with the same labels it is the same object.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  // `bounds`: upper bounds of the buckets, increasing.
  Histogram& histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                       const Labels& labels = {});

  // Serves http://<address>/metrics ("127.0.0.1:9464") from threads of its own; an empty address: does nothing.
  // Errors: kInvalidArgument when the address cannot be bound.
  Status serve(const std::string& address);

  // What a scrape returns.
  std::string scrape() const;
  // "| name | kind | meaning |" rows sorted by name: the golden page docs/reference/metrics-<binary>.md.
  std::string reference(std::string_view binary) const;

 private:
  void record(const std::string& name, const std::string& help, Kind kind);

  struct Description {
    Kind kind;
    std::string help;
  };
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::map<std::string, Description> descriptions_;
};

}  // namespace orrery::telemetry
