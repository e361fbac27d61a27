#!/bin/bash
# rxe_pair.sh [MTU]: two soft-RoCE devices, rxe0 (interface v0, 10.9.0.1) and rxe1 (v1, 10.9.0.2), whose packets cross a veth pair.
# GID 0 of each is its link-local IPv6 address, fe80::ff:fe00:901 and fe80::ff:fe00:902, GID 1 its IPv4 address.
set -euo pipefail
# shellcheck source=tests/vm/guest/rxe_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/rxe_common.sh"
mtu=${1:-1500}

prepare_roce
ip link add v0 mtu "$mtu" address 02:00:00:00:09:01 type veth peer name v1 mtu "$mtu" address 02:00:00:00:09:02
roce_host v0 rxe0 10.9.0.1/24 100
roce_host v1 rxe1 10.9.0.2/24 101
