#!/bin/bash
# programs_test.sh PROGRAM [ARGUMENT...] [-- PROGRAM [ARGUMENT...]]...: runs test programs of the build one after the other in the guest.
set -uo pipefail
failed=0 command=()

run() {
  ((${#command[@]})) || { echo 'FAILED: no program was named'; exit 2; }
  "${command[@]}"
  local status=$?
  ((status == 0)) || printf 'FAILED with %d: %s\n' "$status" "${command[*]}"
  ((status == 0 || failed)) || failed=$status
  command=()
}

for word; do
  if [ "$word" = -- ]; then run; else command+=("$word"); fi
done
run
exit "$failed"
