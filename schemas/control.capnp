@0xd1c5a0b7f1e34a06;
# orreryctl <-> controller. REQ/REP, one Request, one Response.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");
using Common = import "common.capnp";

struct Request {
  union {
    planList @0 :Void;
    flowExplain @1 :UInt64;          # flow id
    linkList @2 :Void;
    jobList @3 :Void;
    hostList @4 :Void;
    switchList @5 :Void;
    health @6 :Void;
    forecastList @7 :Void;
    flowList @8 :Void;
    nicForecasts @9 :Void;
  }
}

struct Response {
  union {
    error @0 :Text;                  # says what to do
    planList @1 :PlanList;
    flowExplain @2 :FlowExplanation;
    linkList @3 :List(LinkState);
    jobList @4 :List(JobState);
    hostList @5 :List(HostState);
    switchList @6 :List(SwitchState);
    health @7 :Health;
    forecastList @8 :List(ForecastState);
    flowList @9 :FlowList;
    nicForecasts @10 :NicForecasts;
  }
}

struct PlanList {
  term @0 :UInt64;
  revision @1 :UInt64;
  driver @2 :Text;
  method @3 :Text;                   # "edge-colouring", "min-max"
  maxLoadBytes @4 :UInt64;           # busiest link, per round
  lowerBoundBytes @5 :UInt64;        # no assignment can do better
  plannedAtTaiNs @6 :UInt64;
  planningNs @7 :UInt64;
  flows @8 :List(PlannedFlow);
  bounds @9 :PlanBounds;
}

struct PlanBounds {                  # drain times of the busiest link per round; 0: not known (a plan of the last run)
  maxDrainNs @0 :UInt64;             # as planned
  lowerBoundNs @1 :UInt64;           # no assignment of whole flows can do better
  fluidBoundNs @2 :UInt64;           # nor can any routing, even one that splits flows at will
}

struct PlannedFlow {
  flowId @0 :UInt64;
  commId @1 :UInt64;
  srcHost @2 :Text;
  dstHost @3 :Text;
  tuple @4 :Common.FiveTuple;        # ports are 0 until the flow is born
  path @5 :List(Text);
  backup @6 :List(Text);
  bytesPerRound @7 :UInt64;
  releaseOffsetNs @8 :UInt64;
  paceBps @9 :UInt64;
  state @10 :State;
  onPath @11 :OnPath;
  enum State { planned @0; acknowledged @1; alive @2; fixed @3; }
  enum OnPath { unknown @0; yes @1; no @2; }
}

struct FlowExplanation {
  flow @0 :PlannedFlow;
  reasons @1 :List(Text);            # sentences, in order: what was demanded, what was considered, why this path
  hops @2 :List(HopExplanation);
  live @3 :List(LiveFlow);           # connections and queue pairs that carry it
  bounds @4 :PlanBounds;             # of the plan that it is part of
}

struct FlowList {
  total @0 :UInt64;                  # flows known
  flows @1 :List(LiveFlow);          # those that sent most
}

struct LiveFlow {
  tuple @0 :Common.FiveTuple;
  srcHost @1 :Text;
  dstHost @2 :Text;
  commId @3 :UInt64;                 # 0: of no communicator
  flowId @4 :UInt64;                 # of the plan in force, 0: not planned
  txBytes @5 :UInt64;
  path @6 :List(Text);               # as far as the controller can tell
  onPath @7 :PlannedFlow.OnPath;
  queuePair @8 :Common.QueuePair;    # null: a connection
  heldNs @9 :UInt64;                 # sends held back for release offsets, together
}

struct HopExplanation {
  port @0 :Text;
  decidedBy @1 :Text;                # "rule 12", "ECMP member 2 of 4", "only route"
  loadBytes @2 :UInt64;              # planned, per round
  alternatives @3 :List(Text);       # "leaf1:p6 (load 8 MiB)"
}

struct LinkState {
  port @0 :Text;                     # egress side
  peer @1 :Text;
  up @2 :Bool;
  rateBps @3 :UInt64;
  queueBytes @4 :UInt64;
  utilization @5 :Float64;           # measured, 0..1 of the rate, over the last second
  plannedBytes @6 :UInt64;           # per round
  txBytes @7 :UInt64;
  drops @8 :UInt64;
  queueMaxBytes @9 :UInt64;
  flows @10 :UInt32;                 # planned over it
}

struct JobState {
  commId @0 :UInt64;
  nranks @1 :UInt32;
  announced @2 :UInt32;
  hosts @3 :List(Text);              # by rank, "" where unknown
  collectives @4 :UInt64;
  bytesTotal @5 :UInt64;
  planHits @6 :UInt64;
  planMisses @7 :UInt64;
  lastOp @8 :UInt16;
  lastBytes @9 :UInt64;
  deviceTraffic @10 :Bool;           # it may also send without the CPU: partly uncontrolled
}

struct ForecastState {
  commId @0 :UInt64;
  op @1 :UInt16;
  bytes @2 :UInt64;
  windowStartTaiNs @3 :UInt64;
  windowEndTaiNs @4 :UInt64;
  periodNs @5 :UInt64;
  jitterNs @6 :UInt64;
  confidence @7 :Float64;
  hits @8 :UInt64;
  misses @9 :UInt64;
}

struct NicForecasts {                # what a simulation predicted, beside what is seen
  source @0 :Text;                   # what was simulated, in words; "": no prediction is loaded
  topology @1 :Text;
  sameFabric @2 :Bool;               # made on the controller's topology, not on one with the same NICs
  jobs @3 :List(ForecastJob);
  total @4 :UInt64;                  # NICs that send or are expected to
  nics @5 :List(NicForecast);        # those farthest from what was predicted, where not all are told
}

struct ForecastJob {
  name @0 :Text;
  periodNs @1 :UInt64;               # of an iteration
}

struct NicForecast {                 # rates are of payload
  host @0 :Text;
  nic @1 :Text;
  jobs @2 :Text;                     # expected to send by it: "train, eval"
  bytesPerIteration @3 :UInt64;
  predictedBps @4 :UInt64;           # over whole iterations
  predictedPeakBps @5 :UInt64;       # over the fullest second
  observedBps @6 :UInt64;
  observedPeakBps @7 :UInt64;
  verdict @8 :Verdict;
  enum Verdict { unknown @0; asPredicted @1; slower @2; faster @3; silent @4; notPredicted @5; }
}

struct HostState {
  host @0 :Text;
  connected @1 :Bool;
  lastSeenTaiNs @2 :UInt64;
  processes @3 :UInt32;
  planRevision @4 :UInt64;           # acknowledged
  planEntries @5 :UInt32;
  windows @6 :UInt64;
  windowsLost @7 :UInt64;
  eventsLost @8 :UInt64;
  clockOffsetNs @9 :Int64;
  clockSynchronized @10 :Bool;
  refusal @11 :Text;
  features @12 :List(Text);          # of its agent
  layers @13 :List(UInt32);          # attached processes by preload layer, in the order of enum orrery_layer
}

struct SwitchState {
  switch @0 :Text;
  connected @1 :Bool;
  lastSeenTaiNs @2 :UInt64;
  ruleRevision @3 :UInt64;
  rules @4 :UInt32;
  tableSize @5 :UInt32;
  portsUp @6 :UInt32;
  ports @7 :UInt32;
  refusal @8 :Text;
}

struct Health {
  version @0 :Text;
  startedTaiNs @1 :UInt64;
  term @2 :UInt64;
  revision @3 :UInt64;
  driver @4 :Text;
  hostsConnected @5 :UInt32;
  hostsKnown @6 :UInt32;
  switchesConnected @7 :UInt32;
  switchesKnown @8 :UInt32;
  planHits @9 :UInt64;
  planMisses @10 :UInt64;
  problems @11 :List(Text);          # each says what to do
}
