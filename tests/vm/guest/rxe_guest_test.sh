#!/bin/bash
# Runs in the guest: the soft-RoCE helpers make devices whose packets cross real interfaces.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
  printf 'FAILED: %s\n' "$1"
  cat /tmp/server.log /tmp/client.log 2>/dev/null
  exit 1
}

# packets NAMESPACE INTERFACE: sent by it so far; "" is the first namespace.
packets() { ip ${1:+-n "$1"} -s -j link show "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["tx"]["packets"])'; }

# write DEVICE DEVICE ADDRESS: 20 RDMA writes of 64 KiB from the second device to the first, which has the address.
write() {
  local options=(-x 1 -F -s 65536 -n 20) server
  ib_write_bw -d "$1" "${options[@]}" >/tmp/server.log 2>&1 &
  server=$!
  until ss -ltn | grep -q :18515; do
    kill -0 "$server" || fail "ib_write_bw on $1 did not start"
    sleep 0.1
  done
  ib_write_bw -d "$2" "${options[@]}" "$3" >/tmp/client.log 2>&1 || fail "ib_write_bw from $2 to $1"
  wait "$server" || fail "ib_write_bw on $1"
}

"$here/rxe_pair.sh"
before=$(packets '' v1)
write rxe0 rxe1 10.9.0.1
(($(packets '' v1) - before >= 20 * 64)) || fail 'the writes did not leave by the interface of their device'

"$here/rxe_fabric.sh" 2 2 4 100mbit
spines_before=$(($(packets spine1 d1) + $(packets spine2 d1)))
write r1 r4 10.1.1.2
(($(packets spine1 d1) + $(packets spine2 d1) - spines_before >= 20 * 64)) || fail 'the writes did not cross a spine'
before=$(packets spine1 d1)
write r1 r2 10.1.1.2
(($(packets leaf1 p1) >= 40 * 64)) || fail 'writes within a leaf did not cross it'
(($(packets spine1 d1) - before < 64)) || fail 'writes within a leaf crossed a spine'
echo passed
