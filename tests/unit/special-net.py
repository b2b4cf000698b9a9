#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Addresses and what Python's ipaddress says of them, for test-special-net

Writes 16 bytes of an address (IPv4 as ::ffff:a.b.c.d) and a byte, 1 for special: not is_global, unless one of
DIFFERENCES contains it.  They are the boundaries of every network that ipaddress, or we, know, and random ones.
"""
import ipaddress
import random
import sys

# where ipaddress differs: a network, what it is here, and why
DIFFERENCES = [(ipaddress.ip_network(net), special, why) for net, special, why in (
    ("224.0.0.0/4", True, "multicast has no host"),
    ("192.88.99.0/24", True, "relays of 6to4, withdrawn by RFC 7526"),
    ("192.0.0.9/32", True, "anycast of PCP: the nearest gateway of the node"),
    ("192.0.0.10/32", True, "anycast of TURN: the same"),
    ("2001:1::1/128", True, "anycast of PCP"),
    ("2001:1::2/128", True, "anycast of TURN"),
    ("2001:3::/32", True, "AMT: anycast of the nearest relay"),
    ("2001:4:112::/48", True, "AS112: answers for addresses of private networks"),
    ("2001:20::/28", True, "ORCHIDv2: no address of the network layer"),
    ("2001:30::/28", True, "tags of drones, no hosts"),
    ("::/3", True, "not given out for unicast; holds ::/96, 100::/64"),
    ("4000::/2", True, "not given out; holds 5f00::/16"),
    ("8000::/1", True, "not given out; holds fec0::/10 and ff00::/8"),
)]
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # judged by the IPv4 address in it


def expected(address):
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address in NAT64:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    for net, special, _ in DIFFERENCES:
        if address in net:
            return special
    return not address.is_global


def networks():
    for constants in (ipaddress._IPv4Constants, ipaddress._IPv6Constants):
        for value in vars(constants).values():
            yield from (n for n in (value if isinstance(value, list) else [value]) if hasattr(n, "network_address"))
    yield from (net for net, _, _ in DIFFERENCES)
    yield from map(ipaddress.ip_network, ("100.64.0.0/10", "2000::/3", "64:ff9b:1::/48", "2001::/32", "2002::/16", "::/96", "3fff::/20",
                                          "5f00::/16", "::ffff:0:0/96", "0.0.0.0/0", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24"))


def addresses():
    rng = random.Random(20)
    for net in networks():
        low, high, every = int(net.network_address), int(net.broadcast_address), 2 ** net.max_prefixlen
        kind = type(net.network_address)
        yield from (kind(n % every) for n in (low - 1, low, low + 1, high - 1, high, high + 1))
        yield from (kind(rng.randint(low, high)) for _ in range(50))
    for _ in range(20000):
        v4 = rng.getrandbits(32)
        yield ipaddress.IPv4Address(v4)
        yield ipaddress.IPv6Address(int(NAT64.network_address) | v4)
        yield ipaddress.IPv6Address(rng.getrandbits(128))
        yield ipaddress.IPv6Address(0x2 << 124 | rng.getrandbits(125))
        # the forms that hold an IPv4 address: 6to4, Teredo, compatible, local NAT64
        yield ipaddress.IPv6Address(0x2002 << 112 | v4 << 80 | rng.getrandbits(80))
        yield ipaddress.IPv6Address(0x20010000 << 96 | v4 ^ 0xFFFFFFFF)
        yield ipaddress.IPv6Address(v4)
        yield ipaddress.IPv6Address(0x0064FF9B0001 << 80 | v4)


used = set()
for a in addresses():
    full = int(a) | 0xFFFF << 32 if a.version == 4 else int(a)
    sys.stdout.buffer.write(full.to_bytes(16, "big") + bytes([expected(a)]))
    used |= {str(net) for net, special, _ in DIFFERENCES if a in net and a.is_global == special}
sys.exit(f"no difference any more: {unused}" if (unused := {str(net) for net, _, _ in DIFFERENCES} - used) else 0)
