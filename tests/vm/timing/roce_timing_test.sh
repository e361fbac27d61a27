#!/bin/bash
# roce_timing_test.sh PROGRAM [ARGUMENT...]: runs a test program in the guest, with two soft-RoCE devices over one veth pair.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/../guest/rxe_pair.sh"
exec "$@"
