@0xd1c5a0b7f1e34a05;
# Controller <-> orrery-switch. The switch's DEALER sends SwitchMessage, the controller's ROUTER sends SwitchCommand.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");
using Common = import "common.capnp";
using Plan = import "plan.capnp";
using Telemetry = import "telemetry.capnp";

struct Rule {
  ruleId @0 :UInt32;
  match @1 :Common.FiveTuple;
  mask @2 :Common.FiveTuple;         # bits that count; an all-ones address, port 0xffff, protocol 0xff match exactly, zero matches all
  egressPort @3 :Text;               # port name on this switch
  backupPort @4 :Text;               # "": fall back to ECMP
}

struct RuleSet {
  switch @0 :Text;
  term @1 :UInt64;
  revision @2 :UInt64;
  leaseNs @3 :UInt64;
  rules @4 :List(Rule);              # the whole set: replaces what the switch had, new rules in before old ones out
}

struct SwitchHello {
  switch @0 :Text;
  schemaVersion @1 :UInt16;
  version @2 :Text;
  hashFunction @3 :UInt8;            # enum orrery_hash_function
  hashSeed @4 :UInt32;
  ports @5 :List(Text);              # in group-member order
  tableSize @6 :UInt32;
  maskLimit @7 :UInt32;
  features @8 :List(Text);           # "exact-path", "queue-telemetry", "local-reroute"
}

struct SwitchMessage {
  union {
    hello @0 :SwitchHello;           # at connect and every second
    ack @1 :Plan.Ack;
    telemetry @2 :Telemetry.SwitchTelemetry;
  }
}

struct SwitchCommand {
  union {
    rules @0 :RuleSet;
    lease @1 :Plan.Lease;
    withdraw @2 :Plan.Lease;
    refused @3 :Text;                # answer to a hello the controller cannot accept: why, and what to do
  }
}
