#!/bin/bash
# rxe_fabric.sh LEAVES SPINES HOSTS [RATE]: a leaf-spine fabric with soft-RoCE hosts, forwarded by the kernel with ECMP over ports.
# Leaf L is the namespace leafL, spine S spineS. Host N is interface hN with device rN and address 10.L.N.2, in the first namespace; hosts
# fill the leaves one after the other. Leaf L reaches spine S by its interface uS, spine S leaf L by dL; host N hangs on the leaf's pN.
# RATE (as tc takes it, 20mbit) limits every link in both directions.
set -euo pipefail
# shellcheck source=tests/vm/guest/rxe_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/rxe_common.sh"
(($# >= 3)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
leaves=$1 spines=$2 hosts=$3 rate=${4:-}

add_switch() {
  ip netns add "$1"
  ip -n "$1" link set lo up
  ip netns exec "$1" sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1 \
    net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
}

# limit [-n NAMESPACE] INTERFACE
limit() {
  [ -n "$rate" ] || return 0
  local interface=${*: -1}
  tc "${@:1:$#-1}" qdisc add dev "$interface" root tbf rate "$rate" burst 10kb latency 50ms
}

leaf_of() { printf '%s\n' $((($1 - 1) * leaves / hosts + 1)); }

prepare_roce
modprobe sch_tbf
for ((leaf = 1; leaf <= leaves; leaf++)); do add_switch "leaf$leaf"; done
for ((spine = 1; spine <= spines; spine++)); do add_switch "spine$spine"; done

for ((host = 1; host <= hosts; host++)); do
  leaf=$(leaf_of "$host")
  ip link add "h$host" type veth peer name "p$host" netns "leaf$leaf"
  ip -n "leaf$leaf" addr add "10.$leaf.$host.1/24" dev "p$host"
  ip -n "leaf$leaf" link set "p$host" up
  roce_host "h$host" "r$host" "10.$leaf.$host.2/24" $((100 + host)) "10.$leaf.$host.1"
  limit "h$host"
  limit -n "leaf$leaf" "p$host"
done

for ((leaf = 1; leaf <= leaves; leaf++)); do
  uplinks=()
  for ((spine = 1; spine <= spines; spine++)); do
    ip link add "u$spine" netns "leaf$leaf" type veth peer name "d$leaf" netns "spine$spine"
    ip -n "leaf$leaf" addr add "10.$((100 + spine)).$leaf.1/24" dev "u$spine"
    ip -n "spine$spine" addr add "10.$((100 + spine)).$leaf.2/24" dev "d$leaf"
    ip -n "leaf$leaf" link set "u$spine" up
    ip -n "spine$spine" link set "d$leaf" up
    ip -n "spine$spine" route add "10.$leaf.0.0/16" via "10.$((100 + spine)).$leaf.1"
    uplinks+=(nexthop via "10.$((100 + spine)).$leaf.2")
    limit -n "leaf$leaf" "u$spine"
    limit -n "spine$spine" "d$leaf"
  done
  for ((other = 1; other <= leaves; other++)); do
    ((other == leaf)) || ip -n "leaf$leaf" route add "10.$other.0.0/16" "${uplinks[@]}"
  done
done
