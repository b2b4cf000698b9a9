# SPDX-License-Identifier: Apache-2.0
"""Several tenants are served only where a quota limits each sandbox's disk, or where the operator accepts that none does."""
import cay
import loopfs
import pytest
from cay import ApiError
from conftest import BUILD, tiny

NO = {"CAY_NODE_UNLIMITED_DISK": "no"}


@pytest.fixture(scope="module")
def plain():
    """A node whose file system has no quotas."""
    with loopfs.mounted(loopfs.here(quotas=False)[0], 512 << 20, quotas=False) as at, cay.Cay(BUILD, state_top=at, env=NO) as c:
        at.chmod(0o755)
        c.image_import("tiny", tiny())
        yield c


def restart(c, accept):
    c.env["CAY_NODE_UNLIMITED_DISK"] = accept
    c.kill_daemon("cayd")
    c.start_cayd()


def test_one_tenant_is_served_without_quotas(plain):
    assert plain.call("GET", "/v1/health")["disk"] == "none"
    assert plain.exec(plain.create("tiny"), ["true"]).exit_code == 0


def test_a_second_tenant_needs_quotas(plain):
    with pytest.raises(ApiError) as refusal:
        plain.call("POST", "/v1/tenants", {"name": "second"})
    assert refusal.value.status == 422 and "cay setup" in str(refusal.value)
    assert [t["name"] for t in plain.call("GET", "/v1/tenants")["tenants"]] == ["default"]


def test_a_node_with_two_tenants_creates_only_in_memory(plain):
    """The operator took the permission back, or the quotas are gone since the last start."""
    restart(plain, "yes")
    plain.call("POST", "/v1/tenants", {"name": "second"})
    plain.create("tiny")
    restart(plain, "no")
    with pytest.raises(ApiError) as refusal:
        plain.create("tiny")
    assert refusal.value.status == 422 and "node.unlimited_disk" in str(refusal.value)
    assert plain.exec(plain.create("tiny", storage="memory"), ["true"]).exit_code == 0


@pytest.mark.parametrize("kind", loopfs.here()[:1])
def test_quotas_are_enough(kind):
    with loopfs.mounted(kind, 512 << 20) as at, cay.Cay(BUILD, state_top=at, env=NO) as c:
        at.chmod(0o755)
        c.image_import("tiny", tiny())
        c.call("POST", "/v1/tenants", {"name": "second"})
        c.create("tiny")
