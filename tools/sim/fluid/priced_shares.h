// Rates of senders that react to queues which serve first in, first out, kept while flows come and go.
//
// Each full link has a price, and a flow pays the prices of all links on its way: a flow that crosses several full
// queues has less than one that crosses one, where max-min (a queue for each flow) lets only the worst one count. With
// prices p the rate is (sum of p) ^ (-1 / alpha), the alpha-fair allocation (Mo and Walrand 2000):
//   kWindows  alpha 1: as many bytes are on the way as the window has; a price is the wait in a queue
//   kDcqcn    alpha 4/3: a price is the part of packets that a queue marks. At DCQCN's fixed point (Zhu et al., "ECN or
//             Delay", CoNEXT 2016) p^3 grows with 1 / rate^4 where the timer, not the byte counter, raises rates: as
//             long as a flow sends less than the counter's bytes in one timer
// A host's own link has no price: it serves its queue pairs in turn, so that there nobody may be above one level.
//
// ACKs go first: they take their part of the link that leads back, which data do not have.
//
// update() balances the links that a change has put off balance, one at a time, then those that this has put off by
// more than the tolerance: coordinate descent on a convex problem.
#pragma once

#include <vector>

#include "tools/sim/fluid/share_table.h"

namespace orrery::sim {

struct PricedSharesGroup {
  double rate = 0;
  double limit = 0;
  double part = 1;
  uint32_t first_use = 0;
  uint32_t flows = 0;
  uint16_t uses = 0;
  bool changed = false;
  bool moved = false;
};
struct PricedSharesLink {
  double capacity = 0;
  double load = 0;
  // Of a flow that pays no other price; a NIC's: nobody is above it.
  double level = 0;
  double price = 0;
  uint32_t reverse = kNone;
  uint32_t first_slot = 0;
  uint32_t listed = 0;  // groups with flows
  bool at_host = false;
  bool waiting = false;  // in queue_ or round_
};

class PricedShares final : public ShareTable<PricedSharesGroup, PricedSharesLink> {
 public:
  enum class Alpha { kWindows, kDcqcn };
  struct LinkShape {
    double capacity_bps = 0;
    uint32_t reverse = kNone;  // the link whose data this one's ACKs answer
    bool at_host = false;      // its transmitter is a NIC
  };
  // `ack_part`: bytes of ACKs for a byte of data. `tolerance`: links carry their capacity, and flows have their rate,
  // to within this part of it.
  PricedShares(const std::vector<LinkShape>& links, Alpha alpha, double ack_part, double tolerance);

  uint32_t add_group(std::span<const uint32_t> links, std::span<const uint16_t> parts, uint16_t of,
                     double limit_bps) override;
  void set_flows(uint32_t group, uint32_t flows) override;
  void set_parts(uint32_t group, std::span<const uint16_t> parts, uint16_t of) override;
  void set_capacity(uint32_t link, double capacity_bps) override;
  std::span<const uint32_t> update() override;
  size_t bytes() const override;

 private:
  using Group = PricedSharesGroup;
  using Link = PricedSharesLink;
  // A flow as one link sees it.
  struct Claim {
    uint32_t group;
    double share;
    double weight;  // of the link, for each bit/s of the flow
    double most;    // that its NIC and its limit allow
    double others;  // prices that it pays elsewhere
  };
  struct Sum {
    double load, slope;
  };

  double price_of(double level) const;
  double rate_at(double price) const;
  Claim claim_of(uint32_t group, uint32_t at_use) const;
  double rate_of(const Link& link, const Claim& claim, double level, double price) const;
  Sum sum_at(const Link& link, double level) const;
  double level_of(const Link& link, double target) const;
  double target_of(const Link& link) const;
  void balance(uint32_t link);
  void refresh(uint32_t group);
  void move(uint32_t group, double rate);
  void add_load(const Group& group, double rate);
  void check(uint32_t link);
  void list(uint32_t group);
  void unlist(uint32_t group);
  void change(uint32_t group);

  const Alpha alpha_;
  const double ack_part_, tolerance_;
  std::vector<uint32_t> changed_, moved_;  // groups
  std::vector<uint32_t> queue_, round_;    // links, in the order they were put off balance
  std::vector<Claim> claims_;              // of the link that is being balanced
  uint32_t rounds_ = 0;                    // of this update
};

}  // namespace orrery::sim
