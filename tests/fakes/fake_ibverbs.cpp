// The objects of the fake libibverbs, and the functions it exports.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "tests/fakes/fake_ibverbs_objects.h"

#undef ibv_query_port
#undef ibv_reg_mr

namespace orrery::fakes {

std::recursive_mutex mutex;
FakeVerbsOrders orders{};
FakeVerbsSeen seen{};

namespace {

constexpr int kDevices = 4;
constexpr const char* kNames[kDevices] = {"fake0", "mlx5_0", "ib0", "mlx5_bond_0"};
ibv_device devices[kDevices];
std::map<uint32_t, Qp*> qps;
uint32_t next_qpn = 17;
bool break_next_table = false;

struct Gid {
  uint32_t type;
  const char* interface;
  uint8_t raw[16];
};
constexpr Gid kGids[] = {
    {IBV_GID_TYPE_ROCE_V1, "eth7", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1}},
    {IBV_GID_TYPE_ROCE_V2, "eth7", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1}},
    {IBV_GID_TYPE_ROCE_V2, "eth7", {0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
    {IBV_GID_TYPE_ROCE_V2, "bond7", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1}},
};
constexpr int kGidCount = sizeof(kGids) / sizeof(kGids[0]);

bool is_second(const ibv_context* context) {
  return context->device == &devices[1];
}

ibv_device* device_at(int i) {
  ibv_device& device = devices[i];
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device.name, sizeof(device.name), "%s", kNames[i]);
  const char* root = std::getenv("FAKE_IBVERBS_SYSFS");
  std::snprintf(device.ibdev_path, sizeof(device.ibdev_path), "%.200s/class/infiniband/%s",
                root != nullptr ? root : "/nonexistent", kNames[i]);
  return &device;
}

int query_port(ibv_context* context, uint8_t, ibv_port_attr* attributes, size_t bytes) {
  std::memset(attributes, 0, bytes);
  attributes->state = IBV_PORT_ACTIVE;
  attributes->link_layer = context->device == &devices[2] ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  attributes->gid_tbl_len = kGidCount;
  return 0;
}

ibv_qp* make_qp(ibv_context* context, ibv_pd* pd, ibv_qp_init_attr_ex* attributes, bool extended) {
  auto* fake = new Qp{};
  fake->qp = {};
  fake->ex = {};
  fake->room = -1;
  fake->sig_all = attributes->sq_sig_all != 0;
  fake->extended = extended;
  ibv_qp& qp = fake->qp;
  qp.context = context;
  qp.qp_context = attributes->qp_context;
  qp.pd = pd;
  qp.send_cq = attributes->send_cq;
  qp.recv_cq = attributes->recv_cq;
  qp.srq = attributes->srq;
  qp.qp_type = attributes->qp_type;
  qp.state = IBV_QPS_RESET;
  if (extended) fill_extended_qp(fake);
  const std::lock_guard lock(mutex);
  qp.qp_num = next_qpn++;
  qps[qp.qp_num] = fake;
  return &qp;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  return make_qp(context, attributes->pd, attributes, (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0);
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes) {
  ibv_qp_init_attr_ex creation{};
  creation.qp_type = attributes->qp_type;
  return make_qp(context, nullptr, &creation, false);
}

Cq* make_cq(ibv_context* context, int entries) {
  auto* fake = new Cq{};
  fake->ex = {};
  fake->cq.context = context;
  fake->cq.cqe = entries;
  return fake;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  Cq* fake = make_cq(context, static_cast<int>(attributes->cqe));
  fill_extended_cq(fake);
  if ((attributes->wc_flags & IBV_WC_EX_WITH_BYTE_LEN) == 0) fake->ex.read_byte_len = nullptr;
  return &fake->ex;
}

int take_destroy_error() {
  return std::exchange(orders.destroy_error, 0);
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr*) {
  return new ibv_td{context};
}

void put_before(const char* provider, ibv_context_ops* ops) {
  void* library = dlopen(provider, RTLD_NOW | RTLD_LOCAL);
  auto* put = library != nullptr
                  ? reinterpret_cast<void (*)(ibv_context_ops*)>(dlsym(library, "fake_provider_put_before"))
                  : nullptr;
  if (put == nullptr) std::abort();
  put(ops);
}

ibv_context* open(ibv_device* device) {
  auto* context = static_cast<verbs_context*>(std::calloc(1, sizeof(verbs_context)));
  context->sz = sizeof(verbs_context);
  context->query_port = query_port;
  context->create_qp_ex = create_qp_ex;
  context->open_qp = open_qp;
  context->create_cq_ex = create_cq_ex;
  context->alloc_td = alloc_td;
  context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->context.device = device;
  fill_data_ops(&context->context.ops, is_second(&context->context));
  if (const char* provider = std::getenv("FAKE_IBVERBS_PROVIDER")) put_before(provider, &context->context.ops);
  if (std::exchange(break_next_table, false)) context->context.ops.post_send = nullptr;
  return &context->context;
}

}  // namespace

Qp* qp_by_number(uint32_t qpn) {
  const auto found = qps.find(qpn);
  return found != qps.end() ? found->second : nullptr;
}

}  // namespace orrery::fakes

using namespace orrery::fakes;

void fake_ibverbs_order(const FakeVerbsOrders* wanted) {
  orders = *wanted;
}
void fake_ibverbs_seen(FakeVerbsSeen* out) {
  *out = seen;
}
void fake_ibverbs_set_room(ibv_qp* qp, int requests) {
  as_fake(qp)->room = requests;
}
void fake_ibverbs_make_hollow(ibv_qp* qp) {
  as_fake(qp)->hollow = true;
  Cq* cq = as_fake(qp->send_cq);
  cq->hollow_qpn = qp->qp_num;
  cq->hollow = true;
}
void fake_ibverbs_break_table() {
  break_next_table = true;
}

#define VERSIONED(name, version) FAKE_IBVERBS_API __attribute__((symver(#name "@@" version)))
#define OLD(name) FAKE_IBVERBS_API __attribute__((symver(#name "@IBVERBS_1.0")))

VERSIONED(ibv_get_device_list, "IBVERBS_1.1") ibv_device** fake_get_device_list(int* count) {
  auto** list = static_cast<ibv_device**>(std::calloc(kDevices + 1, sizeof(ibv_device*)));
  for (int i = 0; i < kDevices; ++i) list[i] = device_at(i);
  if (count != nullptr) *count = kDevices;
  return list;
}
VERSIONED(ibv_free_device_list, "IBVERBS_1.1") void fake_free_device_list(ibv_device** list) {
  std::free(list);
}
VERSIONED(ibv_get_device_name, "IBVERBS_1.1") const char* fake_get_device_name(ibv_device* device) {
  return device->name;
}
VERSIONED(ibv_open_device, "IBVERBS_1.1") ibv_context* fake_open_device(ibv_device* device) {
  return open(device);
}
VERSIONED(ibv_import_device, "IBVERBS_1.10") ibv_context* fake_import_device(int) {
  return open(device_at(0));
}
VERSIONED(mlx5dv_open_device, "MLX5_1.7") ibv_context* fake_mlx5_open_device(ibv_device* device, mlx5dv_context_attr*) {
  return open(device);
}
VERSIONED(ibv_close_device, "IBVERBS_1.1") int fake_close_device(ibv_context* context) {
  if (const int error = take_destroy_error()) return error;
  std::free(verbs_get_ctx(context));
  return 0;
}
VERSIONED(ibv_fork_init, "IBVERBS_1.1") int fake_fork_init() {
  return 0;
}
VERSIONED(ibv_query_port, "IBVERBS_1.1")
int fake_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, port_cap_flags2));
}
VERSIONED(ibv_query_gid, "IBVERBS_1.1") int fake_query_gid(ibv_context*, uint8_t, int index, ibv_gid* gid) {
  if (index < 0 || index >= kGidCount) return -1;
  std::memcpy(gid->raw, kGids[index].raw, 16);
  return 0;
}
VERSIONED(_ibv_query_gid_ex, "IBVERBS_1.11")
int fake_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t, size_t) {
  if (std::getenv("FAKE_IBVERBS_NO_GID_EX") != nullptr || index >= kGidCount) return EOPNOTSUPP;
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = kGids[index].type;
  return fake_query_gid(context, static_cast<uint8_t>(port), static_cast<int>(index), &entry->gid);
}
VERSIONED(ibv_alloc_pd, "IBVERBS_1.1") ibv_pd* fake_alloc_pd(ibv_context* context) {
  return new ibv_pd{context, 1};
}
VERSIONED(ibv_dealloc_pd, "IBVERBS_1.1") int fake_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}
VERSIONED(ibv_create_cq, "IBVERBS_1.1")
ibv_cq* fake_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
  return &make_cq(context, entries)->cq;
}
VERSIONED(mlx5dv_create_cq, "MLX5_1.1")
ibv_cq_ex* fake_mlx5_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attributes, mlx5dv_cq_init_attr*) {
  return create_cq_ex(context, attributes);
}
VERSIONED(ibv_destroy_cq, "IBVERBS_1.1") int fake_destroy_cq(ibv_cq* cq) {
  if (const int error = take_destroy_error()) return error;
  delete as_fake(cq);
  return 0;
}
VERSIONED(ibv_create_srq, "IBVERBS_1.1") ibv_srq* fake_create_srq(ibv_pd* pd, ibv_srq_init_attr*) {
  auto* srq = new Srq{};
  srq->srq.context = pd->context;
  return &srq->srq;
}
VERSIONED(ibv_destroy_srq, "IBVERBS_1.1") int fake_destroy_srq(ibv_srq* srq) {
  delete reinterpret_cast<Srq*>(srq);
  return 0;
}
VERSIONED(ibv_create_qp, "IBVERBS_1.1") ibv_qp* fake_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp_init_attr_ex extended{};
  std::memcpy(static_cast<void*>(&extended), attributes, sizeof(*attributes));
  return make_qp(pd->context, pd, &extended, false);
}
VERSIONED(mlx5dv_create_qp, "MLX5_1.3")
ibv_qp* fake_mlx5_create_qp(ibv_context* context, ibv_qp_init_attr_ex* attributes, mlx5dv_qp_init_attr*) {
  return create_qp_ex(context, attributes);
}
VERSIONED(ibv_qp_to_qp_ex, "IBVERBS_1.6") ibv_qp_ex* fake_qp_to_qp_ex(ibv_qp* qp) {
  return as_fake(qp)->extended ? &as_fake(qp)->ex : nullptr;
}
VERSIONED(ibv_modify_qp, "IBVERBS_1.1") int fake_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  ++seen.modify_calls;
  seen.modify_mask = mask;
  std::memcpy(&seen.modify, attributes, offsetof(ibv_qp_attr, rate_limit));
  const bool to_rtr = (mask & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_RTR;
  if (to_rtr && orders.modify_failures > 0 &&
      (!orders.modify_only_labelled || attributes->ah_attr.grh.flow_label != 0)) {
    --orders.modify_failures;
    errno = orders.modify_error;
    return orders.modify_error;
  }
  const bool within_sqd = (mask & IBV_QP_AV) != 0 && qp->state == IBV_QPS_SQD;
  if (within_sqd && orders.sqd_av_failures > 0) {
    --orders.sqd_av_failures;
    return orders.sqd_av_error;
  }
  if ((mask & IBV_QP_STATE) != 0) qp->state = attributes->qp_state;
  if ((mask & IBV_QP_DEST_QPN) != 0) as_fake(qp)->dest_qpn = attributes->dest_qp_num;
  return 0;
}
VERSIONED(ibv_destroy_qp, "IBVERBS_1.1") int fake_destroy_qp(ibv_qp* qp) {
  if (const int error = take_destroy_error()) return error;
  const std::lock_guard lock(mutex);
  qps.erase(qp->qp_num);
  delete as_fake(qp);
  return 0;
}

// Bodies of another ABI: whoever calls them with today's arguments is wrong.
OLD(ibv_open_device) ibv_context* fake_old_open_device(ibv_device*) {
  ++seen.old_calls;
  return nullptr;
}
OLD(ibv_modify_qp) int fake_old_modify_qp(void*, void*, int) {
  ++seen.old_calls;
  return 1000;
}
OLD(ibv_destroy_qp) int fake_old_destroy_qp(void*) {
  ++seen.old_calls;
  return 1000;
}
