# SPDX-License-Identifier: Apache-2.0
"""Tenants and keys: where a secret goes, and where it does not"""
import json

import fake
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


def test_a_tenants_quotas_are_a_table(daemon, cay):
    tenant = daemon.tenants[2]
    status = {"tenant": tenant, "quotas": {"sandboxes": 20, "memory_bytes": 3 << 29, "cpu_milli": 2500, "max_ttl_ms": 7200000},
              "ceilings": {"memory_bytes": 1 << 30},
              "usage": {"sandboxes": 3, "groups": 1, "memory_bytes": 1 << 29, "cpu_milli": 500, "pids": 300, "disk_bytes": 0, "snapshots": 7, "volumes": 2}}
    daemon.say["GET", f"/v1/tenants/{tenant['id']}"] = fake.reply(200, status)
    rows = [line.split("  ") for line in cay("tenant", "show", "b").stdout.splitlines()]
    cells = [[w.strip() for w in row if w.strip()] for row in rows]
    assert cells == [[f"tenant b ({tenant['id']})"], ["QUOTA", "LIMIT", "GRANTED"], ["sandboxes", "20", "3"], ["groups", "-", "1"],
                     ["memory", "1.5 GiB", "512.0 MiB"], ["cpu", "2.5", "0.5"], ["pids", "-", "300"], ["disk", "-", "0 B"],
                     ["snapshots", "-", "7"], ["volumes", "-", "2"], ["lifetime", "2h"], ["memory of one sandbox", "1.0 GiB"]], cells
    assert json.loads(cay("tenant", "show", "--json", "b").stdout) == status


def test_quotas_are_set_by_their_units(daemon, cay):
    assert cay("tenant", "set", "--memory", "64Gi", "--cpu", "2.5", "--max-ttl", "8h", "--sandbox-pids", "100", "b").returncode == 0
    assert daemon.tenant_update == {"quotas": {"memory_bytes": 64 << 30, "cpu_milli": 2500, "max_ttl_ms": 28800000}, "ceilings": {"pids": 100}, "reset": False}
    r = cay("tenant", "set", "b")
    assert r.returncode == 2 and "give a quota to set" in r.stderr
    r = cay("tenant", "set", "--memroy", "1Gi", "b")
    assert r.returncode == 2 and "--memory" in r.stderr
