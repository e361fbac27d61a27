// A site's list of hosts: a CSV with a line per host and its place in the fabric, made into a Clos.
//
//   ip,DSW,PSW,ASW
//   10.3.1.7,G6,P10,S14
//
// The first column that is no place names the host. ASW (or leaf, tor) is its leaf, PSW (pod, spine) its pod: the
// group of switches above the leaves; leaves of the same name in two pods are two. DSW (core) is the group of switches
// above the pods. Without PSW there is one pod; the file says who is under which switch, but neither rates nor how many
// switches a group has: these are options. Form and column names: the cluster dataset of Cao et al., "Crux", SIGCOMM
// 2024.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "tools/planning/fabric/clos.h"

namespace orrery::planning {

struct HostListOptions {
  std::string name = "imported";
  uint32_t nics = 1;  // of each host, all to its leaf
  uint64_t nic_bps = 100'000'000'000;
  double oversubscription = 1;       // of the fullest leaf: rate of its hosts / rate of its uplinks, at most
  double core_oversubscription = 1;  // of the largest pod's spines, likewise
  uint64_t uplink_bps = 0;           // 0: nic_bps
  uint64_t core_bps = 0;             // 0: uplink_bps
  uint32_t spines = 0;               // of each pod; 0: one per uplink that the oversubscription asks for
  uint32_t mtu_bytes = 9000;
  uint32_t hash_seed = 1;
};

inline constexpr size_t kMaxHostListBytes = 64u << 20;

// Leaves, pods and hosts are those of the text; uplinks, spines and cores those that the options ask for. A name of
// more than 63 characters (a hash, for instance) is cut to 12. Errors: kInvalidArgument with line, reason and cure.
Result<Clos> read_host_list(std::string_view text, const std::string& file_name, const HostListOptions& options);
Result<Clos> load_host_list(const std::string& path, const HostListOptions& options);

}  // namespace orrery::planning
