#include "controller/api/peers.h"

#include <utility>

namespace orrery::api {

bool Peers::hello(const std::string& identity, const std::string& name, uint64_t now_ns) {
  const auto before = name_by_identity_.find(identity);
  if (before != name_by_identity_.end() && before->second != name) {  // one connection speaks for one name
    by_name_.erase(before->second);
    name_by_identity_.erase(before);
  }
  Peer& peer = by_name_[name];
  const bool anew = peer.identity != identity;
  if (anew) {
    name_by_identity_.erase(peer.identity);
    peer.replaced = std::exchange(peer.identity, identity);
    name_by_identity_[identity] = name;
  }
  peer.seen_ns = now_ns;
  return anew;
}

bool Peers::was_replaced(const std::string& identity, std::string_view name) const {
  const auto found = by_name_.find(name);
  return found != by_name_.end() && found->second.replaced == identity && found->second.identity != identity;
}

std::string_view Peers::name_of(const std::string& identity) const {
  const auto found = name_by_identity_.find(identity);
  return found == name_by_identity_.end() ? std::string_view() : found->second;
}

const std::string* Peers::identity_of(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second.identity;
}

std::vector<std::string> Peers::expire(uint64_t now_ns, uint64_t timeout_ns) {
  std::vector<std::string> gone;
  for (auto peer = by_name_.begin(); peer != by_name_.end();) {
    if (now_ns < peer->second.seen_ns + timeout_ns) {
      ++peer;
      continue;
    }
    gone.push_back(peer->first);
    name_by_identity_.erase(peer->second.identity);
    peer = by_name_.erase(peer);
  }
  return gone;
}

std::vector<std::string> Peers::names() const {
  std::vector<std::string> names;
  for (const auto& [name, peer] : by_name_) names.push_back(name);
  return names;
}

}  // namespace orrery::api
