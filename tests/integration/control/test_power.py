# SPDX-License-Identifier: Apache-2.0
"""The power goes at the moment of a reply: what was acknowledged is there afterwards. Stops and snapshots have rows in their own files."""
import os
import shutil
import subprocess

import cay
from cay import wait_for
from conftest import BUILD, tiny
from test_full import disk  # noqa: F401
from test_life import ended, fsck, linked
from test_volumes import at, drop, get, gone, listed, sh, volume


def power_cut(c, on, after):
    """What the disk has now is all that is left; the daemons start over it, once after() is called."""
    cut = on.file.with_name("cut")
    subprocess.run(["cp", "--sparse=always", on.file, cut], check=True)
    after()
    for name in ("cayd", "cay-keeper"):
        c.kill_daemon(name)
    c._remove_cgroups()
    shutil.rmtree(c.run)
    on.umount()
    os.replace(cut, on.file)
    on.mount()
    c.start_keeper()
    c.start_cayd()
    wait_for("the link", lambda: linked(c), 30)


def test_a_volume_is_there(disk):  # noqa: F811
    """One that was made, with its files as far as a program asked for them to be on the disk; one that was deleted is gone."""
    with cay.Cay(BUILD, state_top=disk.at) as c:
        c.image_import("tiny", tiny())
        subprocess.run(["sync", "-f", disk.at], check=True)
        kept, dropped = volume(c, "kept", labels={"a": "b"}), volume(c, "dropped")
        box = c.create("tiny", volumes=[at(kept)])
        done = sh(c, box, "cd /workspace/data && seq 1 5000 | dd of=numbers conv=fsync && mkdir d && ln numbers d/link && echo x | dd of=d/last conv=fsync")
        assert done.exit_code == 0, done
        drop(c, dropped)
        power_cut(c, disk, lambda: volume(c, "later"))
        assert [v["name"] for v in listed(c)] == ["kept"] and get(c, kept)["labels"] == {"a": "b"}
        ended(c, box)
        assert not fsck(c)
        again = c.create("tiny", volumes=[at(kept)])
        assert sh(c, again, "cd /workspace/data; wc -l <numbers; cat d/last; stat -c %h d/link").text.split() == ["5000", "x", "2"]
        c.delete(again)
        drop(c, kept)
        gone(c)
