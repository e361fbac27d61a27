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
