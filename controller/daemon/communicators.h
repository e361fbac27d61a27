// Communicators as their ranks announced them, and what they were seen to do. Everything here comes from agents, who
// have it from hostile processes: events are believed only of a host's own addresses, and all memory is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/ip_address.h"
#include "common/msg/intent_messages.h"
#include "controller/fabric/graph.h"
#include "controller/forecast/forecaster.h"
#include "controller/state/saved_state.h"

namespace orrery::daemon {

using AddressPair = std::pair<IpAddress, IpAddress>;  // sender, receiver

struct Rank {
  IpAddress address;
  std::string host;
  bool gone = false;
  bool realign = false;          // its agent is a new one and counts its collectives from 0 again
  uint64_t sequence_offset = 0;  // added to what that agent says
};

// What one host sends another for a communicator.
struct PairLoad {
  uint64_t operation_bytes = 0;  // most of one operation
  uint64_t round_bytes = 0;      // of all in a round of the job together
  uint32_t round_calls = 0;      // that these are; 0: no round is known

  // A round in which the largest operation has no place is of the past.
  bool has_round() const { return round_calls != 0 && round_bytes >= operation_bytes; }
  uint64_t bytes() const { return has_round() ? round_bytes : operation_bytes; }
  uint32_t calls() const { return has_round() ? round_calls : 1; }
};

// An operation, as often as a communicator calls it in a round.
struct Calls {
  forecast::Operation operation;
  uint32_t count = 0;
  friend bool operator==(const Calls&, const Calls&) = default;
};

struct Communicator {
  uint64_t comm_id = 0;
  uint32_t nranks = 0;
  std::string first_host;                    // that announced a rank
  std::map<uint32_t, Rank> ranks;            // announced ones
  uint32_t gone = 0;                         // ranks
  uint64_t gone_since_ns = 0;                // first rank that went
  uint64_t seen_ns = 0;                      // last sign of life
  std::map<AddressPair, PairLoad> pairs;     // different hosts that send to each other
  std::vector<Calls> round;                  // that `pairs` hold the bytes of
  bool device_traffic = false;               // some rank may also send without the CPU: partly uncontrolled
  bool assumed = true;                       // `pairs` is the ring assumed at announcement, no operation was seen yet
  std::vector<forecast::Operation> learned;  // distinct operations that all ranks call alike
  bool exchanged = false;                    // an all-to-all was seen, by name or as a group of sends to all others
  bool mixed = false;                        // and something else
  bool sends = false;                        // something was seen that NCCL makes of sends to one peer after another
  uint32_t group = 0;                        // of the observed rank's last send
  uint32_t group_rank = 0xffffffff;          // that rank
  std::vector<bool> group_peers;             // whom it sent to in that group
  uint32_t group_sends = 0;                  // how many others these are
  bool group_whole = false;                  // it began while that rank was observed
  uint64_t collectives = 0;
  uint64_t bytes_total = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  forecast::Operation last;
  // Observation follows one rank: the lowest that has reported.
  uint32_t observed_rank = 0xffffffff;
  uint64_t next_sequence = 0;  // of the observed rank

  // Release offsets hold for all that a communicator sends, so rounds are for those that do nothing but all-to-alls.
  bool only_exchanges() const { return exchanged && !mixed; }
  bool complete() const { return nranks != 0 && ranks.size() == nranks && gone == 0; }
  // Of the hosts in rank order: communicators placed alike do alike.
  uint64_t hosts_hash() const;
};

// What a change means for the plan.
enum class Change { kNone, kUsage, kMembership };

struct Observation {
  Change change = Change::kNone;
  bool counts = false;             // a collective of the observed rank, for forecast and hit accounting
  std::vector<AddressPair> pairs;  // it sends over; filled when it counts
};

class CommunicatorBook {
 public:
  explicit CommunicatorBook(const fabric::Graph& fabric) : fabric_(fabric) {}

  Change on_event(const std::string& host, const msg::CommunicatorEvent& event, uint64_t now_ns);
  Observation on_intent(const std::string& host, const msg::Intent& intent, uint64_t now_ns);
  // What it calls in a round of its job. Of sends one rank's are known, and taken as a pattern for all.
  Change set_round(uint64_t comm_id, std::vector<Calls> round);
  void touch(uint64_t comm_id, uint64_t now_ns);
  // The agent of the host is gone: another rank is observed meanwhile.
  void on_agent_gone(const std::string& host);
  // It is a new one: it counts collectives from 0 again.
  void on_agent_restarted(const std::string& host);
  // Ids of communicators that ended, lost a host or were silent too long; they are gone from the book.
  std::vector<uint64_t> expire(uint64_t now_ns, const std::vector<std::string>& lost_hosts);

  // What a simulation expects the NIC of an address to send in an iteration, 0: nothing is expected. In place of an
  // equal guess for all, until something is seen of that NIC.
  void expect(std::function<uint64_t(const IpAddress&)> bytes) { expected_bytes_ = std::move(bytes); }

  void restore(const state::SavedState& saved, uint64_t now_ns);
  void save(state::SavedState& out) const;

  const std::map<uint64_t, Communicator>& all() const { return communicators_; }
  Communicator* find(uint64_t comm_id);
  // Changes whenever what save() gives changes.
  uint64_t version() const { return version_; }
  uint64_t refused() const { return refused_; }  // events that broke a rule or a bound

 private:
  Change announce(const std::string& host, const msg::CommunicatorEvent& event, uint64_t now_ns);
  Change leave(const std::string& host, const msg::CommunicatorEvent& event, uint64_t now_ns);
  void complete(Communicator& communicator);
  void assume_ring(Communicator& communicator);
  Change learn(Communicator& communicator, const msg::Intent& intent, std::vector<AddressPair>& pairs);
  Change add_flows(Communicator& communicator, const forecast::Operation& operation, uint32_t caller,
                   std::vector<AddressPair>* pairs);
  void forget(std::map<uint64_t, Communicator>::iterator communicator);

  const fabric::Graph& fabric_;
  std::map<uint64_t, Communicator> communicators_;
  std::map<uint64_t, std::vector<forecast::Operation>> signatures_;  // by hosts_hash
  std::function<uint64_t(const IpAddress&)> expected_bytes_ = [](const IpAddress&) { return uint64_t{0}; };
  std::unordered_set<IpAddress> senders_seen_;   // in operations
  std::map<std::string, size_t> count_by_host_;  // communicators by the host that announced them first
  size_t rank_count_ = 0;
  uint64_t version_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace orrery::daemon
