# orrery_vm_test(NAME SCRIPT ARGUMENTS... [TIMEOUT seconds] [LABELS labels...] [ENVIRONMENT ...] [OPTIONS ...]) runs SCRIPT, from the caller's
# folder, inside a virtual machine (tests/vm/run-in-vm; OPTIONS are its options). It has the label `vm`; one of these tests runs at a time.
# The script finds the build in ORRERY_BUILD_DIR and skips with 77. Arguments come before the keywords.
# TIMEOUT (default 300) ends what hangs: guests are emulated in software, and take several times as long where others have the processors.
function(orrery_vm_test name script)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "TIMEOUT" "LABELS;ENVIRONMENT;OPTIONS")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  math(EXPR ctest_timeout "${ARG_TIMEOUT} + 60")  # booting, and fetching the kernel the first time
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/vm/run-in-vm --timeout ${ARG_TIMEOUT} ${ARG_OPTIONS}
           ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARG_UNPARSED_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS "vm;${ARG_LABELS}" TIMEOUT ${ctest_timeout} SKIP_RETURN_CODE 77 RESOURCE_LOCK vm
                       ENVIRONMENT "ORRERY_BUILD_DIR=${CMAKE_BINARY_DIR};${ARG_ENVIRONMENT}")
endfunction()
