#!/bin/sh
# Two hosts, a and b, in namespaces; this machine is the router between them, with r0 and r1.
set -e
echo 1 >/proc/sys/net/ipv4/ip_forward
for n in 0 1; do
  host=$(echo a b | cut -d ' ' -f $((n + 1)))
  ip netns add "$host"
  ip link add "r$n" type veth peer name eth0 netns "$host"
  ip addr add "10.0.$n.1/24" dev "r$n"
  ip -n "$host" addr add "10.0.$n.2/24" dev eth0
  ip -n "$host" link set lo up
  ip -n "$host" link set eth0 up
  ip link set "r$n" up
  ip -n "$host" route add default via "10.0.$n.1"
done
# express can send to a veth only if its peer polls, which GRO switches on
for host in a b; do ip netns exec "$host" python3 -c '
import fcntl, socket, struct
value = struct.pack("II", 0x2c, 1)
import ctypes
buffer = ctypes.create_string_buffer(value)
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, struct.pack("16sP", b"eth0", ctypes.addressof(buffer)))
'; done
