# Sourced by rxe_pair.sh and rxe_fabric.sh. The soft-RoCE driver of kernel 6.1 listens in the first network namespace only, so all RDMA
# devices live there. What they send one another must all the same go out by one interface and come in by another: routing rules keep the
# kernel from delivering it to itself. Only what a device sends to itself stays inside.
# shellcheck shell=bash

# roce_host INTERFACE DEVICE ADDRESS/PREFIX TABLE [GATEWAY]: an RDMA device on an interface that exists, with routes of its own.
roce_host() {
  local interface=$1 device=$2 address=$3 table=$4 gateway=${5:-}
  ip addr add "$address" dev "$interface" noprefixroute
  sysctl -qw "net.ipv4.conf.$interface.accept_local=1" "net.ipv4.conf.$interface.rp_filter=0" "net.ipv4.conf.$interface.arp_ignore=1"
  ip link set "$interface" up
  ip rule add pref 10 iif "$interface" lookup local
  ip rule add pref 20 oif "$interface" lookup "$table"
  ip route add "$(network_of "$address")" dev "$interface" src "${address%/*}" table "$table"
  ip route add local "${address%/*}" dev "$interface" table "$table"
  [ -z "$gateway" ] || ip route add default via "$gateway" dev "$interface" src "${address%/*}" table "$table"
  rdma link add "$device" type rxe netdev "$interface"
}

# The /24 of ADDRESS/24.
network_of() { printf '%s.0/24\n' "${1%.*}"; }

# Once, before the first roce_host.
prepare_roce() {
  modprobe -a veth rdma_rxe rdma_ucm ib_uverbs
  sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
  # All interfaces share one processor's queue: a few windows of RoCE packets overflow its default of 1000.
  sysctl -qw net.core.netdev_max_backlog=100000
  sysctl -qw net.ipv6.conf.default.accept_dad=0  # link-local addresses, which are RDMA addresses too, count at once
  if ip rule show pref 0 | grep -q local; then
    ip rule add pref 30 lookup local
    ip rule del pref 0
  fi
}
