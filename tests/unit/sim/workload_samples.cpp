#include "tests/unit/sim/workload_samples.h"

namespace orrery::sim::samples {

const std::string kAicb = R"([rank0 ~ rank7]
comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count
CommType.broadcast,CommGroup.dp_group,4,1024,init,None,0,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
CommType.all_gather,CommGroup.tp_group,2,65536,forward,None,None,,None,None,None,1
CommType.computation,None,None,((2048, 1), (1)),forward,None,None,,25000,None,None,1
CommType.reduce_scatter,CommGroup.dp_group,4,1048576,backward,None,None,,None,None,None,2
CommType.barrier,CommGroup.all,8,0,step,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
)";

const std::string kSimai =
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 checkpoints: 0 checkpoint_initiates: 0\n"
    "2\n"
    "embedding\t-1\t1000\tALLREDUCE\t65536\t 2000\tALLREDUCE\t65536\t1\tNONE\t0\t100\n"
    "mlp_layer\t-1\t 3000\tALLGATHER\t32768   4000\tREDUCESCATTER\t32768\t 5\tALLREDUCE\t1048576\t100\n";

const std::string kHtsim = R"(Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 0 size 100000 recv_done_trigger 1
1->2 id 2 trigger 1 size 50000 send_done_trigger 2
2->0 id 3 start 5000000 size 100000
1->3 id 4 trigger 2 size 25000
trigger id 1 oneshot
trigger id 2 barrier count 1
)";

const std::string kNcclTests =
    R"(# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid    371 on      node1 device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid    372 on      node1 device  1 [0x15] NVIDIA A100-SXM4-40GB
#  Rank  2 Group  0 Pid    371 on      node2 device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  3 Group  0 Pid    372 on      node2 device  1 [0x15] NVIDIA A100-SXM4-40GB
node1:371:380 [0] NCCL INFO 24 coll channels
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    105.9    9.90   14.85      0    105.7    9.92   14.88      0
     2097152        524288     float     sum      -1    142.1   14.76   22.14    N/A    140.4   14.94   22.41    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 18.5
)";

const std::string kIntents =
    R"({"health":{"version":"1"},"plan":{"flows":[]},"jobs":[{"comm_id":7,"nranks":4,"announced":true,"hosts":["h1","h2"],"last_op":"-","last_bytes":0}],"links":[]}
{"jobs":[{"comm_id":7,"nranks":4,"hosts":["h1","h2"],"last_op":"all-reduce","last_bytes":1000000},{"comm_id":9,"nranks":2,"hosts":["h3","h1"],"last_op":"all-to-all","last_bytes":4096}]}
{
 "forecasts": [
  {"comm_id": 7, "op": "reduce-scatter", "bytes": 500000, "window_start_tai_ns": 1000000, "window_end_tai_ns": 1200000, "period_ns": 2000000, "jitter_ns": 10, "confidence": 0.9, "hits": 10, "misses": 0},
  {"comm_id": 7, "op": "all-gather", "bytes": 500000, "window_start_tai_ns": 1500000, "window_end_tai_ns": 1700000, "period_ns": 2000000}
 ]
}
)";

const std::string kScenario = R"(topology: {leaf_spine: {leaves: 2, spines: 2, hosts: 8}}
placement: {kind: fragmented, seed: 3}
schemes: [ecmp, orrery]
seeds: 2
clock_error_ns: 100
jobs:
  - name: train
    hosts: 4
    ranks_per_host: 2
    iterations: 2
    jitter: 0.05
    steps:
      - {compute_us: 50, op: all_reduce, algorithm: ring, bytes: 1000000, overlapped: true}
      - {op: all_to_all, bytes: 80000, group: {size: 4, stride: 2}}
  - name: pinned
    hosts: [h1, "h2:eth0"]
    steps: [{op: all_gather, bytes: 4096}]
engine: {kind: packet, threads: 2, ecn: {kmin_bytes: 100000}, dcqcn: {enabled: false}, transport: {ack_every: 4}}
faults: [{at_us: 20, link: "leaf1:p5"}]
)";

namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string block(uint32_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}

}  // namespace

std::string chakra_file(const std::vector<ChakraSample>& nodes) {
  const std::string metadata = block(1, "0.0.4");
  std::string file = varint(metadata.size()) + metadata;
  for (const ChakraSample& node : nodes) {
    std::string message = number(1, node.id) + block(2, "node") + number(3, node.type);
    std::string packed;
    for (const uint64_t id : node.after) packed += varint(id);
    if (!packed.empty()) message += block(5, packed);
    if (node.duration_us != 0) message += number(7, node.duration_us);
    for (const auto& [name, value] : node.numbers) message += block(10, block(1, name) + number(9, value));
    if (!node.group.empty()) message += block(10, block(1, "pg_name") + block(29, node.group));
    file += varint(message.size()) + message;
  }
  return file;
}

std::vector<Input> chakra() {
  const std::vector<ChakraSample> first{
      {.id = 1, .type = 4, .duration_us = 100},
      {.id = 2, .type = 5, .after = {1}, .numbers = {{"comm_dst", 1}, {"comm_size", 8'000}, {"comm_tag", 5}}},
      {.id = 3, .type = 7, .after = {2}, .numbers = {{"comm_type", 0}, {"comm_size", 1'000'000}}}};
  const std::vector<ChakraSample> second{
      {.id = 10, .type = 6, .numbers = {{"comm_src", 0}, {"comm_size", 8'000}, {"comm_tag", 5}}},
      {.id = 11, .type = 7, .after = {10}, .numbers = {{"comm_type", 0}, {"comm_size", 1'000'000}}}};
  return {{"t.0.et", chakra_file(first)}, {"t.1.et", chakra_file(second)}};
}

std::vector<std::pair<Format, std::vector<Input>>> all() {
  return {{Format::kAicb, {{"run.csv", kAicb}}},        {Format::kSimai, {{"run.txt", kSimai}}},
          {Format::kHtsim, {{"run.cm", kHtsim}}},       {Format::kNcclTests, {{"run.log", kNcclTests}}},
          {Format::kIntents, {{"run.json", kIntents}}}, {Format::kChakra, chakra()}};
}

}  // namespace orrery::sim::samples
