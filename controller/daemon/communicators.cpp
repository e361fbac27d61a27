#include "controller/daemon/communicators.h"

#include <algorithm>
#include <unordered_map>

#include "common/abi/event_abi.h"
#include "controller/forecast/traffic_model.h"

namespace orrery::daemon {
namespace {

constexpr size_t kMaxCommunicators = 65'536;
constexpr size_t kMaxCommunicatorsPerHost = 4096;
constexpr uint32_t kMaxRanks = 65'536;  // of one communicator
constexpr size_t kMaxRanksTogether = 1u << 20;
constexpr size_t kMaxLearned = 32;  // operations of one communicator
constexpr size_t kMaxSignatures = 4096;
constexpr size_t kMaxPairs = 1u << 16;          // of one communicator
constexpr uint64_t kAssumedBytes = 1 << 20;     // of each ring flow before an operation was seen: only ratios matter
constexpr uint64_t kEndingNs = 1'000'000'000;   // from the first rank that goes to forgetting the rest
constexpr uint64_t kSilentNs = 60'000'000'000;  // agents state live communicators every second

bool is_point_to_point(uint16_t op) {
  return op == ORRERY_OP_SEND || op == ORRERY_OP_RECV;
}

// How many peers it serves at a time depends on NCCL's channels.
bool made_of_sends(uint16_t op) {
  return is_point_to_point(op) || op == ORRERY_OP_ALL_TO_ALL || op == ORRERY_OP_ALL_TO_ALL_V ||
         op == ORRERY_OP_GATHER || op == ORRERY_OP_SCATTER;
}

// A host may neither take over another host's rank, nor bring down a communicator that it has no part in.
bool contradicts(const Communicator& communicator, const std::string& host, const msg::CommunicatorEvent& event) {
  const auto holds = [&host](const auto& rank) { return rank.second.host == host; };
  if (communicator.nranks != event.nranks)
    return std::none_of(communicator.ranks.begin(), communicator.ranks.end(), holds);
  const auto member = communicator.ranks.find(event.rank);
  return member != communicator.ranks.end() && member->second.host != host && communicator.gone == 0;
}

// Whether it changes what the communicator is taken for. `intent`: of the observed rank, each call once.
bool note_exchange(Communicator& communicator, const msg::Intent& intent) {
  const bool before = communicator.only_exchanges();
  if (intent.op == ORRERY_OP_SEND) {
    const bool same_rank = intent.rank == communicator.group_rank;
    if (!same_rank || intent.group != communicator.group) {
      communicator.mixed |=
          same_rank && communicator.group_whole && communicator.group_sends + 1 != communicator.nranks;
      communicator.group = intent.group;
      communicator.group_rank = intent.rank;
      communicator.group_peers.assign(communicator.nranks, false);
      communicator.group_sends = 0;
      communicator.group_whole = same_rank;
    }
    if (intent.peer < communicator.nranks && intent.peer != intent.rank && !communicator.group_peers[intent.peer]) {
      communicator.group_peers[intent.peer] = true;
      ++communicator.group_sends;
    }
    communicator.exchanged |= communicator.group_sends + 1 == communicator.nranks;
  } else if (intent.op != ORRERY_OP_RECV) {
    (intent.op == ORRERY_OP_ALL_TO_ALL ? communicator.exchanged : communicator.mixed) = true;
  }
  return communicator.only_exchanges() != before;
}

std::map<AddressPair, uint64_t> sent_by(Communicator& communicator, const forecast::Operation& operation,
                                        uint32_t caller) {
  std::map<AddressPair, uint64_t> sent;
  for (const forecast::RankFlow& flow :
       forecast::flows_of(operation.op, operation.bytes, communicator.nranks, operation.peer, caller)) {
    const Rank &src = communicator.ranks[flow.src_rank], &dst = communicator.ranks[flow.dst_rank];
    if (src.host != dst.host) sent[{src.address, dst.address}] += flow.bytes;
  }
  return sent;
}

// How often a rank sends to one other.
uint32_t sends_in(const std::vector<Calls>& round) {
  std::map<uint32_t, uint32_t> to;
  uint32_t most = 0;
  for (const Calls& calls : round)
    if (calls.operation.op == ORRERY_OP_SEND) most = std::max(most, to[calls.operation.peer] += calls.count);
  return most;
}

// More by so much that a plan made for `planned` may be a bad one.
bool outgrown(uint64_t planned, uint64_t bytes) {
  return bytes > planned + planned / 4;
}

}  // namespace

uint64_t Communicator::hosts_hash() const {
  uint64_t hash = nranks;
  for (const auto& [rank, member] : ranks) {
    hash ^= std::hash<IpAddress>()(member.address) + rank;
    hash *= 0xff51afd7ed558ccdull;
    hash ^= hash >> 33;
  }
  return hash;
}

Communicator* CommunicatorBook::find(uint64_t comm_id) {
  const auto found = communicators_.find(comm_id);
  return found == communicators_.end() ? nullptr : &found->second;
}

void CommunicatorBook::touch(uint64_t comm_id, uint64_t now_ns) {
  if (Communicator* communicator = find(comm_id)) communicator->seen_ns = now_ns;
}

Change CommunicatorBook::on_event(const std::string& host, const msg::CommunicatorEvent& event, uint64_t now_ns) {
  return event.kind == msg::CommunicatorEvent::Kind::kGone ? leave(host, event, now_ns) : announce(host, event, now_ns);
}

Change CommunicatorBook::announce(const std::string& host, const msg::CommunicatorEvent& event, uint64_t now_ns) {
  const fabric::Nic* nic = fabric_.find_nic(event.address);
  const bool own_address = nic != nullptr && fabric_.node(nic->host).name == host;
  auto found = communicators_.find(event.comm_id);
  if (!own_address || event.nranks > kMaxRanks ||
      (found != communicators_.end() && contradicts(found->second, host, event))) {
    ++refused_;
    return Change::kNone;
  }
  if (found != communicators_.end() && (found->second.nranks != event.nranks || found->second.gone != 0)) {
    forget(found);  // the id lives again, as another communicator
    found = communicators_.end();
  }
  const bool fits = communicators_.size() < kMaxCommunicators && rank_count_ < kMaxRanksTogether &&
                    count_by_host_[host] < kMaxCommunicatorsPerHost;
  if (found == communicators_.end()) {
    if (!fits) {
      ++refused_;
      return Change::kNone;
    }
    communicators_[event.comm_id].first_host = host;
    ++count_by_host_[host];
  }
  Communicator& communicator = communicators_[event.comm_id];
  communicator.comm_id = event.comm_id;
  communicator.nranks = event.nranks;
  communicator.seen_ns = now_ns;
  communicator.device_traffic |= event.device_traffic;
  if (communicator.ranks.contains(event.rank)) return Change::kNone;  // stated again
  if (rank_count_ >= kMaxRanksTogether) {
    ++refused_;
    return Change::kNone;
  }
  communicator.ranks[event.rank] = {event.address, host};
  ++rank_count_;
  if (!communicator.complete()) return Change::kNone;
  complete(communicator);
  return Change::kMembership;
}

Change CommunicatorBook::leave(const std::string& host, const msg::CommunicatorEvent& event, uint64_t now_ns) {
  Communicator* communicator = find(event.comm_id);
  if (communicator == nullptr) return Change::kNone;
  const auto member = communicator->ranks.find(event.rank);
  if (member == communicator->ranks.end() || member->second.host != host || member->second.gone) return Change::kNone;
  member->second.gone = true;
  if (communicator->gone++ == 0) communicator->gone_since_ns = now_ns;
  return Change::kMembership;
}

void CommunicatorBook::on_agent_gone(const std::string& host) {
  for (auto& [id, communicator] : communicators_) {
    const auto observed = communicator.ranks.find(communicator.observed_rank);
    if (observed != communicator.ranks.end() && observed->second.host == host) communicator.observed_rank = 0xffffffff;
  }
}

void CommunicatorBook::on_agent_restarted(const std::string& host) {
  for (auto& [id, communicator] : communicators_)
    for (auto& [rank, member] : communicator.ranks)
      if (member.host == host) member.realign = true;
}

void CommunicatorBook::complete(Communicator& communicator) {
  ++version_;
  const auto signature = signatures_.find(communicator.hosts_hash());
  if (signature != signatures_.end()) {
    communicator.assumed = false;
    communicator.learned = signature->second;
    for (const forecast::Operation& operation : communicator.learned) add_flows(communicator, operation, 0, nullptr);
    return;
  }
  assume_ring(communicator);
}

void CommunicatorBook::assume_ring(Communicator& communicator) {
  std::unordered_map<IpAddress, uint32_t> receivers;  // by sender
  for (uint32_t rank = 0; rank < communicator.nranks; ++rank) {
    const AddressPair pair = {communicator.ranks[rank].address,
                              communicator.ranks[(rank + 1) % communicator.nranks].address};
    const bool same_host = communicator.ranks[rank].host == communicator.ranks[(rank + 1) % communicator.nranks].host;
    if (!same_host && communicator.pairs.emplace(pair, PairLoad{kAssumedBytes}).second) ++receivers[pair.first];
  }
  for (auto& [pair, load] : communicator.pairs) {
    const uint64_t expected = senders_seen_.contains(pair.first) ? 0 : expected_bytes_(pair.first);
    if (expected != 0) load.operation_bytes = std::max<uint64_t>(1, expected / receivers[pair.first]);
  }
}

Observation CommunicatorBook::on_intent(const std::string& host, const msg::Intent& intent, uint64_t now_ns) {
  Communicator* communicator = find(intent.comm_id);
  Observation observation;
  if (communicator == nullptr || !communicator->complete()) return observation;
  const auto member = communicator->ranks.find(intent.rank);
  if (member == communicator->ranks.end() || member->second.host != host) {
    ++refused_;
    return observation;
  }
  communicator->seen_ns = now_ns;
  if ((intent.flags & ORRERY_COLLECTIVE_CAPTURED) != 0) {  // recorded only: what it will send can be planned for
    observation.change = learn(*communicator, intent, observation.pairs);
    return observation;
  }
  if (std::exchange(member->second.realign, false))
    member->second.sequence_offset = communicator->next_sequence - intent.sequence;
  const uint64_t sequence = intent.sequence + member->second.sequence_offset;
  if (intent.rank < communicator->observed_rank) {
    communicator->observed_rank = intent.rank;
    // What the rank observed so far called is this rank's call too; point-to-point calls are each rank's own.
    communicator->next_sequence =
        is_point_to_point(intent.op) ? sequence : std::max(communicator->next_sequence, sequence);
  }
  const bool observed = intent.rank == communicator->observed_rank && sequence >= communicator->next_sequence;
  if (!observed && !is_point_to_point(intent.op))
    return observation;  // an end told later, or another rank's view of the same
  observation.change = learn(*communicator, intent, observation.pairs);
  if (!observed) return observation;
  if (note_exchange(*communicator, intent)) observation.change = std::max(observation.change, Change::kUsage);
  observation.counts = true;
  communicator->next_sequence = sequence + 1;
  ++communicator->collectives;
  communicator->bytes_total += intent.bytes;
  communicator->last = {intent.op, intent.bytes, intent.peer};
  return observation;
}

Change CommunicatorBook::learn(Communicator& communicator, const msg::Intent& intent, std::vector<AddressPair>& pairs) {
  const forecast::Operation operation = {intent.op, intent.bytes, intent.peer};
  if (communicator.assumed) {
    for (auto& [pair, load] : communicator.pairs) load = {};
    communicator.assumed = false;
  }
  if (!is_point_to_point(intent.op)) {
    const auto& known = communicator.learned;
    if (std::find(known.begin(), known.end(), operation) == known.end() && known.size() < kMaxLearned) {
      communicator.learned.push_back(operation);
      ++version_;
      if (signatures_.size() < kMaxSignatures || signatures_.contains(communicator.hosts_hash()))
        signatures_[communicator.hosts_hash()] = communicator.learned;
    }
  }
  return add_flows(communicator, operation, intent.rank, &pairs);
}

Change CommunicatorBook::add_flows(Communicator& communicator, const forecast::Operation& operation, uint32_t caller,
                                   std::vector<AddressPair>* pairs) {
  Change change = Change::kNone;
  if (made_of_sends(operation.op) && !std::exchange(communicator.sends, true)) change = Change::kUsage;
  for (const auto& [pair, bytes] : sent_by(communicator, operation, caller)) {
    if (pairs != nullptr) {
      pairs->push_back(pair);
      senders_seen_.insert(pair.first);
    }
    const auto known = communicator.pairs.find(pair);
    if (known == communicator.pairs.end()) {
      if (communicator.pairs.size() >= kMaxPairs) continue;
      communicator.pairs[pair] = {bytes};
      communicator.round.clear();    // to be asked for again, with the new pair
      change = Change::kMembership;  // a pair no plan has thought of: its connections may be about to be made
    } else if (outgrown(known->second.operation_bytes, bytes)) {
      known->second.operation_bytes = bytes;
      change = std::max(change, Change::kUsage);
    }
  }
  return change;
}

Change CommunicatorBook::set_round(uint64_t comm_id, std::vector<Calls> round) {
  Communicator* communicator = find(comm_id);
  if (communicator == nullptr || communicator->round == round) return Change::kNone;
  std::map<AddressPair, PairLoad> sums;
  for (const Calls& calls : round) {
    if (is_point_to_point(calls.operation.op)) continue;
    for (const auto& [pair, bytes] : sent_by(*communicator, calls.operation, 0)) {
      sums[pair].round_bytes += bytes * calls.count;
      sums[pair].round_calls += calls.count;
    }
  }
  const uint32_t sends = sends_in(round);
  bool other = false;
  for (auto& [pair, load] : communicator->pairs) {
    const PairLoad before = load;
    const PairLoad& sum = sums[pair];
    // What is larger than all collectives together was sent by itself.
    const uint32_t own = sum.round_bytes < load.operation_bytes ? sends : 0;
    load.round_bytes = sum.round_bytes + load.operation_bytes * own;
    load.round_calls = sum.round_calls + own;
    other |= outgrown(before.bytes(), load.bytes()) || outgrown(load.bytes(), before.bytes()) ||
             outgrown(before.calls(), load.calls()) || outgrown(load.calls(), before.calls());
  }
  communicator->round = std::move(round);
  return other ? Change::kUsage : Change::kNone;
}

void CommunicatorBook::forget(std::map<uint64_t, Communicator>::iterator communicator) {
  ++version_;
  rank_count_ -= communicator->second.ranks.size();
  --count_by_host_[communicator->second.first_host];
  communicators_.erase(communicator);
}

std::vector<uint64_t> CommunicatorBook::expire(uint64_t now_ns, const std::vector<std::string>& lost_hosts) {
  std::vector<uint64_t> ids;
  for (auto it = communicators_.begin(); it != communicators_.end();) {
    const auto communicator = it++;
    const Communicator& c = communicator->second;
    const bool lost = !lost_hosts.empty() && std::any_of(c.ranks.begin(), c.ranks.end(), [&](const auto& rank) {
      return std::binary_search(lost_hosts.begin(), lost_hosts.end(), rank.second.host);
    });
    const bool ended = c.gone != 0 && (c.gone == c.ranks.size() || now_ns >= c.gone_since_ns + kEndingNs);
    if (!lost && !ended && now_ns < c.seen_ns + kSilentNs) continue;
    ids.push_back(c.comm_id);
    forget(communicator);
  }
  return ids;
}

void CommunicatorBook::restore(const state::SavedState& saved, uint64_t now_ns) {
  for (const state::SavedSignature& s : saved.signatures) {
    auto& operations = signatures_[s.hosts_hash];
    if (operations.size() < kMaxLearned) operations.push_back({s.op, s.bytes, s.peer});
  }
  for (const state::SavedCommunicator& c : saved.communicators)
    for (uint32_t rank = 0; rank < c.ranks.size(); ++rank) {
      const fabric::Nic* nic = fabric_.find_nic(c.ranks[rank]);
      if (nic == nullptr) continue;  // the topology file has changed; the communicator stays incomplete and ages out
      const msg::CommunicatorEvent event{.comm_id = c.comm_id,
                                         .rank = rank,
                                         .nranks = static_cast<uint32_t>(c.ranks.size()),
                                         .address = c.ranks[rank]};
      announce(fabric_.node(nic->host).name, event, now_ns);
    }
}

void CommunicatorBook::save(state::SavedState& out) const {
  for (const auto& [id, communicator] : communicators_) {
    if (!communicator.complete()) continue;
    out.communicators.push_back({.comm_id = id});
    for (const auto& [rank, member] : communicator.ranks) out.communicators.back().ranks.push_back(member.address);
  }
  for (const auto& [hash, operations] : signatures_)
    for (const forecast::Operation& operation : operations)
      out.signatures.push_back({hash, operation.op, operation.bytes, operation.peer});
}

}  // namespace orrery::daemon
