# SPDX-License-Identifier: Apache-2.0
"""Tenants and keys: where a secret goes, and where it does not"""
import json

import pytest


def test_a_secret_is_alone_on_standard_output(daemon, cay):
    r = cay("key", "create", "--tenant", "b", "--scope", "operator", "laptop")
    assert r.returncode == 0 and r.stdout == daemon.secrets[0] + "\n"
    assert r.stderr == "cay: save this key now: it will not be shown again\n"
    key, = daemon.keys.values()
    assert (key["name"], key["scope"], key["tenant"]) == ("laptop", "operator", daemon.tenants[2]["id"])
    assert cay("key", "create", "other").returncode == 0
    assert [(k["scope"], k["tenant"]) for k in daemon.keys.values()][1] == ("write", daemon.tenants[0]["id"])


def test_a_file_has_it_and_the_terminal_does_not(daemon, cay, tmp_path):
    for out in ("key", str(tmp_path / "other")):
        r = cay("key", "create", "--out", out, "laptop", cwd=tmp_path)
        assert r.returncode == 0, r.stderr
        file = tmp_path / out
        assert file.read_text() == daemon.secrets[-1] + "\n" and file.stat().st_mode & 0o777 == 0o600
        assert daemon.secrets[-1] not in r.stdout + r.stderr and r.stdout == list(daemon.keys.values())[-1]["prefix"] + "\n"
    file.chmod(0o644)
    r = cay("key", "rotate", "--overlap", "2h", "--json", "--out", str(file), "00000001")
    assert file.read_text() == daemon.secrets[-1] + "\n" and file.stat().st_mode & 0o777 == 0o600
    assert json.loads(r.stdout)["prefix"] == "00000001" and "secret" not in r.stdout and daemon.overlap == 7200000


@pytest.mark.parametrize("out", ["", ".", "..", "no/such/key", "no/"])
def test_what_could_not_be_written_is_not_made(daemon, cay, tmp_path, out):
    r = cay("key", "create", "--out", out, "laptop", cwd=tmp_path)
    assert r.returncode == 2 and not daemon.keys and not r.stdout


def test_what_cannot_be_written_after_all_is_not_lost(daemon, cay, tmp_path):
    (tmp_path / "key").mkdir()
    r = cay("key", "create", "--out", "key", "laptop", cwd=tmp_path)
    assert r.returncode == 1 and r.stdout == daemon.secrets[0] + "\n" and "write 'key'" in r.stderr


def test_revoke_by_prefix_and_by_id(daemon, cay):
    for _ in range(5):
        cay("key", "create", "laptop")
    ids = list(daemon.keys)
    assert cay("key", "revoke", "00000003").returncode == 0 and cay("key", "revoke", ids[0]).returncode == 0
    assert [daemon.keys[i]["revoked"] for i in ids] == [True, False, False, True, False]
    assert [line.split()[4] for line in cay("key", "ls").stdout.splitlines()[1:]] == ["revoked", "good", "good", "revoked", "good"]
    r = cay("key", "rotate", "--overlap", "25h", "00000001")
    assert r.returncode == 2 and len(daemon.secrets) == 5
    assert cay("key", "revoke", "nobody").returncode == 4
