@0xd1c5a0b7f1e34a02;
# Agent -> controller: what the host's jobs will send, sent and measured in one window. PUB, topic "intent".

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");
using Common = import "common.capnp";

struct IntentWindow {
  schemaVersion @0 :UInt16;          # 1
  host @1 :Text;                     # name in the topology file
  sequence @2 :UInt64;               # per agent start, from 1; a gap is a lost window
  startTaiNs @3 :UInt64;
  lengthNs @4 :UInt64;               # 10 ms; shorter for an urgent window
  urgent @5 :Bool;                   # sent at once, for a communicator that was just announced
  communicators @6 :List(CommunicatorEvent);
  intents @7 :List(Intent);
  flows @8 :List(FlowReport);
  clock @9 :ClockState;
  losses @10 :Losses;
  agentStartTaiNs @11 :UInt64;       # changes when the agent restarts: sequence starts again
}

struct CommunicatorEvent {
  kind @0 :Kind;
  commId @1 :UInt64;
  parentId @2 :UInt64;               # 0: not split from another
  rank @3 :UInt32;
  nranks @4 :UInt32;
  process @5 :UInt64;                # agent's number of the attached process, unique per agent start
  address @6 :Data;                  # address of the host NIC that the rank's traffic uses
  deviceTraffic @7 :Bool;            # may also send without the CPU: partly uncontrolled
  enum Kind { announced @0; ready @1; gone @2; }
}

struct Intent {
  commId @0 :UInt64;
  process @1 :UInt64;
  rank @2 :UInt32;
  op @3 :UInt16;                     # enum orrery_collective_op (common/abi/event_abi.h)
  bytes @4 :UInt64;                  # as the call names them
  peer @5 :UInt32;                   # root or peer rank, 0xffffffff: none
  group @6 :UInt32;
  calledTaiNs @7 :UInt64;            # entry of the call
  firstByteTaiNs @8 :UInt64;         # 0: not seen (yet)
  lastByteTaiNs @9 :UInt64;
  sequence @10 :UInt64;              # n-th collective of this communicator on this rank, from 0
  flags @11 :UInt16;                 # enum orrery_collective_flag
}

struct FlowReport {
  kind @0 :Kind;
  tuple @1 :Common.FiveTuple;        # src is this host
  commId @2 :UInt64;                 # 0: not joined to a communicator
  process @3 :UInt64;
  flowId @4 :UInt64;                 # flow of the plan that chose its source port, 0: none
  txBytes @5 :UInt64;                # totals since birth
  rxBytes @6 :UInt64;
  bursts @7 :UInt32;
  retransmits @8 :UInt32;
  role @9 :UInt8;                    # enum orrery_flow_role
  heldNs @10 :UInt64;
  queuePair @11 :Common.QueuePair;   # null: a connection
  enum Kind { born @0; progress @1; gone @2; }
}

struct ClockState {
  synchronized @0 :Bool;
  offsetNs @1 :Int64;                # of the local clock from its master
  boundNs @2 :UInt64;
  source @3 :Text;                   # "ptp4l", "none"
  releaseSuspended @4 :Bool;
}

struct Losses {
  ringDropped @0 :UInt64;            # totals since agent start
  noRing @1 :UInt64;
  noSlot @2 :UInt64;
  malformed @3 :UInt64;              # ring events refused by the checks
}
