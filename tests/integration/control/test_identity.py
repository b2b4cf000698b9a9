# SPDX-License-Identifier: Apache-2.0
"""What is new in a sandbox that begins with the files of another one, and what a hostile layer makes of that."""
import concurrent.futures
import json
import os
import re
import subprocess
import time

import cay
import pytest
from conftest import tiny
from test_create_many import ids
from test_life import clean
from test_pool import filled, pool
from test_rollback import rollback
from test_snapshot import drop, fork, gone, snapshot
from test_stop import act
from test_template_snapshot import put

BAKED = "0123456789abcdef0123456789abcdef"
ID = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}\n")  # a random UUID, by machine-id(5) and RFC 9562
OTHER = "fedcba9876543210fedcba9876543210"


def machine(c, text=BAKED + "\n"):
    c.image_import("machine", tiny([cay.directory("etc"), cay.file("etc/machine-id", text.encode(), 0o444),
                                    cay.directory("var/lib"), cay.directory("var/lib/dbus"), cay.file("var/lib/dbus/machine-id", text.encode())]))


def said(c, box, *paths):
    done = c.exec(box, ["cat", *paths], user="0")
    assert done.exit_code == 0, done
    return done.text


def generation(c, box):
    return said(c, box, "/dev/shm/cay-generation")


def test_ten_forks_are_ten_machines(own):
    """Each has an id, a host name and a generation of its own; started again it is the same machine in another generation."""
    machine(own)
    box = own.create("machine")
    assert said(own, box, "/etc/machine-id") == BAKED + "\n"
    forks = ids(fork(own, box, count=10))
    sn = snapshot(own, box)["id"]
    made = [*forks, own.create(None, snapshot=sn)]
    found = {of: said(own, of, "/etc/machine-id") for of in made}
    assert len(set(found.values())) == 11 and all(ID.fullmatch(i) for i in found.values()) and BAKED + "\n" not in found.values()
    for of in made[-2:]:
        assert said(own, of, "/var/lib/dbus/machine-id") == found[of]
        assert own.exec(of, ["stat", "-c", "%a %u %h", "/etc/machine-id"]).text == "444 0 1\n"
        assert own.exec(of, ["hostname"]).text == of + "\n"
    times = {of: generation(own, of) for of in (box, *made)}
    assert len(set(times.values())) == 12 and all(ID.fullmatch(g) for g in times.values())
    assert own.exec(box, ["sh", "-c", "echo x >/dev/shm/cay-generation"]).exit_code != 0
    # the same machine after a stop and a start, and with the files of its own snapshot
    of = made[-1]
    mine = snapshot(own, of)["id"]
    for again in (lambda: (act(own, of, "stop"), act(own, of, "start")), lambda: rollback(own, of, mine)):
        before = generation(own, of)
        again()
        assert said(own, of, "/etc/machine-id") == found[of] and generation(own, of) != before
    # what its owner writes is the owner's
    own.exec(of, ["sh", "-c", f"rm /etc/machine-id; echo {OTHER} >/etc/machine-id"], user="0")
    act(own, of, "stop")
    act(own, of, "start")
    assert said(own, of, "/etc/machine-id") == OTHER + "\n"
    assert said(own, box, "/etc/machine-id") == BAKED + "\n"
    for name in (box, *made):
        own.delete(name)
    for name in (sn, mine):
        drop(own, name)
    gone(own, 2)
    clean(own)


def test_warm_sandboxes_of_a_snapshot_are_machines(own):
    machine(own)
    box = own.create("machine")
    sn = snapshot(own, box)["id"]
    kind = put(own, "kind", sn)
    pool(own, kind, min=2, max=2)
    filled(own, kind, 2)
    found = [said(own, own.create(None, template="kind"), "/etc/machine-id") for _ in range(2)]
    assert len({*found, BAKED + "\n"}) == 3 and all(ID.fullmatch(i) for i in found)


@pytest.mark.parametrize("text", ["", "uninitialized\n", "not an id\n"])
def test_a_file_without_an_id_has_none_in_a_fork(own, text):
    machine(own, text)
    box = own.create("machine")
    (of,) = ids(fork(own, box))
    assert said(own, of, "/etc/machine-id", "/var/lib/dbus/machine-id") == text * 2
    plain = own.create("tiny")
    (none,) = ids(fork(own, plain))
    assert own.exec(none, ["ls", "/etc/machine-id"]).exit_code != 0
    for name in (box, of, plain, none):
        own.delete(name)


# what a hostile sandbox leaves at the name, and what is there in its fork
PLANTED = {
    "a link": ("ln -s /workspace/canary machine-id", f"link {BAKED}"),
    "a link out of the root": ("ln -s ../../../../../../workspace/canary machine-id", f"link {BAKED}"),
    "a directory": (f"mkdir machine-id; echo {BAKED} >machine-id/x", "directory"),
    "a FIFO": ("mkfifo machine-id 2>/dev/null || busybox mkfifo machine-id", "fifo"),
    "a socket": ("busybox timeout 1 busybox nc -lU machine-id; [ -S machine-id ] || exit 0", "socket"),
    "a file of 1 TiB": (f"echo {BAKED} >machine-id; busybox truncate -s 1099511627776 machine-id", "1099511627776"),
    "more names of it": (f"echo {BAKED} >machine-id; ln machine-id /workspace/hard", "new"),
    "a file of a user": (f"echo {BAKED} >machine-id; chown 1000 machine-id", "new"),
    "a file of a user without a mode": (f"echo {BAKED} >machine-id; chmod 0 machine-id; chown 1000 machine-id", BAKED),  # PID 1 is root without rights
    "a directory of a user": (f"echo {BAKED} >machine-id; chown 1000 machine-id /etc; chmod 1777 /etc", BAKED),
    "its directory is a link": (f"cd /; mv etc workspace/etc; ln -s workspace/etc etc; echo {BAKED} >etc/machine-id", BAKED),
    "its directory is a FIFO": ("cd /; mv etc workspace/etc; mkfifo etc 2>/dev/null || busybox mkfifo etc", "none"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_hostile_layer(own, what):
    """No link is followed and nothing is waited for; what is no file with an id stays as it was."""
    how, then = PLANTED[what]
    box = own.create("tiny")
    assert own.exec(box, ["sh", "-c", f"echo {BAKED} >/workspace/canary; mkdir -p /etc; cd /etc; rm -f machine-id; {how}"], user="0").exit_code == 0
    sn = snapshot(own, box)["id"]
    began = time.monotonic()
    of = own.create(None, snapshot=sn)
    assert time.monotonic() - began < 5 * cay.SLOW
    assert said(own, of, "/workspace/canary") == BAKED + "\n"
    found = own.exec(of, ["sh", "-c", "cd /etc 2>/dev/null || exec echo none; if [ -L machine-id ]; then echo link $(cat machine-id); elif [ -d machine-id ]; then echo directory; elif [ -p machine-id ]; then echo fifo; "
                          "elif [ -S machine-id ]; then echo socket; elif [ $(stat -c %s machine-id) -gt 99 ]; then stat -c %s machine-id; else cat machine-id; fi"], user="0").text
    if then == "new":
        assert ID.fullmatch(found), found
    elif what != "a socket" or "socket" in found:
        assert found == then + "\n", found
    if what == "more names of it":
        assert said(own, of, "/workspace/hard") == BAKED + "\n"
    for name in (box, of):
        own.delete(name)
    drop(own, sn)


# what a program seeds itself with, and what it says to a client: a key and a certificate are files, and the same in all copies
SEEDS = """
import ctypes, json, os, random, secrets, ssl, tempfile, uuid
def hello():
    'The random of the ServerHello, bytes 6 to 38 of the message of RFC 8446, 4.1.3; the record has a head of five.'
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain('/workspace/tls.pem')
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.wrap_bio(b, a).do_handshake()
    except ssl.SSLWantReadError:
        pass
    try:
        server.wrap_bio(a, b, server_side=True).do_handshake()
    except ssl.SSLWantReadError:
        pass
    said = b.read()
    assert said[0] == 22 and said[5] == 2, said[:6]
    return said[11:43].hex()
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_void_p
libc.getauxval.argtypes = [ctypes.c_ulong]
print(json.dumps({
    'getrandom': os.getrandom(16).hex(), 'urandom': open('/dev/urandom', 'rb').read(16).hex(), 'random': open('/dev/random', 'rb').read(16).hex(),
    'uuid4': str(uuid.uuid4()), 'uuid of the kernel': open('/proc/sys/kernel/random/uuid').read(), 'secrets': secrets.token_hex(16),
    'AT_RANDOM': ctypes.string_at(libc.getauxval(25), 16).hex(), "Python's own": random.getrandbits(128), 'hash of a text': hash('a'), 'TLS': hello()}))
"""
FORKS = 100 if os.environ.get("CAY_FULL") else 40


def test_forks_share_no_random_number(daemon, code_image, tmp_path):
    """Each starts a program with the same bytes, and no two get one number that is the same (RED-SNP-01)."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=fork",
                    "-days", "2", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    box = daemon.create(code_image)
    for name, data in (("tls.pem", (tmp_path / "key").read_bytes() + (tmp_path / "cert").read_bytes()), ("seeds.py", SEEDS.encode())):
        reply = daemon.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/workspace/{name}", data)
        assert reply.status in (200, 201), reply.read()
    forks = ids(fork(daemon, box, count=FORKS))

    def numbers(of):
        done = daemon.exec(of, ["python3", "/workspace/seeds.py"], timeout_s=120)
        assert done.exit_code == 0, done
        return json.loads(done.text)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(numbers, [box, *forks]))
    for what in found[0]:
        assert len({str(of[what]) for of in found}) == FORKS + 1, what
    for of in (box, *forks):
        daemon.delete(of)
