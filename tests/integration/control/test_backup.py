# SPDX-License-Identifier: Apache-2.0
"""`cay backup` and `cay restore`: a node's state on an empty machine"""
import os
import pathlib
import shutil
import socket
import stat
import subprocess

from cay import Cay, wait_for
from conftest import BUILD, tiny


def cli(c, *words):
    return subprocess.run([pathlib.Path(BUILD).resolve() / "src/cli/cay", *words], env=c.env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=180)


def whole(c):
    """What an operator would miss."""
    tables = {what: c.call("GET", f"/v1/{what}")[what] for what in ("tenants", "keys", "templates", "images")}
    for image in tables["images"]:
        image.pop("last_used_at", None)
    return tables


def listens(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        return s.connect_ex(str(path)) == 0


def halt(c):
    """A child that was forked and has not executed its program yet holds a socket of its parent for a moment longer."""
    for name in ("cayd", "cay-keeper"):
        c.daemons[name].terminate()
        assert c.daemons[name].wait(60) == 0
    for path, kind in ((c.run / "control.sock", socket.SOCK_STREAM), (c.run / "box/keeper.sock", socket.SOCK_SEQPACKET)):
        wait_for(f"{path.name} to close", lambda path=path, kind=kind: not listens(path, kind), 60)


def test_a_restore_on_an_empty_machine_brings_back_all_of_it(own, tmp_path):
    archive = tmp_path / "node.tar"
    tenant = own.call("POST", "/v1/tenants", {"name": "kept"})["id"]
    own.call("POST", "/v1/keys", {"tenant": tenant, "name": "laptop", "scope": "write"})
    own.call("POST", "/v1/templates", {"name": "kind", "defaults": {"image": "tiny"}})
    box = own.create("tiny", name="lost")
    rests = own.create("tiny", name="rests")
    own.call("POST", f"/v1/sandboxes/{rests}/stop")
    wait_for("its stop", lambda: own.get(rests)["state"] == "stopped", 30)
    before, ids = whole(own), own.call("GET", "/v1/audit/head")
    refused = cli(own, "backup", str(archive))
    assert refused.returncode == 5 and "is running" in refused.stderr and not archive.exists(), refused

    halt(own)
    link = own.state / "images" / "link"  # as an image may have
    link.symlink_to("db/x")
    done = cli(own, "backup", str(archive))
    assert done.returncode == 0 and done.stdout.startswith(f"wrote {archive}, "), done
    assert stat.S_IMODE(os.stat(archive).st_mode) == 0o600 and [p.name for p in tmp_path.iterdir()] == ["node.tar"]
    assert cli(own, "backup", str(archive)).returncode == 5, "a backup is never overwritten"
    again = cli(own, "restore", str(archive))
    assert again.returncode == 5 and "already has a journal" in again.stderr, again

    own._remove_cgroups()  # the machine is gone, and its sandboxes with it
    shutil.rmtree(own.state)
    shutil.rmtree(own.run)
    cut = tmp_path / "cut.tar"  # as of a restore that was killed: tar ends half-way
    cut.write_bytes(archive.read_bytes()[:archive.stat().st_size // 2])
    assert cli(own, "restore", str(cut)).returncode == 1 and not (own.state / "db").exists()
    (own.state / "db.part").mkdir(exist_ok=True)
    (own.state / "db.part" / "journal.db-wal").write_bytes(b"of another restore")
    done = cli(own, "restore", str(archive))
    assert done.returncode == 0 and not (own.state / "db.part").exists(), done
    assert os.readlink(link) == "db/x"
    link.unlink()
    own.start()
    assert whole(own) == before
    assert own.call("GET", "/v1/audit/head")["count"] >= ids["count"]
    wait_for("the end of what was lost", lambda: own.get(box)["state"] in ("failed", "terminated"), 60)
    wait_for("the end of what was stopped", lambda: own.get(rests)["state"] in ("failed", "terminated"), 60)
    assert {own.get(one)["end"]["reason"] for one in (box, rests)} == {"node_lost"}, "no files of sandboxes are in it"
    assert own.exec(own.create("tiny"), ["echo", "from the image"]).text == "from the image\n"
    assert cli(own, "audit", "verify").returncode == 0
    assert own.call("GET", "/v1/fsck").get("findings", []) == []


def test_the_log_of_decisions_is_in_a_backup_if_cay_egress_rests(tmp_path):
    """Otherwise it is left out, and the command says so; nothing half-written gets in."""
    with Cay(BUILD, env={"CAY_EGRESS_DNS": "192.0.2.1"}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        box = c.create("tiny", egress={"rules": [{"action": "allow", "to": "db.example.com"}]})
        c.exec(box, ["busybox", "nslookup", "evil.test", "192.0.0.1"])
        wait_for("a record", lambda: list((c.state / "egress").glob("tn*/00000001.log")), 30)
        c.delete(box)
        halt(c)
        running = cli(c, "backup", str(tmp_path / "running.tar"))
        assert running.returncode == 0 and "without the log of cay-egress" in running.stdout, running
        c.kill_daemon("cay-egress")
        resting = cli(c, "backup", str(tmp_path / "resting.tar"))
        assert resting.returncode == 0 and "without" not in resting.stdout, resting
        names = [subprocess.run(["tar", "-tf", tmp_path / name], capture_output=True, text=True, check=True).stdout.splitlines()
                 for name in ("running.tar", "resting.tar")]
        assert not [name for name in names[0] if name.startswith("egress")] and "egress/ca-seed" in names[1]
        log = next((c.state / "egress").glob("tn*"))
        assert f"egress/{log.name}/00000001.log" in names[1]
        (tmp_path / "out").mkdir()
        subprocess.run(["tar", "-C", tmp_path / "out", "-xf", tmp_path / "resting.tar"], check=True)
        assert cli(c, "audit", "verify", str(tmp_path / "out/egress" / log.name)).returncode == 0
