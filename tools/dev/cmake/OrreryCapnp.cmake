# orrery_capnp(NAME FILES...) compiles Cap'n Proto schemas into the library `orrery_<NAME>`; include them as "schemas/x.capnp.h".
find_package(CapnProto REQUIRED)
find_program(ORRERY_CAPNP capnp REQUIRED)

function(orrery_capnp name)
  set(generated)
  foreach(schema ${ARGN})
    set(out ${PROJECT_BINARY_DIR}/schemas/${schema})
    add_custom_command(OUTPUT ${out}.c++ ${out}.h
      COMMAND ${ORRERY_CAPNP} compile --src-prefix=${PROJECT_SOURCE_DIR} -oc++:${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/schemas/${schema}
      DEPENDS ${ARGN} VERBATIM)
    list(APPEND generated ${out}.c++)
  endforeach()
  add_library(orrery_${name} STATIC ${generated})
  target_include_directories(orrery_${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR})
  target_compile_options(orrery_${name} PRIVATE -w)
  target_link_libraries(orrery_${name} PUBLIC CapnProto::capnp)
endfunction()
