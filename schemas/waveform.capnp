@0xd1c5a0b7f1e34a07;
# orrery-sim -> controller, as a file: what every NIC is expected to send over the time of a simulated run.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("orrery::wire");

struct Waveforms {
  schemaVersion @0 :UInt16;          # 1; a file that says otherwise is refused
  topology @1 :Text;                 # its name in the topology file
  fingerprint @2 :UInt64;            # fabric::Graph::fingerprint()
  scheme @3 :Text;                   # "orrery"
  engine @4 :Text;                   # "packet", "fluid"
  seed @5 :UInt64;
  title @6 :Text;                    # what was simulated, in words
  binNs @7 :UInt64;
  jobs @8 :List(PredictedJob);
  nics @9 :List(NicWaveform);        # those that send
}

struct PredictedJob {
  name @0 :Text;
  iterations @1 :UInt32;             # that ended in the run
  periodNs @2 :UInt64;               # from the begin of an iteration to that of the next, their mean
}

struct NicWaveform {
  host @0 :Text;
  nic @1 :Text;                      # port name on the host
  bytes @2 :List(UInt64);            # on the wire, headers and acknowledgements included, by bin from the run's begin
  shares @3 :List(JobShare);         # of the jobs that send by it
}

struct JobShare {
  job @0 :UInt32;                    # index in jobs
  bytesPerIteration @1 :UInt64;      # payload
}
