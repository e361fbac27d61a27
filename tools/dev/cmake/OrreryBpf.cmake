# orrery_bpf_skeleton(NAME FILE.bpf.c [HEADERS...]) compiles a CO-RE program with clang and makes the interface library `orrery_bpf_<NAME>`;
# include its skeleton as "bpf/<NAME>.skel.h". vmlinux.h comes from the BTF of the machine that builds; CO-RE relocates it on the one that runs.
find_program(ORRERY_CLANG NAMES clang-14 clang REQUIRED)
find_program(ORRERY_LLVM_STRIP NAMES llvm-strip-14 llvm-strip REQUIRED)
find_program(ORRERY_BPFTOOL NAMES bpftool PATHS /usr/sbin REQUIRED)
set(ORRERY_VMLINUX_BTF /sys/kernel/btf/vmlinux CACHE FILEPATH "BTF that vmlinux.h is made from")

set(ORRERY_BPF_DIR ${PROJECT_BINARY_DIR}/bpf)
file(MAKE_DIRECTORY ${ORRERY_BPF_DIR})
add_custom_command(OUTPUT ${ORRERY_BPF_DIR}/vmlinux.h
  COMMAND ${ORRERY_BPFTOOL} btf dump file ${ORRERY_VMLINUX_BTF} format c > ${ORRERY_BPF_DIR}/vmlinux.h.tmp
  COMMAND ${CMAKE_COMMAND} -E rename ${ORRERY_BPF_DIR}/vmlinux.h.tmp ${ORRERY_BPF_DIR}/vmlinux.h
  VERBATIM)
add_custom_target(orrery_vmlinux_h DEPENDS ${ORRERY_BPF_DIR}/vmlinux.h)

function(orrery_bpf_skeleton name source)
  set(object ${ORRERY_BPF_DIR}/${name}.bpf.o)
  set(skeleton ${ORRERY_BPF_DIR}/${name}.skel.h)
  set(headers)
  foreach(header ${ARGN})
    list(APPEND headers ${PROJECT_SOURCE_DIR}/${header})
  endforeach()
  add_custom_command(OUTPUT ${object}
    COMMAND ${ORRERY_CLANG} -g -O2 -Wall -Werror -target bpf -D__TARGET_ARCH_x86 -I${ORRERY_BPF_DIR} -I${PROJECT_SOURCE_DIR}
            -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    COMMAND ${ORRERY_LLVM_STRIP} -g ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${headers} ${ORRERY_BPF_DIR}/vmlinux.h orrery_vmlinux_h VERBATIM)
  add_custom_command(OUTPUT ${skeleton}
    COMMAND ${ORRERY_BPFTOOL} gen skeleton ${object} name ${name}_bpf > ${skeleton}.tmp
    COMMAND ${CMAKE_COMMAND} -E rename ${skeleton}.tmp ${skeleton}
    DEPENDS ${object} VERBATIM)
  add_custom_target(orrery_bpf_${name}_skeleton DEPENDS ${skeleton})
  add_library(orrery_bpf_${name} INTERFACE)
  target_include_directories(orrery_bpf_${name} SYSTEM INTERFACE ${PROJECT_BINARY_DIR})
  target_link_libraries(orrery_bpf_${name} INTERFACE PkgConfig::BPF)
  add_dependencies(orrery_bpf_${name} orrery_bpf_${name}_skeleton)
endfunction()
