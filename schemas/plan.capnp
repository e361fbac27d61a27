@0xd1c5a0b7f1e34a03;
# Controller <-> agent. The agent's DEALER sends AgentMessage, the controller's ROUTER sends ControllerMessage.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");
using Common = import "common.capnp";

struct HostPlan {
  host @0 :Text;
  term @1 :UInt64;                   # leader epoch; an agent refuses a lower one than it has seen
  revision @2 :UInt64;               # plan number within the term
  leaseNs @3 :UInt64;                # from receipt; default 3 s
  flows @4 :List(FlowPlan);          # the whole plan of the host: replaces what it had
}

struct FlowPlan {
  flowId @0 :UInt64;
  commId @1 :UInt64;                 # 0: any connection between the two addresses
  src @2 :Data;
  dst @3 :Data;
  protocol @4 :UInt8;
  ordinal @5 :UInt16;                # n-th connection of the process to that peer, 0xffff: all
  tuple @6 :Common.FiveTuple;        # when the flow exists already
  path @7 :List(Text);               # "leaf1:p5" egress ports in order, for people and for checks
  backups @8 :List(Backup);
  hops @9 :List(HashHop);            # hashing decisions the source port must win (driver `entropy`)
  srcPortFirst @10 :UInt16;
  srcPortLast @11 :UInt16;
  srcPortMask @12 :UInt16;
  srcPortValue @13 :UInt16;
  releaseOffsetNs @14 :UInt64;
  paceBps @15 :UInt64;
  dscp @16 :UInt8 = 255;             # 255: leave alone
}

struct Backup { path @0 :List(Text); }

struct HashHop {
  seed @0 :UInt32;
  groupSize @1 :UInt16;
  member @2 :UInt16;
  hashFunction @3 :UInt8;            # enum orrery_hash_function
}

struct Lease {
  term @0 :UInt64;
  revision @1 :UInt64;               # the plan whose lease is renewed
  leaseNs @2 :UInt64;
}

struct Ack {
  host @0 :Text;                     # or switch
  term @1 :UInt64;
  revision @2 :UInt64;
  accepted @3 :Bool;
  reason @4 :Text;                   # when refused
  entries @5 :UInt32;                # flows or rules in force
}

struct AgentHello {
  host @0 :Text;
  schemaVersion @1 :UInt16;
  version @2 :Text;
  addresses @3 :List(Data);
  processes @4 :UInt32;
  features @5 :List(Text);           # "preload", "bpf", "edt", "roce", ...
  layers @6 :List(UInt32);           # attached processes by preload layer, in the order of enum orrery_layer
}

struct AgentMessage {
  union {
    hello @0 :AgentHello;            # at connect and every second: also the sign of life
    ack @1 :Ack;
  }
}

struct ControllerMessage {
  union {
    plan @0 :HostPlan;
    lease @1 :Lease;
    withdraw @2 :Lease;              # forget the plan now
    refused @3 :Text;                # answer to a hello the controller cannot accept: why, and what to do
  }
}
