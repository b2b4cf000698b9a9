#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""First messages of real TLS clients, for test-client-hello

Writes for each: what its SNI is (0 absent, 1 no host name, 2 a name), the name after its length, and the bytes after
theirs.  OpenSSL (s_client, curl, Python) and GnuTLS (git) wrote them just now.
"""
import socket
import ssl
import struct
import subprocess
import sys

ABSENT, INVALID, PRESENT = range(3)
PATIENCE = 40  # seconds; the machine may be busy


def write(sni, name, hello):
    sys.stdout.buffer.write(bytes([sni, len(name)]) + name.encode() + struct.pack(">I", len(hello)) + hello)


def exactly(sock, n):
    got = b""
    while len(got) < n:
        piece = sock.recv(n - len(got))
        if not piece:
            raise EOFError
        got += piece
    return got


def receive(sock):
    """Records until the message in them is whole."""
    hello = message = b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        head = exactly(sock, 5)
        body = exactly(sock, int.from_bytes(head[3:], "big"))
        hello += head + body
        message += body
    return hello


def captured(*command):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        port = str(listener.getsockname()[1])
        with subprocess.Popen([word.replace("PORT", port) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as client:
            try:
                sock, _ = listener.accept()
                with sock:
                    sock.settimeout(PATIENCE)
                    return receive(sock)
            finally:
                client.kill()


def in_memory(name, change=lambda context: None):
    context = ssl.create_default_context()
    change(context)
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def only_tls12(context):
    context.maximum_version = ssl.TLSVersion.TLSv1_2


API = "api.example.com"
OPENSSL = ("openssl", "s_client", "-connect", "127.0.0.1:PORT")
CURL = ("curl", "-sk", "--noproxy", "*", "--resolve", f"{API}:PORT:127.0.0.1")
write(PRESENT, API, captured(*OPENSSL, "-servername", "Api.Example.COM"))
write(PRESENT, API, captured(*OPENSSL, "-servername", API, "-tls1_2"))
split = captured(*OPENSSL, "-servername", API, "-max_send_frag", "512")
write(PRESENT, API, split)
write(ABSENT, "", captured(*OPENSSL, "-noservername"))
write(INVALID, "", captured(*OPENSSL, "-servername", "localhost"))
write(INVALID, "", captured(*OPENSSL, "-servername", API + "."))
write(PRESENT, API, captured(*CURL, f"https://{API}:PORT/"))
write(PRESENT, API, captured(*CURL, "--http1.1", "--tls-max", "1.2", f"https://{API}:PORT/"))
write(ABSENT, "", captured(*CURL, "https://127.0.0.1:PORT/"))
write(PRESENT, API, captured("git", "-c", "http.sslVerify=false", "-c", f"http.curloptResolve={API}:PORT:127.0.0.1", "ls-remote",
                             f"https://{API}:PORT/x"))
write(PRESENT, "xn--bcher-kva.example", in_memory("xn--bcher-kva.example"))
write(PRESENT, API, in_memory(API, lambda context: context.set_alpn_protocols(["h2", "http/1.1"])))
write(PRESENT, API, in_memory(API, only_tls12))
write(ABSENT, "", in_memory("192.0.2.1"))
sys.exit("the client wrote one record" if 5 + int.from_bytes(split[3:5], "big") == len(split) else 0)
