// The exported dlsym and dlvsym. They ask orrery_route_... where to go and then either jump there, with the stack and
// the argument registers exactly as the caller left them, or return an answer.
#include "agent/preload/dl_hook.h"

#if defined(__x86_64__)
#define ORRERY_DL_ENTRY(NAME, CALLER_ARGUMENT) \
  __asm__(                                     \
      ".text\n"                                \
      ".p2align 4\n"                           \
      ".globl " NAME                           \
      "\n"                                     \
      ".type " NAME ", @function\n" NAME       \
      ":\n"                                    \
      ".cfi_startproc\n"                       \
      "endbr64\n"                              \
      "pushq %rdi\n"                           \
      ".cfi_adjust_cfa_offset 8\n"             \
      "pushq %rsi\n"                           \
      ".cfi_adjust_cfa_offset 8\n"             \
      "pushq %rdx\n"                           \
      ".cfi_adjust_cfa_offset 8\n"             \
      "movq 24(%rsp), " CALLER_ARGUMENT        \
      "\n"                                     \
      "call orrery_route_" NAME                \
      "\n"                                     \
      "movq %rax, %r11\n"                      \
      "movq %rdx, %rax\n"                      \
      "popq %rdx\n"                            \
      ".cfi_adjust_cfa_offset -8\n"            \
      "popq %rsi\n"                            \
      ".cfi_adjust_cfa_offset -8\n"            \
      "popq %rdi\n"                            \
      ".cfi_adjust_cfa_offset -8\n"            \
      "testq %r11, %r11\n"                     \
      "je 1f\n"                                \
      "jmp *%r11\n"                            \
      "1: ret\n"                               \
      ".cfi_endproc\n"                         \
      ".size " NAME ", . - " NAME "\n")
ORRERY_DL_ENTRY("dlsym", "%rdx");
ORRERY_DL_ENTRY("dlvsym", "%rcx");
#elif defined(__aarch64__)
// `hint #34` is `bti c`, which older assemblers do not know by name; a jump through x16 lands on it.
#define ORRERY_DL_ENTRY(NAME, CALLER_ARGUMENT) \
  __asm__(                                     \
      ".text\n"                                \
      ".p2align 4\n"                           \
      ".globl " NAME                           \
      "\n"                                     \
      ".type " NAME ", %function\n" NAME       \
      ":\n"                                    \
      ".cfi_startproc\n"                       \
      "hint #34\n"                             \
      "stp x29, x30, [sp, #-48]!\n"            \
      ".cfi_def_cfa_offset 48\n"               \
      ".cfi_offset 29, -48\n"                  \
      ".cfi_offset 30, -40\n"                  \
      "mov x29, sp\n"                          \
      "stp x0, x1, [sp, #16]\n"                \
      "str x2, [sp, #32]\n"                    \
      "mov " CALLER_ARGUMENT                   \
      ", x30\n"                                \
      "bl orrery_route_" NAME                  \
      "\n"                                     \
      "mov x16, x0\n"                          \
      "mov x9, x1\n"                           \
      "ldp x0, x1, [sp, #16]\n"                \
      "ldr x2, [sp, #32]\n"                    \
      "ldp x29, x30, [sp], #48\n"              \
      ".cfi_restore 29\n"                      \
      ".cfi_restore 30\n"                      \
      ".cfi_def_cfa_offset 0\n"                \
      "cbz x16, 1f\n"                          \
      "br x16\n"                               \
      "1: mov x0, x9\n"                        \
      "ret\n"                                  \
      ".cfi_endproc\n"                         \
      ".size " NAME ", . - " NAME "\n")
ORRERY_DL_ENTRY("dlsym", "x2");
ORRERY_DL_ENTRY("dlvsym", "x3");
#else
#error "The hook of dlsym needs an entry in this machine's assembly."
#endif
