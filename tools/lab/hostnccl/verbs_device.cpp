#include "tools/lab/hostnccl/verbs_device.h"

#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/lab/hostnccl/diagnostics.h"

namespace orrery::hostnccl {
namespace {

// Whom the event hits; null: nobody for good.
VerbsFault* victim(VerbsDevice& device, const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      return &device.fault;
    case IBV_EVENT_CQ_ERR:
      return static_cast<VerbsFault*>(event.element.cq->cq_context);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return static_cast<VerbsFault*>(event.element.qp->qp_context);
    default:
      return nullptr;
  }
}

// The objects of an event live until it is acknowledged.
void watch_events(VerbsDevice* device) {
  pthread_setname_np(pthread_self(), ("NCCL IbAsync " + std::to_string(device->index)).c_str());
  ibv_async_event event;
  while (device->verbs->get_async_event(device->context, &event) == 0) {
    const std::string text = "NET/IB : " + device->name + ": " + device->verbs->event_type_str(event.event_type);
    if (VerbsFault* fault = victim(*device, event)) {
      log_warning(0, text);
      fault->store(event.event_type);
    } else if (event.event_type != IBV_EVENT_COMM_EST) {
      log_info(0, text);
    }
    device->verbs->ack_async_event(&event);
  }
}

bool is_roce_v2(const std::string& device, int port, int index) {
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/gid_attrs/types/" +
                     std::to_string(index));
  std::string type;
  return std::getline(file, type) && type.starts_with("RoCE v2");
}

int query_port(const VerbsDevice& device, uint8_t number, ibv_port_attr& attributes) {
  attributes = {};
  // As verbs.h does it: through the context where it is new enough.
  if (verbs_context* extended = verbs_get_ctx_op(device.context, query_port)) {
    return extended->query_port(device.context, number, &attributes, sizeof attributes);
  }
  return device.verbs->query_port(device.context, number, reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
}

std::vector<GidEntry> read_gids(const VerbsPort& port) {
  std::vector<GidEntry> entries;
  for (int index = 0; index < port.attributes.gid_tbl_len; ++index) {
    ibv_gid raw;
    if (port.device->verbs->query_gid(port.device->context, port.number, index, &raw) != 0) continue;
    GidEntry entry{.index = index};
    std::memcpy(entry.gid.data(), raw.raw, entry.gid.size());
    if (is_zero(entry.gid)) continue;
    entry.is_roce_v2 = is_roce_v2(port.device->name, port.number, index);
    entries.push_back(entry);
  }
  return entries;
}

// The process's devices. Never destroyed: their threads may outlive main().
class VerbsDevices {
 public:
  static VerbsDevices& instance() {
    static auto* const made = new VerbsDevices;
    return *made;
  }

  Result<VerbsPort> choose(const VerbsSettings& settings, const sockaddr_in& local) {
    std::lock_guard lock(mutex_);
    if (!loaded_) load();
    if (failure_) return *failure_;
    const HcaFilter filter(settings.hca);
    std::optional<VerbsPort> first;
    std::string reason = "no device matches NCCL_IB_HCA=" + settings.hca + " (there are: " + names() + ")";
    for (auto& entry : entries_) {
      auto found = choose_on(entry, filter, settings, local, reason);
      if (found && carries(found->gid, local)) return *found;
      if (found && !first) first = found;
    }
    if (first) return *first;
    return Error{ErrorCode::kUnavailable, reason};
  }

 private:
  struct Entry {
    ibv_device* handle = nullptr;
    std::string name;
    std::unique_ptr<VerbsDevice> open;
  };

  void load() {
    loaded_ = true;
    auto library = VerbsLibrary::open();
    if (!library) {
      failure_ = library.error();
      return;
    }
    library_ = *library;
    if (library_.fork_init() != 0) {
      log_info(0, "NET/IB : ibv_fork_init failed: the process must not fork while operations run");
    }
    int count = 0;
    ibv_device** list = library_.get_device_list(&count);
    for (int i = 0; list && i < count; ++i) entries_.push_back({list[i], library_.get_device_name(list[i]), nullptr});
    if (!entries_.empty()) return;  // the list is kept: devices are opened from it later
    if (list) library_.free_device_list(list);
    failure_ = Error{ErrorCode::kNotFound, "no RDMA device found"};
  }

  std::string names() const {
    std::string text;
    for (const auto& entry : entries_) text += (text.empty() ? "" : ", ") + entry.name;
    return text;
  }

  static std::optional<VerbsPort> fault(std::string& reason, const std::string& text) {
    reason = text;
    return std::nullopt;
  }

  std::optional<VerbsPort> choose_on(Entry& entry, const HcaFilter& filter, const VerbsSettings& settings,
                                     const sockaddr_in& local, std::string& reason) {
    constexpr int kPorts = 2;
    bool named = false;
    for (int port = 1; port <= kPorts; ++port) named = named || filter.admits(entry.name, port);
    if (!named) return std::nullopt;
    if (!entry.open && !open(entry, reason)) return std::nullopt;
    ibv_device_attr attributes{};
    if (library_.query_device(entry.open->context, &attributes) != 0) return fault(reason, entry.name + ": no answer");
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
      if (!filter.admits(entry.name, number)) continue;
      if (auto port = describe(*entry.open, number, settings, local, reason)) return port;
    }
    return std::nullopt;
  }

  bool open(Entry& entry, std::string& reason) {
    auto device = std::make_unique<VerbsDevice>();
    device->verbs = &library_;
    device->name = entry.name;
    device->context = library_.open_device(entry.handle);
    if (!device->context) {
      reason = "cannot open " + entry.name + ": " + std::strerror(errno) + " (is /dev/infiniband in the container?)";
      return false;
    }
    device->domain = library_.alloc_pd(device->context);
    if (!device->domain) {
      reason = entry.name + ": no protection domain: " + std::strerror(errno);
      library_.close_device(device->context);
      return false;
    }
    device->index = open_count_++;
    entry.open = std::move(device);
    std::thread(watch_events, entry.open.get()).detach();
    return true;
  }

  static std::optional<VerbsPort> describe(VerbsDevice& device, int number, const VerbsSettings& settings,
                                           const sockaddr_in& local, std::string& reason) {
    VerbsPort port{.device = &device, .number = static_cast<uint8_t>(number)};
    const std::string name = device.name + ":" + std::to_string(number);
    if (query_port(device, port.number, port.attributes) != 0) return fault(reason, name + ": no answer");
    if (port.attributes.state != IBV_PORT_ACTIVE) return fault(reason, name + " is not active (link down?)");
    const auto entries = read_gids(port);
    std::optional<int> index = settings.gid_index;
    if (!index) index = port.is_ethernet() ? choose_gid(entries, local) : std::optional(0);
    for (const auto& entry : entries) {
      if (index != entry.index) continue;
      port.gid_index = *index;
      port.gid = entry.gid;
      return port;
    }
    if (!port.is_ethernet()) return port;
    return fault(reason, name + (index ? " has no GID " + std::to_string(*index) : " has no GID") +
                             " (has its interface an address? see NCCL_IB_GID_INDEX)");
  }

  std::mutex mutex_;
  bool loaded_ = false;
  std::optional<Error> failure_;
  VerbsLibrary library_;
  std::vector<Entry> entries_;
  size_t open_count_ = 0;
};

}  // namespace

std::string VerbsPort::text() const {
  return device->name + ":" + std::to_string(number) + "/" + (is_ethernet() ? "RoCE" : "IB");
}

Result<VerbsPort> choose_verbs_port(const VerbsSettings& settings, const sockaddr_in& local) {
  return VerbsDevices::instance().choose(settings, local);
}

}  // namespace orrery::hostnccl
