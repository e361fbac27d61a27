#include "tools/sim/fluid/priced_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::sim {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();  // the level where there is no price
constexpr uint32_t kPatience = 16;  // rounds after which links are content with twice the tolerance, and so on

}  // namespace

PricedShares::PricedShares(const std::vector<LinkShape>& links, Alpha alpha, double ack_part, double tolerance)
    : ShareTable(links.size()), alpha_(alpha), ack_part_(ack_part), tolerance_(tolerance) {
  for (size_t i = 0; i < links.size(); ++i) {
    links_[i].capacity = links[i].capacity_bps;
    links_[i].level = links[i].at_host ? links[i].capacity_bps : kFree;
    links_[i].reverse = links[i].reverse;
    links_[i].at_host = links[i].at_host;
  }
}

uint32_t PricedShares::add_group(std::span<const uint32_t> links, std::span<const uint16_t> parts, uint16_t of,
                                 double limit_bps) {
  return ShareTable::add_group(links, parts, of, limit_bps > 0 ? limit_bps : kFree);
}

void PricedShares::list(uint32_t id) {
  const Group& group = groups_[id];
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use)
    if (use_parts_[use] != 0) list_at(use, id);
}

void PricedShares::unlist(uint32_t id) {
  const Group& group = groups_[id];
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use)
    if (use_parts_[use] != 0) unlist_at(use);
}

void PricedShares::change(uint32_t id) {
  if (groups_[id].changed) return;
  groups_[id].changed = true;
  changed_.push_back(id);
}

void PricedShares::set_flows(uint32_t id, uint32_t flows) {
  Group& group = groups_[id];
  if (group.flows == flows) return;
  add_load(group, -group.rate);
  if (group.flows == 0) list(id);
  if (flows == 0) {
    unlist(id);
    group.rate = 0;
  }
  group.flows = flows;
  add_load(group, group.rate);
  change(id);
}

void PricedShares::set_parts(uint32_t id, std::span<const uint16_t> parts, uint16_t of) {
  Group& group = groups_[id];
  if (group.flows != 0) {
    add_load(group, -group.rate);
    unlist(id);
  }
  group.rate = 0;
  write_parts(group, parts, of);
  if (group.flows != 0) list(id);
  change(id);
}

void PricedShares::set_capacity(uint32_t id, double capacity_bps) {
  Link& link = links_[id];
  link.capacity = capacity_bps;
  if (link.at_host) link.level = capacity_bps;
  for (uint32_t slot = link.first_slot; slot < link.first_slot + link.listed; ++slot) change(slot_group_[slot]);
  check(id);
}

double PricedShares::price_of(double level) const {
  return alpha_ == Alpha::kWindows ? 1 / level : 1 / (level * std::cbrt(level));
}

double PricedShares::rate_at(double price) const {
  if (alpha_ == Alpha::kWindows) return 1 / price;
  const double root = std::sqrt(price);
  return 1 / (root * std::sqrt(root));
}

PricedShares::Claim PricedShares::claim_of(uint32_t id, uint32_t at_use) const {
  const Group& group = groups_[id];
  Claim claim{id, 0, 0, group.limit, 0};
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use) {
    const double share = use_parts_[use] * group.part;
    if (share == 0) continue;
    if (use == at_use) {
      claim.share = share;
      claim.weight = share * group.flows;
      continue;
    }
    const Link& link = links_[use_link_[use]];
    if (link.at_host)
      claim.most = std::min(claim.most, link.level / share);
    else
      claim.others += share * link.price;
  }
  return claim;
}

double PricedShares::rate_of(const Link& link, const Claim& claim, double level, double price) const {
  if (link.at_host) return std::min({claim.most, rate_at(claim.others), level / claim.share});
  return std::min(claim.most, rate_at(claim.others + claim.share * price));
}

PricedShares::Sum PricedShares::sum_at(const Link& link, double level) const {
  const double price = link.at_host ? 0 : price_of(level);
  Sum sum{0, 0};
  for (const Claim& claim : claims_) {
    const double rate = rate_of(link, claim, level, price);
    sum.load += claim.weight * rate;
    if (link.at_host)
      sum.slope += rate == level / claim.share ? claim.weight / claim.share : 0;
    else if (rate < claim.most)
      sum.slope += claim.weight * rate * claim.share * price / ((claim.others + claim.share * price) * level);
  }
  return sum;
}

// Where the load is the target: Newton's method on a concave function, kept in bounds.
double PricedShares::level_of(const Link& link, double target) const {
  const double free = link.at_host ? link.capacity : kFree;
  if (sum_at(link, free).load <= target) return free;
  if (target <= 0) return 0;
  double weight = 0;
  for (const Claim& claim : claims_) weight += claim.weight;
  double level = link.level > 0 && link.level < kFree ? link.level : target / weight;
  double low = 0, high = kFree;
  for (int i = 0; i < 50; ++i) {
    const Sum sum = sum_at(link, level);
    const double excess = sum.load - target;
    if (std::abs(excess) <= tolerance_ / 64 * target) break;
    (excess > 0 ? high : low) = level;
    level -= sum.slope > 0 ? excess / sum.slope : kFree;
    if (level > low && level < high) continue;
    level = high == kFree ? 2 * low : (low + high) / 2;
  }
  return level;
}

double PricedShares::target_of(const Link& link) const {
  return link.reverse == kNone ? link.capacity : std::max(0.0, link.capacity - ack_part_ * links_[link.reverse].load);
}

void PricedShares::balance(uint32_t id) {
  Link& link = links_[id];
  claims_.clear();
  for (uint32_t slot = link.first_slot; slot < link.first_slot + link.listed; ++slot)
    claims_.push_back(claim_of(slot_group_[slot], slot_use_[slot]));
  link.level = level_of(link, target_of(link));
  if (!link.at_host) link.price = link.level == kFree ? 0 : price_of(link.level);
  double load = 0;
  for (const Claim& claim : claims_) {
    move(claim.group, rate_of(link, claim, link.level, link.price));
    load += claim.weight * groups_[claim.group].rate;
  }
  link.load = load;  // afresh: differences of many moves would add up to something
  link.waiting = false;
}

void PricedShares::move(uint32_t id, double rate) {
  Group& group = groups_[id];
  if (rate > 0 && std::abs(rate - group.rate) <= tolerance_ / 8 * rate) return;  // 0: perhaps since set_parts()
  add_load(group, rate - group.rate);
  group.rate = rate;
  if (group.moved) return;
  group.moved = true;
  moved_.push_back(id);
}

void PricedShares::add_load(const Group& group, double rate) {
  if (group.flows == 0) return;
  for (uint32_t use = group.first_use; use < group.first_use + group.uses; ++use) {
    if (use_parts_[use] == 0) continue;
    Link& link = links_[use_link_[use]];
    link.load += group.flows * (use_parts_[use] * group.part) * rate;
    check(use_link_[use]);
    if (link.reverse != kNone && ack_part_ > 0) check(link.reverse);
  }
}

void PricedShares::check(uint32_t id) {
  Link& link = links_[id];
  if (link.waiting) return;
  const double target = target_of(link), slack = tolerance_ * (1 + rounds_ / kPatience) * link.capacity;
  const bool has_less = link.at_host ? link.level < link.capacity : link.price > 0;
  if (link.load <= target + slack && (link.load >= target - slack || !has_less)) return;
  link.waiting = true;
  queue_.push_back(id);
}

void PricedShares::refresh(uint32_t id) {
  groups_[id].changed = false;
  if (groups_[id].flows == 0) return;
  const Claim claim = claim_of(id, kNone);
  move(id, std::min(claim.most, rate_at(claim.others)));
}

std::span<const uint32_t> PricedShares::update() {
  moved_.clear();
  for (const uint32_t group : changed_) refresh(group);
  changed_.clear();
  for (rounds_ = 0; !queue_.empty(); ++rounds_) {
    round_.swap(queue_);
    for (const uint32_t link : round_) balance(link);
    round_.clear();
  }
  rounds_ = 0;
  size_t kept = 0;
  for (const uint32_t id : moved_) {
    groups_[id].moved = false;
    if (groups_[id].flows != 0) moved_[kept++] = id;
  }
  moved_.resize(kept);
  return moved_;
}

size_t PricedShares::bytes() const {
  const size_t lists = changed_.capacity() + moved_.capacity() + queue_.capacity() + round_.capacity();
  return table_bytes() + lists * sizeof(uint32_t) + claims_.capacity() * sizeof(Claim);
}

}  // namespace orrery::sim
