// What the flow-level engine asks of a rule by which flows share links. max_min.h and priced_shares.h are the rules.
//
// A group is a number of flows that use the same links alike: one rate for all of them. Of each link it uses a share of
// that rate (1, or less where it is split over paths).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/sim/model/types.h"

namespace orrery::sim {

class Shares {
 public:
  virtual ~Shares() = default;

  // Every link it may ever use; parts[i] of `of` go over links[i] (0: not now). limit_bps 0: none.
  virtual uint32_t add_group(std::span<const uint32_t> links, std::span<const uint16_t> parts, uint16_t of,
                             double limit_bps) = 0;
  virtual void reserve(size_t groups, size_t uses) = 0;
  // After the last add_group, before everything else.
  virtual void seal() = 0;

  // These take effect at the next update().
  virtual void set_flows(uint32_t group, uint32_t flows) = 0;
  virtual void set_parts(uint32_t group, std::span<const uint16_t> parts, uint16_t of) = 0;
  virtual void set_capacity(uint32_t link, double capacity_bps) = 0;

  // The groups whose rate has changed; valid until the next call.
  virtual std::span<const uint32_t> update() = 0;
  virtual double rate_bps(uint32_t group) const = 0;
  virtual std::span<const uint32_t> links(uint32_t group) const = 0;
  virtual double share(uint32_t group, size_t use) const = 0;
  virtual size_t bytes() const = 0;
};

}  // namespace orrery::sim
