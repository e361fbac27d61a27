#include "agent/preload/verbs_path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/preload/flow_table.h"
#include "agent/preload/port_choice.h"
#include "agent/preload/repath.h"
#include "agent/preload/verbs_context.h"
#include "agent/preload/verbs_library.h"

namespace orrery::preload {
namespace {

constexpr uint16_t kFirstRocePort = 0xc000;
constexpr uint8_t kKeepDscp = 0xff;

// Path of a file in sysfs, put together without formatting. What does not fit makes it invalid.
class SysfsPath {
 public:
  SysfsPath& add(const char* text) {
    const size_t length = strlen(text);
    valid_ = valid_ && used_ + length < sizeof(text_);
    if (valid_) memcpy(text_ + used_, text, length + 1);
    if (valid_) used_ += length;
    return *this;
  }
  SysfsPath& add(unsigned number) {
    char digits[12];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return add(digits + at);
  }
  void cut_last_part() {
    char* slash = strrchr(text_, '/');
    if (slash != nullptr) *slash = '\0';
    used_ = strlen(text_);
  }
  bool exists() const { return valid_ && syscall(SYS_faccessat, AT_FDCWD, text_, F_OK) == 0; }
  // The first line, without its end. False when there is none.
  bool read_line(char* line, size_t room) const {
    if (!valid_) return false;
    const long fd = syscall(SYS_openat, AT_FDCWD, text_, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const long got = syscall(SYS_read, fd, line, room - 1);
    syscall(SYS_close, fd);
    if (got <= 0) return false;
    line[got] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0';
  }

 private:
  char text_[512] = "";
  size_t used_ = 0;
  bool valid_ = true;
};

SysfsPath gid_attribute(const ibv_device& device, unsigned port, const char* which, unsigned index) {
  SysfsPath path;
  path.add(device.ibdev_path).add("/ports/").add(port).add(which).add(index);
  return path;
}

// With bonding, the label also chooses the physical port (rdma_lag_get_ah_roce_slave in the kernel does so for any
// label but 0, when the network device of the source GID is a bond): planned paths would not be those of the wire.
bool is_bonded(const ibv_device& device, unsigned port, unsigned gid_index) {
  if (strstr(device.name, "bond") != nullptr) return true;  // mlx5_bond_0
  char interface[64];
  if (!gid_attribute(device, port, "/gid_attrs/ndevs/", gid_index).read_line(interface, sizeof(interface)))
    return false;
  SysfsPath path;  // .../class/infiniband/DEVICE -> .../class/net/INTERFACE/bonding
  path.add(device.ibdev_path);
  path.cut_last_part();
  path.cut_last_part();
  path.add("/net/").add(interface).add("/bonding");
  return path.exists();
}

bool is_old_roce(const ibv_device& device, unsigned port, unsigned gid_index) {
  char type[64];
  return gid_attribute(device, port, "/gid_attrs/types/", gid_index).read_line(type, sizeof(type)) &&
         strcmp(type, "RoCE v2") != 0;
}

// The source GID, when it is one of RoCEv2. Asked of the copy of libibverbs that `modify` is part of.
bool source_gid(ibv_context* context, unsigned port, unsigned index, ModifyQp modify, uint8_t* address) {
  auto* beside = reinterpret_cast<void*>(modify);
  using QueryGidEx = int (*)(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t);
  if (auto query = reinterpret_cast<QueryGidEx>(symbol_beside(beside, "_ibv_query_gid_ex"))) {
    ibv_gid_entry entry{};
    if (query(context, port, index, &entry, 0, sizeof(entry)) == 0) {
      memcpy(address, entry.gid.raw, 16);
      return entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    }
  }
  using QueryGid = int (*)(ibv_context*, uint8_t, int, ibv_gid*);
  auto query = reinterpret_cast<QueryGid>(symbol_beside(beside, "ibv_query_gid"));
  ibv_gid gid;
  if (query == nullptr || query(context, static_cast<uint8_t>(port), static_cast<int>(index), &gid) != 0) return false;
  memcpy(address, gid.raw, 16);
  return !is_old_roce(*context->device, port, index);
}

bool has_one_peer(uint8_t type) {
  return type == IBV_QPT_RC || type == IBV_QPT_UC;
}

// Only RC queue pairs are numbered, and a queue pair keeps its number for as long as it leads to the same peer: the
// call is repeated after a timeout, and after a RESET.
uint16_t ordinal_of(const Qp& qp, const Endpoint& remote) {
  if (qp.type != IBV_QPT_RC || qp.loopback) return kNoOrdinal;
  if (qp.numbered && memcmp(qp.numbered_peer, remote.address, 16) == 0) return qp.number;
  return next_ordinal(remote, IPPROTO_UDP);
}

}  // namespace

bool describe_path(Qp& qp, ibv_context* context, const ibv_qp_attr& attributes, ModifyQp modify, QpPath* path) {
  const int saved = errno;
  const ibv_ah_attr& address = attributes.ah_attr;
  *path = QpPath{};
  const bool known = has_one_peer(qp.type) && address.is_global != 0 &&
                     link_layer_of(context, address.port_num) == IBV_LINK_LAYER_ETHERNET &&
                     source_gid(context, address.port_num, address.grh.sgid_index, modify, path->local.address);
  if (known) {
    memcpy(path->remote.address, address.grh.dgid.raw, 16);
    path->address = address;
    path->dest_qpn = attributes.dest_qp_num;
    path->flow_label = address.grh.flow_label & 0xfffff;
    path->traffic_class = address.grh.traffic_class;
    path->port_num = address.port_num;
    path->born_by_entry = kNoPlanEntry;
    path->udp_sport = udp_sport_of(path->flow_label, qp.qpn, path->dest_qpn);
    path->local.port = path->udp_sport;
    path->remote.port = kRoceUdpPort;
    qp.loopback = path->dest_qpn == qp.qpn && memcmp(path->local.address, path->remote.address, 16) == 0;
    path->lag = is_bonded(*context->device, address.port_num, address.grh.sgid_index);
    path->can_move = can_be_moved(qp);
    path->ordinal = ordinal_of(qp, path->remote);
    if (path->ordinal != kNoOrdinal) {
      memcpy(qp.numbered_peer, path->remote.address, 16);
      qp.number = path->ordinal;
      qp.numbered = true;
    }
  }
  errno = saved;
  return known;
}

bool plan_path(const Qp& qp, QpPath* path) {
  if (qp.type != IBV_QPT_RC || qp.loopback || path->lag || path->flow_label != 0) return false;
  shm::PlanQuery query{};
  memcpy(query.local_address, path->local.address, 16);
  memcpy(query.remote_address, path->remote.address, 16);
  query.ordinal = path->ordinal;
  query.protocol = IPPROTO_UDP;
  shm::PlanAnswer answer;
  if (!attachment.plan.find(query, now_ns(), &answer)) return false;
  const orrery_plan_entry& entry = answer.entry;
  bool changed = false;
  if (entry.dscp != kKeepDscp && entry.dscp != 0 && path->traffic_class == 0) {
    path->traffic_class = static_cast<uint8_t>(entry.dscp << 2);
    changed = true;
  }
  // Neighbouring queue pairs start looking at different ports.
  PortChoice choice(entry, path->local, path->remote, (qp.qpn ^ path->dest_qpn << 8) * 7919u);
  uint16_t port = choice.next();
  while (port != 0 && port < kFirstRocePort) port = choice.next();
  if (port != 0) {
    path->flow_label = flow_label_of(port);
    path->udp_sport = path->local.port = port;
    path->born_by_entry = answer.index;
    path->label_ours = changed = true;
  }
  path->address.grh.flow_label = path->flow_label;
  path->address.grh.traffic_class = path->traffic_class;
  return changed;
}

}  // namespace orrery::preload
