@0xd1c5a0b7f1e34a01;
# Types that several conversations share.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");

struct FiveTuple {
  src @0 :Data;        # 16 bytes, network byte order, IPv4 as v4-mapped
  dst @1 :Data;
  srcPort @2 :UInt16;
  dstPort @3 :UInt16;
  protocol @4 :UInt8;  # IPPROTO_*
}

struct QueuePair {     # one RC or UC queue pair over RoCEv2; its UDP source port is the five-tuple's
  qpn @0 :UInt32;
  destQpn @1 :UInt32;
  device @2 :Text;
  flags @3 :UInt8;             # enum orrery_qp_flag (common/abi/event_abi.h)
  trafficClass @4 :UInt8;
  flowLabel @5 :UInt32;        # 0: the source port follows from the queue pair numbers
  cycle @6 :UInt32;            # times it had been made ready before
  moves @7 :UInt32;            # times it took another source port while it ran
  postedSends @8 :UInt64;      # totals since birth, of work requests
  completedSends @9 :UInt64;
  completionErrors @10 :UInt64;
  failedPosts @11 :UInt64;
  deferredSends @12 :UInt64;   # of the posted ones: held back for a release offset or pace first
  drainedEarly @13 :UInt64;    # of the deferred ones: posted before their time
}
