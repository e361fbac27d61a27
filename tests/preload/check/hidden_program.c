/* As a program with a static, hidden NCCL looks from outside: NCCL's texts, none of its names. */
#include <stdio.h>

int main(void) {
  puts("NCCL version 2.29.2");
  puts("NCCL_PROFILER_PLUGIN");
  return 0;
}
