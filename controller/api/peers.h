// Who is connected over a ROUTER socket: opaque identity <-> name, with the time of the last hello. A name has one
// identity, the newest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::api {

class Peers {
 public:
  // Whether the name is connected anew: unknown before, or now under another identity.
  bool hello(const std::string& identity, const std::string& name, uint64_t now_ns);
  // Whether another connection took this one's name and holds it still: two programs go by one name.
  bool was_replaced(const std::string& identity, std::string_view name) const;
  // "" when the identity has not said hello.
  std::string_view name_of(const std::string& identity) const;
  // Null when the name is not connected.
  const std::string* identity_of(std::string_view name) const;
  // Forgets and returns the names whose last hello is older than `timeout_ns`.
  std::vector<std::string> expire(uint64_t now_ns, uint64_t timeout_ns);
  std::vector<std::string> names() const;

 private:
  struct Peer {
    std::string identity;
    std::string replaced;  // identity before this one
    uint64_t seen_ns = 0;
  };
  std::map<std::string, Peer, std::less<>> by_name_;
  std::map<std::string, std::string, std::less<>> name_by_identity_;
};

}  // namespace orrery::api
