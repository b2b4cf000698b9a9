# SPDX-License-Identifier: Apache-2.0
"""lab - an internet of its own: a network namespace with name servers and hosts, behind one link

The caller's namespace is the node: its only way out is the link, so whatever leaves it can be seen there.  Addresses
are public ones, because others are refused by cay-egress; nothing leaves the machine.  A host is an address with
ports.  It answers each connection with a line about itself, then echoes, and keeps the first bytes it got.  At port STORE it
reads to the end first, and then sends all back; at port SINK it says nothing; at port SOURCE it sends SOURCE_BYTES and ends.  The host SWITCHES says nothing but that it switches protocols after the first request.
"""
import asyncio
import contextlib
import ctypes
import multiprocessing
import pathlib
import socket
import ssl
import struct
import subprocess

NODE, DNS, GATEWAY = "93.184.1.1", "93.184.1.53", "93.184.1.2"
STORE, SINK, SOURCE = 9000, 9001, 9002
SOURCE_BYTES = 4 << 20
SWITCHES = "93.184.2.5"
ETH_IP, ETH_IP6, ETH_ALL = 0x0800, 0x86DD, 3
CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 263, 6, 33, 35


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True)


def labels(data, at):
    out = []
    while data[at]:
        out.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(out), at + 1


class Names(asyncio.DatagramProtocol):
    """A name server: zone maps a name to a list of addresses or to None, which fails.  Answers are good for a minute if the name
    begins with "kept.", and otherwise for no time.  A name that begins with "turns." has its addresses by turns, one in an answer."""

    def __init__(self, zone, asked):
        self.zone, self.asked = zone, asked

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.transport.sendto(self.answer(data), peer)

    def answer(self, data, udp=True):
        name, at = labels(data, 12)
        kind = struct.unpack_from(">H", data, at)[0]
        self.asked.append((name.lower(), kind, "udp" if udp else "tcp"))
        question = data[12:at + 4]
        there = self.zone.get(name.lower(), ())
        code = 2 if there is None else 0 if name.lower() in self.zone else 3
        records = b""
        n, ttl = 0, 60 if name.lower().startswith("kept.") else 0
        if name.lower().startswith("turns."):
            there = [there[len(self.asked) % len(there)]]
        for address in there or ():
            if address.startswith("="):  # an alias
                target = b"".join(bytes([len(p)]) + p.encode() for p in address[1:].split(".")) + b"\0"
                records += b"\xc0\x0c" + struct.pack(">HHIH", 5, 1, ttl, len(target)) + target
                for real in self.zone.get(address[1:], ()):
                    if kind == 1 and ":" not in real:
                        records += target + struct.pack(">HHIH", 1, 1, ttl, 4) + socket.inet_aton(real)
                        n += 1
                n += 1
            elif kind == 1 and ":" not in address:
                records += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, ttl, 4) + socket.inet_aton(address)
                n += 1
            elif kind == 28 and ":" in address:
                records += b"\xc0\x0c" + struct.pack(">HHIH", 28, 1, ttl, 16) + socket.inet_pton(socket.AF_INET6, address)
                n += 1
        cut = udp and name.lower().startswith("long.")
        if cut:
            records, n = b"", 0
        return data[:2] + struct.pack(">HHHHH", 0x8180 | (0x0200 if cut else 0) | code, 1, n, 0, 0) + question + records


class Lab:
    """zone and hosts may be changed while it runs: they are sent to the other side."""

    def __init__(self, hosts, zone, tls=None, watch=True):
        self.hosts, self.zone, self.tls = hosts, zone, tls  # tls: (certificate, key) of port 443
        self.watch = watch  # without it frames() and watched() are not there, and packets cost as much as on other links

    def __enter__(self):
        self.ours, theirs = multiprocessing.Pipe()
        self.child = multiprocessing.get_context("fork").Process(target=self.serve, args=(theirs,), daemon=True)
        self.child.start()
        assert self.ours.recv() == "namespace"
        ip("link", "add", "cay-out", "type", "veth", "peer", "name", "cay-in", "netns", str(self.child.pid))
        ip("link", "set", "cay-out", "addrgenmode", "none")  # the kernel sends nothing by itself
        ip("addr", "add", NODE + "/24", "dev", "cay-out")
        ip("link", "set", "cay-out", "up")
        ip("route", "add", "default", "via", GATEWAY)
        self.ours.send("link")
        assert (said := self.ours.recv()) == "up", said
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.join()
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", "cay-out")

    def tell(self, what, *args):
        self.ours.send((what, *args))
        return self.ours.recv()

    def set_name(self, name, addresses):
        self.tell("zone", name, addresses)

    def asked(self):
        """(name, type, transport) of every question since the last call."""
        return self.tell("asked")

    def connections(self):
        """(address, port, first bytes) of every connection since the last call."""
        return self.tell("connections")

    def traffic(self):
        """How many connections hosts had, and the bytes that they received and sent, since the start."""
        return self.tell("traffic")

    def frames(self):
        """(protocol, destination, port, payload) of every IPv4 and IPv6 packet that left the node, and how many were not seen."""
        return self.tell("frames")

    def watched(self):
        """(time in ns, packet as frames() has it, flags of TCP) of every packet that left the node; how many frames were captured in all
        since the lab began, how many the link counts, and how many were not seen."""
        return self.tell("watched")

    # -- in the child

    def serve(self, pipe):
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        pipe.send("namespace")
        pipe.recv()
        try:
            ip("link", "set", "lo", "up")
            ip("addr", "add", GATEWAY + "/24", "dev", "cay-in")
            ip("addr", "add", DNS + "/24", "dev", "cay-in")
            for address in sorted({a for a, _ in self.hosts}):
                ip("addr", "add", address + ("/128" if ":" in address else "/32"), "dev", "lo")
            ip("link", "set", "cay-in", "up")
            asyncio.run(self.run(pipe))
        except Exception as e:  # noqa: BLE001: the parent says it
            pipe.send(repr(e))

    async def run(self, pipe):
        loop = asyncio.get_running_loop()
        self.questions, self.seen, self.moved = [], [], []
        if self.watch:
            self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
            self.wire.bind(("cay-in", ETH_ALL))
            self.wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
            self.wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self.wire.setblocking(False)
        self.captured, self.lost, self.counted = 0, 0, link_packets()
        names = Names(self.zone, self.questions)
        await loop.create_datagram_endpoint(lambda: names, local_addr=(DNS, 53))
        await asyncio.start_server(lambda r, w: self.name_tcp(names, r, w), DNS, 53)
        for address, port in self.hosts:
            await self.host(address, port)
        pipe.send("up")
        over = asyncio.Event()
        loop.add_reader(pipe.fileno(), self.command, pipe, over)
        await over.wait()

    async def host(self, address, port):
        context = None
        if port == 443 and self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
        await asyncio.start_server(lambda r, w: self.greet(address, port, r, w), address, port, ssl=context)

    async def name_tcp(self, names, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            n = struct.unpack(">H", await reader.readexactly(2))[0]
            answer = names.answer(await reader.readexactly(n), udp=False)
            writer.write(struct.pack(">H", len(answer)) + answer)
            await writer.drain()
        writer.close()

    async def greet(self, address, port, reader, writer):
        first = []
        self.seen.append((address, port, first))
        self.moved.append([0, 0])
        moved = self.moved[-1]
        with contextlib.suppress(ConnectionError):
            greeting = f"this is {address} port {port}\n".encode()
            if address == SWITCHES:
                first.append(await reader.readuntil(b"\r\n\r\n"))
                greeting = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
            if port != SINK:  # where a write would fail behind a reset, before all was read
                writer.write(greeting)
                moved[1] += len(greeting)
            if port == STORE:
                data = await reader.read()
                moved[0] += len(data)
                moved[1] += len(data)
                writer.write(data)
                await writer.drain()
            if port == SOURCE:
                moved[1] += SOURCE_BYTES
                writer.write(bytes(SOURCE_BYTES))
                await writer.drain()
                writer.close()
                return
            while data := await reader.read(1 << 16):
                moved[0] += len(data)
                if port == SINK:
                    continue
                moved[1] += len(data)
                if len(first) < 16:
                    first.append(data[:4096])
                writer.write(data)
                await writer.drain()
            writer.close()

    def command(self, pipe, over):
        try:
            what, *args = pipe.recv()
        except EOFError:
            over.set()
            return
        if what == "zone":
            self.zone[args[0]] = args[1]
            pipe.send(None)
        elif what == "asked":
            pipe.send(list(self.questions))
            self.questions.clear()
        elif what == "connections":
            pipe.send([(a, p, b"".join(first)) for a, p, first in self.seen])
            self.seen.clear()
        elif what == "traffic":
            pipe.send((len(self.moved), *map(sum, zip(*self.moved, [0, 0], strict=False))))
        elif what == "frames":
            frames, dropped = self.read_frames()
            pipe.send(([p for _, p, _ in frames], dropped))
        elif what == "watched":
            frames, _ = self.read_frames()
            pipe.send((frames, self.captured, link_packets() - self.counted, self.lost))

    def read_frames(self):
        out = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data, extra, _, where = self.wire.recvmsg(1 << 16, 64)
                if where[2] == socket.PACKET_OUTGOING:
                    continue
                self.captured += 1
                seconds, ns = struct.unpack("qq", extra[0][2])
                if read := packet(data):
                    out.append((seconds * 10 ** 9 + ns, read, data[14 + (data[14] & 15) * 4 + 13] if read[0] == 6 and data[23] == 6 else 0))
        _, dropped = struct.unpack("II", self.wire.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.lost += dropped
        return out, dropped


def link_packets():
    """Frames that have arrived in this namespace over the link."""
    lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("cay-in:")).split(":")[1].split()[1])


def packet(frame):
    """(protocol, destination, port, payload), or None for what is no IP."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    if kind == ETH_IP:
        n, protocol, to = (frame[14] & 15) * 4, frame[23], socket.inet_ntoa(frame[30:34])
    elif kind == ETH_IP6:
        n, protocol, to = 40, frame[20], socket.inet_ntop(socket.AF_INET6, frame[38:54])
    else:
        return None
    at = 14 + n
    port = struct.unpack_from(">H", frame, at + 2)[0] if protocol in (6, 17) else 0
    return protocol, to, port, frame[at + (8 if protocol == 17 else (frame[at + 12] >> 4) * 4 if protocol == 6 else 0):]

