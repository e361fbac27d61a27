@0xd1c5a0b7f1e34a04;
# What switches and hosts measure of links, queues and paths.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");

struct LinkSample {
  port @0 :Text;                     # "leaf1:p5": the egress side
  up @1 :Bool;
  txBytes @2 :UInt64;                # totals since the switch agent started
  txPackets @3 :UInt64;
  drops @4 :UInt64;                  # packets its queue refused
  rxBytes @5 :UInt64;
  rxPackets @6 :UInt64;
}

struct QueueSample {
  port @0 :Text;
  maxBytes @1 :UInt64;               # largest backlog a packet met since the last sample
  meanBytes @2 :UInt64;
  samples @3 :UInt64;
}

struct RuleSample {
  ruleId @0 :UInt32;
  packets @1 :UInt64;
  bytes @2 :UInt64;
  backupPackets @3 :UInt64;
}

struct PathEvent {
  kind @0 :Kind;
  port @1 :Text;
  atTaiNs @2 :UInt64;
  detail @3 :Text;
  enum Kind { portDown @0; portUp @1; backupInUse @2; primaryInUse @3; }
}

struct SwitchTelemetry {
  switch @0 :Text;
  atTaiNs @1 :UInt64;
  links @2 :List(LinkSample);
  queues @3 :List(QueueSample);
  rules @4 :List(RuleSample);
  events @5 :List(PathEvent);
  noRoute @6 :UInt64;
  ttlExpired @7 :UInt64;
}
