#include "tools/lab/hostnccl/verbs_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace orrery::hostnccl {
namespace {

template <typename Function>
void load(void* handle, const char* name, const char* version, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlvsym(handle, name, version));
  if (!function && missing.empty()) missing = std::string(name) + "@" + version;
}

void load_required(void* handle, VerbsLibrary& verbs, std::string& missing) {
#define ORRERY_REQUIRED(name) load(handle, "ibv_" #name, "IBVERBS_1.1", verbs.name, missing)
  ORRERY_REQUIRED(get_device_list);
  ORRERY_REQUIRED(free_device_list);
  ORRERY_REQUIRED(get_device_name);
  ORRERY_REQUIRED(open_device);
  ORRERY_REQUIRED(close_device);
  ORRERY_REQUIRED(get_async_event);
  ORRERY_REQUIRED(ack_async_event);
  ORRERY_REQUIRED(query_device);
  ORRERY_REQUIRED(query_port);
  ORRERY_REQUIRED(query_gid);
  ORRERY_REQUIRED(query_qp);
  ORRERY_REQUIRED(alloc_pd);
  ORRERY_REQUIRED(dealloc_pd);
  ORRERY_REQUIRED(reg_mr);
  ORRERY_REQUIRED(dereg_mr);
  ORRERY_REQUIRED(create_cq);
  ORRERY_REQUIRED(destroy_cq);
  ORRERY_REQUIRED(create_qp);
  ORRERY_REQUIRED(modify_qp);
  ORRERY_REQUIRED(destroy_qp);
  ORRERY_REQUIRED(fork_init);
  ORRERY_REQUIRED(event_type_str);
#undef ORRERY_REQUIRED
}

void load_optional(void* handle, VerbsLibrary& verbs) {
  std::string ignored;
  load(handle, "ibv_reg_mr_iova2", "IBVERBS_1.8", verbs.reg_mr_iova2, ignored);
  load(handle, "ibv_query_ece", "IBVERBS_1.10", verbs.query_ece, ignored);
  load(handle, "ibv_set_ece", "IBVERBS_1.10", verbs.set_ece, ignored);
}

}  // namespace

Result<VerbsLibrary> VerbsLibrary::open() {
  std::vector<const char*> names;
  if (const char* chosen = std::getenv("NCCL_IBVERBS_LIB"); chosen && *chosen) names.push_back(chosen);
  names.push_back("libibverbs.so");
  names.push_back("libibverbs.so.1");
  std::string reason;
  for (const char* name : names) {
    void* handle = ::dlopen(name, RTLD_NOW);
    if (!handle) {
      reason = ::dlerror();
      continue;
    }
    VerbsLibrary verbs;
    verbs.path = name;
    std::string missing;
    load_required(handle, verbs, missing);
    if (!missing.empty()) {
      ::dlclose(handle);
      return Error{ErrorCode::kUnavailable, std::string(name) + " lacks " + missing};
    }
    load_optional(handle, verbs);
    return verbs;  // open for good: its contexts live as long as the process
  }
  return Error{ErrorCode::kNotFound, "cannot open libibverbs: " + reason};
}

}  // namespace orrery::hostnccl
