#include "agent/preload/verbs_context.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#include "agent/preload/control_lock.h"
#include "agent/preload/layers.h"
#include "agent/preload/qp_timing.h"
#include "agent/preload/verbs_clock.h"
#include "agent/preload/verbs_extended.h"
#include "common/abi/attach_abi.h"

namespace orrery::preload {

constinit ProviderOps providers[kMaxProviders]{};

namespace {

constexpr uint8_t kMaxPorts = 8;

using CreateQpEx = ibv_qp* (*)(ibv_context*, ibv_qp_init_attr_ex*);
using OpenQp = ibv_qp* (*)(ibv_context*, ibv_qp_open_attr*);
using CreateCqEx = ibv_cq_ex* (*)(ibv_context*, ibv_cq_init_attr_ex*);
using AllocTd = ibv_td* (*)(ibv_context*, ibv_td_init_attr*);
using BindMw = int (*)(ibv_qp*, ibv_mw*, ibv_mw_bind*);

struct Context {
  ibv_context* context;  // key; null when free
  uint32_t provider;
  uint8_t link_layers[kMaxPorts + 1];  // by port number
  CreateQpEx create_qp_ex;
  OpenQp open_qp;
  CreateCqEx create_cq_ex;
  AllocTd alloc_td;
  BindMw bind_mw;
};
Context contexts[kMaxContexts];
uint32_t provider_count = 0;
constinit ControlLock control_lock;

Context* find(const ibv_context* context) {
  for (Context& known : contexts)
    if (__atomic_load_n(&known.context, __ATOMIC_ACQUIRE) == context) return &known;
  return nullptr;
}

// Which object's code holds the address; data, stacks and heaps are nobody's.
struct CodeSearch {
  uintptr_t address;
  bool found;
  ProviderKind kind;
};

int visit_object(dl_phdr_info* object, size_t, void* out) {
  auto* search = static_cast<CodeSearch*>(out);
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 ||
        search->address - (object->dlpi_addr + part.p_vaddr) >= part.p_memsz)
      continue;
    const char* slash = object->dlpi_name != nullptr ? strrchr(object->dlpi_name, '/') : nullptr;
    const char* file = slash != nullptr ? slash + 1 : "";
    search->found = true;
    if (strncmp(file, "librxe", 6) == 0) search->kind = kRxeProvider;
    if (strncmp(file, "libmlx5", 7) == 0) search->kind = kMlx5Provider;
    return 1;
  }
  return 0;
}

template <typename Function>
bool is_code(Function* function, ProviderKind* kind) {
  if (function == nullptr) return false;
  CodeSearch search{reinterpret_cast<uintptr_t>(function), false, kOtherProvider};
  dl_iterate_phdr(visit_object, &search);
  *kind = search.kind;
  return search.found;
}

template <typename Function>
void set(Function** place, Function* function) {
  __atomic_store_n(place, function, __ATOMIC_RELEASE);
}
template <typename Function>
void put_back(Function** place, Function* ours, Function* theirs) {
  if (*place == ours) set(place, theirs);
}

// Whether the context's struct is long enough to hold the member.
#define ORRERY_HAS_OP(extended, op) \
  ((extended) != nullptr && (extended)->sz >= sizeof(*(extended)) - offsetof(verbs_context, op) && (extended)->op)

// A context that is a copy of one of ours, of which nobody told us: there is nothing to forward to.
template <typename Made>
Made* not_supported() {
  errno = EOPNOTSUPP;
  return nullptr;
}

ibv_qp* hooked_create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  const Context* known = find(context);
  if (known == nullptr) return not_supported<ibv_qp>();
  ibv_qp* qp = known->create_qp_ex(context, attributes);
  if (qp != nullptr) note_qp_created(qp, attributes->sq_sig_all != 0, attributes->cap);
  return qp;
}

ibv_qp* hooked_open_qp(ibv_context* context, ibv_qp_open_attr* attributes) {
  const Context* known = find(context);
  if (known == nullptr) return not_supported<ibv_qp>();
  ibv_qp* qp = known->open_qp(context, attributes);
  if (qp != nullptr) note_qp_created(qp, false, {});
  return qp;
}

ibv_cq_ex* hooked_create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  const Context* known = find(context);
  if (known == nullptr) return not_supported<ibv_cq_ex>();
  ibv_cq_ex* cq = known->create_cq_ex(context, attributes);
  if (cq != nullptr) adopt_extended_cq(cq);
  return cq;
}

ibv_td* hooked_alloc_td(ibv_context* context, ibv_td_init_attr* attributes) {
  note_thread_domain();
  const Context* known = find(context);
  return known != nullptr ? known->alloc_td(context, attributes) : not_supported<ibv_td>();
}

int hooked_bind_mw(ibv_qp* qp, ibv_mw* window, ibv_mw_bind* bind) {
  const Context* known = find(window->context);
  if (known == nullptr) return EOPNOTSUPP;
  // The post_send hook may not see the request, nor count it.
  Qp* sender = arm() != kOff ? find_qp(qp) : nullptr;
  if (sender != nullptr) sender->counted_whole = false;
  if (sender != nullptr && !drain_held_sends(*sender, false)) return ENOMEM;
  return known->bind_mw(qp, window, bind);
}

bool is_hooked(const ibv_context& context, uint32_t provider) {
  return context.ops.post_send == data_hooks[provider].post_send;
}

// Someone may have copied a table that we had hooked already; forwarding to a hook would never end.
bool contains_hooks(const ibv_context_ops& ops) {
  for (const DataHooks& hooks : data_hooks)
    if (ops.post_send == hooks.post_send || ops.post_recv == hooks.post_recv || ops.poll_cq == hooks.poll_cq)
      return true;
  return false;
}

// The set these functions are, taken up when it is new; kMaxProviders when there is no place for it or it is none.
uint32_t provider_of(const ibv_context_ops& ops) {
  if (contains_hooks(ops)) return kMaxProviders;
  for (uint32_t i = 0; i < provider_count; ++i)
    if (providers[i].post_send == ops.post_send && providers[i].post_recv == ops.post_recv &&
        providers[i].poll_cq == ops.poll_cq)
      return i;
  ProviderKind kind, other;
  if (!is_code(ops.post_recv, &other) || !is_code(ops.poll_cq, &other) || !is_code(ops.post_send, &kind) ||
      provider_count == kMaxProviders)
    return kMaxProviders;
  providers[provider_count] = {ops.post_send, ops.post_recv, ops.poll_cq, kind};
  return provider_count++;
}

void hook_tables(Context& known) {
  ibv_context_ops& ops = known.context->ops;
  const DataHooks& hooks = data_hooks[known.provider];
  verbs_context* extended = verbs_get_ctx(known.context);
  known.create_qp_ex = ORRERY_HAS_OP(extended, create_qp_ex) ? extended->create_qp_ex : nullptr;
  known.open_qp = ORRERY_HAS_OP(extended, open_qp) ? extended->open_qp : nullptr;
  known.create_cq_ex = ORRERY_HAS_OP(extended, create_cq_ex) ? extended->create_cq_ex : nullptr;
  known.alloc_td = ORRERY_HAS_OP(extended, alloc_td) ? extended->alloc_td : nullptr;
  ProviderKind kind;
  known.bind_mw = is_code(ops.bind_mw, &kind) ? ops.bind_mw : nullptr;
  set(&ops.post_send, hooks.post_send);
  set(&ops.post_recv, hooks.post_recv);
  set(&ops.poll_cq, hooks.poll_cq);
  if (known.bind_mw != nullptr) set(&ops.bind_mw, hooked_bind_mw);
  if (known.create_qp_ex != nullptr) set(&extended->create_qp_ex, hooked_create_qp_ex);
  if (known.open_qp != nullptr) set(&extended->open_qp, hooked_open_qp);
  if (known.create_cq_ex != nullptr) set(&extended->create_cq_ex, hooked_create_cq_ex);
  if (known.alloc_td != nullptr) set(&extended->alloc_td, hooked_alloc_td);
}

void unhook_tables(const Context& known) {
  ibv_context_ops& ops = known.context->ops;
  const DataHooks& hooks = data_hooks[known.provider];
  const ProviderOps& theirs = providers[known.provider];
  put_back(&ops.post_send, hooks.post_send, theirs.post_send);
  put_back(&ops.post_recv, hooks.post_recv, theirs.post_recv);
  put_back(&ops.poll_cq, hooks.poll_cq, theirs.poll_cq);
  if (known.bind_mw != nullptr) put_back(&ops.bind_mw, &hooked_bind_mw, known.bind_mw);
  verbs_context* extended = verbs_get_ctx(known.context);
  if (known.create_qp_ex != nullptr) put_back(&extended->create_qp_ex, &hooked_create_qp_ex, known.create_qp_ex);
  if (known.open_qp != nullptr) put_back(&extended->open_qp, &hooked_open_qp, known.open_qp);
  if (known.create_cq_ex != nullptr) put_back(&extended->create_cq_ex, &hooked_create_cq_ex, known.create_cq_ex);
  if (known.alloc_td != nullptr) put_back(&extended->alloc_td, &hooked_alloc_td, known.alloc_td);
}

// A context that was closed in a way we do not see, and whose address has come back unhooked.
void forget_if_stale(Context* known) {
  if (known != nullptr && !is_hooked(*known->context, known->provider)) set(&known->context, (ibv_context*)nullptr);
}

Context* take_place(ibv_context* context, uint32_t provider) {
  for (Context& place : contexts) {
    if (place.context != nullptr) continue;
    place.provider = provider;
    memset(place.link_layers, kUnknownLink, sizeof(place.link_layers));
    place.create_qp_ex = nullptr;
    place.open_qp = nullptr;
    place.create_cq_ex = nullptr;
    place.alloc_td = nullptr;
    place.bind_mw = nullptr;
    set(&place.context, context);
    return &place;
  }
  return nullptr;
}

}  // namespace

const ProviderOps* adopt_context(ibv_context* context) {
  if (context == nullptr || context->device == nullptr) return nullptr;
  const ControlLock::Guard guard(control_lock);
  forget_if_stale(find(context));
  if (const Context* known = find(context)) return &providers[known->provider];
  const uint32_t provider = provider_of(context->ops);
  Context* place = provider != kMaxProviders ? take_place(context, provider) : nullptr;
  if (place == nullptr) {
    set_layer(ORRERY_LAYER_VERBS, false);
    say(kLogError,
        "verbs of this device are not followed, its table of functions is not understood: ", context->device->name);
    return nullptr;
  }
  look_for_single_threaded_providers();
  calibrate_clock();
  hook_tables(*place);
  return &providers[provider];
}

void release_context(ibv_context* context) {
  {
    const ControlLock::Guard guard(control_lock);
    Context* known = find(context);
    if (known == nullptr) return;
    unhook_tables(*known);
    set(&known->context, static_cast<ibv_context*>(nullptr));
  }
  remove_qps_of(context);
}

uint8_t link_layer_of(ibv_context* context, uint8_t port_num) {
  Context* known = find(context);
  if (known == nullptr || port_num == 0 || port_num > kMaxPorts) return kUnknownLink;
  if (known->link_layers[port_num] != kUnknownLink) return known->link_layers[port_num];
  verbs_context* extended = verbs_get_ctx(context);
  ibv_port_attr attributes{};
  const int saved = errno;
  const bool answered = ORRERY_HAS_OP(extended, query_port) &&
                        extended->query_port(context, port_num, &attributes, sizeof(attributes)) == 0;
  errno = saved;
  if (!answered) return kUnknownLink;
  known->link_layers[port_num] = attributes.link_layer;
  return attributes.link_layer;
}

}  // namespace orrery::preload
