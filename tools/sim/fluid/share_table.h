// What every rule of sharing keeps of groups and links: which links a group uses with which part of its rate, and, link
// by link, the groups that are listed there.
//
// `Group` has rate, limit, part, first_use, flows and uses; `Link` has first_slot and listed. They are the rule's own
// structs, so that what it reads of a link lies together.
#pragma once

#include <algorithm>
#include <vector>

#include "tools/sim/fluid/shares.h"

namespace orrery::sim {

template <typename Group, typename Link>
class ShareTable : public Shares {
 public:
  uint32_t add_group(std::span<const uint32_t> links, std::span<const uint16_t> parts, uint16_t of,
                     double limit_bps) override {
    Group group;
    group.first_use = static_cast<uint32_t>(use_link_.size());
    group.uses = static_cast<uint16_t>(links.size());
    group.part = 1.0 / of;
    group.limit = limit_bps;
    use_link_.insert(use_link_.end(), links.begin(), links.end());
    use_parts_.insert(use_parts_.end(), parts.begin(), parts.end());
    groups_.push_back(group);
    return static_cast<uint32_t>(groups_.size() - 1);
  }
  void reserve(size_t groups, size_t uses) override {
    groups_.reserve(groups);
    use_link_.reserve(uses);
    use_parts_.reserve(uses);
  }
  void seal() override {
    use_slot_.assign(use_link_.size(), kNone);
    slot_use_.resize(use_link_.size());
    slot_group_.resize(use_link_.size());
    for (const uint32_t link : use_link_) ++links_[link].listed;
    uint32_t next = 0;
    for (Link& link : links_) {
      link.first_slot = next;
      next += link.listed;
      link.listed = 0;
    }
  }
  double rate_bps(uint32_t group) const override { return groups_[group].rate; }
  std::span<const uint32_t> links(uint32_t group) const override {
    return {use_link_.data() + groups_[group].first_use, groups_[group].uses};
  }
  double share(uint32_t group, size_t use) const override {
    return use_parts_[groups_[group].first_use + use] * groups_[group].part;
  }

 protected:
  explicit ShareTable(size_t links) : links_(links) {}

  void write_parts(Group& group, std::span<const uint16_t> parts, uint16_t of) {
    std::copy(parts.begin(), parts.end(), use_parts_.begin() + group.first_use);
    group.part = 1.0 / of;
  }
  // `group` at the link of `use`, where it is not yet listed.
  void list_at(uint32_t use, uint32_t group) {
    Link& link = links_[use_link_[use]];
    use_slot_[use] = link.listed++;
    slot_use_[link.first_slot + use_slot_[use]] = use;
    slot_group_[link.first_slot + use_slot_[use]] = group;
  }
  void unlist_at(uint32_t use) {
    Link& link = links_[use_link_[use]];
    const uint32_t hole = link.first_slot + use_slot_[use], last = link.first_slot + --link.listed;
    slot_use_[hole] = slot_use_[last];
    slot_group_[hole] = slot_group_[last];
    use_slot_[slot_use_[hole]] = hole - link.first_slot;
    use_slot_[use] = kNone;
  }
  size_t table_bytes() const {
    const size_t lists = use_link_.capacity() + use_slot_.capacity() + slot_use_.capacity() + slot_group_.capacity();
    return lists * sizeof(uint32_t) + use_parts_.capacity() * sizeof(uint16_t) + groups_.capacity() * sizeof(Group) +
           links_.capacity() * sizeof(Link);
  }

  std::vector<Group> groups_;
  std::vector<Link> links_;
  std::vector<uint32_t> use_link_;   // by use
  std::vector<uint32_t> use_slot_;   // by use: where it is listed, relative to Link::first_slot; kNone: not listed
  std::vector<uint16_t> use_parts_;  // by use
  std::vector<uint32_t> slot_use_;   // grouped by link, the listed ones first
  std::vector<uint32_t> slot_group_;
};

}  // namespace orrery::sim
