# SPDX-License-Identifier: Apache-2.0
"""Python kernels that are forked from an interpreter which the sandbox keeps loaded"""
import concurrent.futures
import contextlib
import json
import os

import pytest
from cay import ApiError, let_pass, wait_for
from test_kernels import Kernel, texts
from test_kernels import box as cold_box  # noqa: F401
from test_pool import filled, now, pool
from test_templates import put

pytestmark = pytest.mark.one_lane  # its sandbox
WARM = [{"language": "python", "modules": ["numpy", "no_such_module"]}]


@pytest.fixture(scope="module")
def box(daemon, cold_box):  # noqa: F811
    name = daemon.create("code", limits={"memory_bytes": "2Gi"}, kernels=WARM)
    forked(daemon, name)
    yield name
    daemon.delete(name)


def family(daemon, name):
    """Processes that have the option of a parent and are no kernels: pid, as the sandbox sees it, session, age."""
    rows = daemon.exec(name, ["ps", "-eo", "pid,sid,etimes,args", "--no-headers"], user="0").stdout.decode().splitlines()
    kernels = {k.get("pid") for k in daemon.call("GET", f"/v1/sandboxes/{name}/kernels")["kernels"]}
    return [p for p in (tuple(map(int, r.split()[:3])) for r in rows if " --parent " in r) if p[0] not in kernels]


def parents(daemon, name):
    """Pid and age of those that lead a session: not what a parent has forked."""
    return [(pid, age) for pid, session, age in family(daemon, name) if pid == session]


def spares(daemon, name):
    """Pids of contexts that are forked and wait to be used."""
    return [pid for pid, session, _ in family(daemon, name) if pid != session]


def the_spare(daemon, name):
    wait_for("a spare", lambda: len(spares(daemon, name)) == 1, 10)
    return spares(daemon, name)[0]


def loaded(daemon, name):
    return daemon.call("GET", f"/v1/sandboxes/{name}/kernels").get("loaded")


def forked(daemon, name):
    """Until the parent is ready, kernels start without it."""
    def one():
        with Kernel(daemon, name) as k:
            return k.info()["forked"]
    wait_for("a kernel that was forked", one, 60)


SHOW = "import os, sys, json, signal, resource\n" \
    "shown = dict(env=dict(os.environ), cwd=os.getcwd(), uid=os.getresuid(), gid=os.getresgid(), groups=os.getgroups(), argv=sys.argv," \
    " path=sys.path, umask=os.umask(0o22), session=os.getsid(0) == os.getpid(), leader=os.getpgid(0) == os.getpid(), parent=os.getppid()," \
    " files=resource.getrlimit(resource.RLIMIT_NOFILE), oom=open('/proc/self/oom_score_adj').read(), fds=sorted(os.listdir('/proc/self/fd'))[:3]," \
    " cpus=sorted(os.sched_getaffinity(0)).__len__(), sigint=str(signal.getsignal(signal.SIGINT))[:24], blocked=str(signal.pthread_sigmask(0, [])))\n" \
    "print(json.dumps(shown))"


def test_it_is_like_one_that_was_started(daemon, box, cold_box):  # noqa: F811
    """What a cold kernel sees of itself is what a forked one sees."""
    with Kernel(daemon, cold_box, cwd="/tmp", env={"A": "b", "TZ": "Asia/Tokyo"}) as cold, \
            Kernel(daemon, box, cwd="/tmp", env={"A": "b", "TZ": "Asia/Tokyo"}) as warm:
        assert (cold.info()["forked"], warm.info()["forked"]) == (False, True)
        assert warm.info()["version"] == cold.info()["version"] and warm.info()["implementation"] == cold.info()["implementation"]
        assert json.loads(warm.run(SHOW)["stdout"]) == json.loads(cold.run(SHOW)["stdout"])
        run = warm.run("import sys\n'numpy' in sys.modules")
        assert texts(run) == ["True"] and run["execution_count"] == cold.run("1")["execution_count"]


def test_the_claims_variables_reach_a_forked_kernel(daemon, box):
    with Kernel(daemon, box) as k:
        shown = json.loads(k.run("import os, json; print(json.dumps(dict(os.environ)))")["stdout"])
    done = daemon.exec(box, ["env", "-0"])
    outside = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
    assert {key: shown.get(key) for key in outside} == outside


@pytest.mark.parametrize("fields", [{"env": {"PYTHONPATH": "/tmp"}}, {"env": {"PATH": "/usr/bin"}}, {"env": {"LD_PRELOAD": ""}},
                                    {"env": {"A": "b" * 20000}}, {"env": {"HOME": "/tmp"}}, {"env": {"OMP_NUM_THREADS": "2"}}, {"env": {"LC_ALL": "C"}},
                                    {"env": {"MPLBACKEND": "agg"}}, {"env": {"VIRTUAL_ENV": "/tmp"}}, {"user": "root"}])
def test_another_start_is_not_forked(daemon, box, fields):
    with Kernel(daemon, box, **fields) as k:
        assert not k.info()["forked"]
        key, value = next(iter(fields.get("env", {"USER": "root"}).items()))
        assert k.run(f"import os; print(os.environ[{key!r}], os.getuid())")["stdout"] == f"{value} {0 if 'user' in fields else 1000}\n"


def test_a_directory_that_is_not_there(daemon, box):
    with pytest.raises(ApiError, match="cannot start in .*/nope.*: No such file or directory") as e:
        Kernel(daemon, box, cwd="/nope")
    assert e.value.status == 400 and json.loads(e.value.body)["error"]["field"] == "cwd"


DICE = "import random, uuid, os, numpy, tempfile; print(random.random(), numpy.random.rand(), uuid.uuid4(), os.urandom(8).hex(), tempfile.mktemp())"


def test_a_hundred_share_nothing(daemon, box):
    """KRN-05: variables and dice of one are not in another's, and the end of each is its own."""
    seen = []
    for n in range(100 if os.environ.get("CAY_FULL") else 20):
        with Kernel(daemon, box) as k:
            assert k.info()["forked"], n
            assert k.run(f"assert 'mine' not in globals()\nmine = {n}")["end"]["exit_code"] == 0
            seen.append(k.run(DICE)["stdout"].split())
    for column in zip(*seen):
        assert len(set(column)) == len(column)


def test_ends_are_exact(daemon, box):
    with contextlib.ExitStack() as all_of:
        kernels = [all_of.enter_context(Kernel(daemon, box)) for _ in range(4)]
        assert all(k.info()["forked"] for k in kernels)
        run = kernels[0].run("import os; os._exit(7)")
        assert run["end"]["exit_code"] == 7 and kernels[0].info()["end"]["exit_code"] == 7
        run = kernels[1].run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert run["end"]["signal"] == "SIGSEGV", run
        assert kernels[2].run("import os; os.system('sleep 1000 &')\n3")["end"]["exit_code"] == 0
        assert texts(kernels[3].run("1 + 1")) == ["2"]
        run = kernels[0].run("1 + 1")
        assert texts(run) == ["2"] and run["restarted"] and kernels[0].info()["forked"]
    wait_for("the end of a process of a deleted kernel", lambda: not daemon.exec(box, ["pgrep", "-f", "sleep 1000"]).stdout, 10)


def test_a_restart_when_all_places_are_taken(daemon, box):
    """The kernel is replaced: a place for the new one is not needed.  One more of another name is refused, and nothing ends."""
    at = f"/v1/sandboxes/{box}/kernels"

    def pids():
        return {k["name"]: k["pid"] for k in daemon.call("GET", at)["kernels"]}
    try:
        while True:
            try:
                Kernel(daemon, box, name=f"k{len(pids())}")
            except ApiError as e:
                assert e.code == "limit_exceeded" and len(pids()) == 16
                break
        before = pids()
        for n in range(3):  # the one before may still be ending
            run = daemon.call("POST", at + "/runs", {"language": "python", "name": "k5", "code": "import os\nos.getpid()", "restart": True})
            now = pids()
            assert run["restarted"] and texts(run) == [str(now["k5"])] and now["k5"] != before["k5"] and len(now) == 16
            assert {**now, "k5": 0} == {**before, "k5": 0}
            before = now
        with pytest.raises(ApiError, match="too many kernels"):
            daemon.call("POST", at + "/runs", {"language": "python", "name": "other", "code": "1", "restart": True})
        assert pids() == before
    finally:
        for k in daemon.call("GET", at)["kernels"]:
            daemon.call("DELETE", f"{at}/{k['id']}")


def test_one_is_killed_for_memory(daemon, box):
    """The parent and the other kernels stay."""
    with Kernel(daemon, box) as greedy, Kernel(daemon, box) as other:
        assert other.run("kept = 1")["end"]["exit_code"] == 0
        run = greedy.run("hog = []\nwhile True: hog.append(bytearray(b'x') * (64 << 20))")
        assert run["end"]["reason"] == "oom", run
        assert texts(other.run("kept")) == ["1"]
    forked(daemon, box)


def test_everything_is_killed(daemon, box):
    """`kill -9 -1` of the user ends kernels and the parent: each says so, and both come back."""
    with Kernel(daemon, box) as k, Kernel(daemon, box) as other:
        before = parents(daemon, box)
        run = k.run("import os; os.system('kill -9 -1')\nimport signal; signal.pause()")
        assert len(before) == 1 and run["end"]["signal"] == "SIGKILL" and run["end"]["reason"] != "exit", run
        wait_for("the other's end", lambda: other.info()["state"] == "ended", 10)
        assert texts(k.run("1 + 1")) == ["2"]
        forked(daemon, box)
        assert [p for p, _ in parents(daemon, box)] != [p for p, _ in before]
        assert texts(other.run("2 + 2")) == ["4"] and other.info()["forked"]


# Runs in the parent when it starts: leaves a process that has its socket and says something every 10 ms.
FORGER = """import os, select, socket, sys
if "--parent" in sys.orig_argv and not os.fork():
    if os.fork():
        os._exit(0)
    s = socket.socket(fileno=3)
    while True:
        for text in (b"x", b'{"number": 0}', b'{"number": 4096}', b'[{}]', b"y" * 4000):
            try:
                socket.send_fds(s, [text], [0, 1], socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
        select.select([], [], [], 0.01)
"""
SITE = ".local/lib/python3.13/site-packages/usercustomize.py"


def test_forged_messages(daemon, cold_box):  # noqa: F811
    """Code of the parent's user speaks to PID 1 in its place, without the numbers of requests."""
    name = daemon.create("code", limits={"memory_bytes": "2Gi"}, kernels=WARM)
    try:
        forked(daemon, name)
        [(pid, _)] = parents(daemon, name)
        with Kernel(daemon, name) as k:
            assert not k.run(f"import os, pathlib\nat = pathlib.Path.home() / {SITE!r}\nat.parent.mkdir(parents=True)\n"
                             f"at.write_text({FORGER!r})\nos.kill({pid}, 9)").get("exception")
        with Kernel(daemon, name) as k:  # which has the parent started again
            assert texts(k.run("1 + 1")) == ["2"]
        wait_for("the forger", lambda: len(spares(daemon, name)) == 2, 60)
        forked(daemon, name)
        for _ in range(2):
            wait_for("a spare and the forger, which no kernel has taken with it", lambda: len(spares(daemon, name)) == 2, 10)
            # the parent stands still, so that the forger answers first; its answers have not the number of the request
            [(pid, _)] = parents(daemon, name)
            daemon.exec(name, ["kill", "-STOP", str(pid)])
            with concurrent.futures.ThreadPoolExecutor(1) as other:
                made = other.submit(Kernel, daemon, name)
                let_pass(0.5)
                daemon.exec(name, ["kill", "-CONT", str(pid)])
                with made.result() as k:
                    assert texts(k.run("import os\nos.getpid()")) == [str(k.info()["pid"])] and k.info()["forked"]
            assert daemon.exec(name, ["echo", "here"]).text == "here\n"
            with Kernel(daemon, name, user="root") as k:
                assert texts(k.run("1 + 1")) == ["2"]
        wait_for("a spare and the forger", lambda: len(spares(daemon, name)) == 2, 10)
    finally:
        daemon.delete(name)


SEIZE = """import ctypes, os
system = ctypes.CDLL(None, use_errno=True)
print(system.ptrace(0x4206, PARENT, None, None), ctypes.get_errno())
os.kill(PARENT, 9)
"""


def test_a_dead_parent_that_is_held(daemon, box):
    """The code that traces it does not wait for it, so PID 1 sees that its socket ended, and not its end."""
    forked(daemon, box)
    [(pid, _)] = parents(daemon, box)
    with Kernel(daemon, box) as k:
        assert k.run(SEIZE.replace("PARENT", str(pid)))["stdout"] == "0 0\n"
        with Kernel(daemon, box) as other:
            assert texts(other.run("1 + 1")) == ["2"] and not other.info()["forked"]
    forked(daemon, box)


def test_a_parent_that_does_not_answer(daemon, box):
    forked(daemon, box)
    [(pid, _)] = parents(daemon, box)
    daemon.exec(box, ["kill", "-STOP", str(pid)])
    with Kernel(daemon, box) as k:
        assert texts(k.run("1 + 1")) == ["2"] and not k.info()["forked"]
    forked(daemon, box)


def test_a_parent_that_ends_while_it_is_asked(daemon, box):
    """Kernels that wait for it start on their own."""
    forked(daemon, box)
    [(pid, _)] = parents(daemon, box)
    processes = [pid, *spares(daemon, box)]
    daemon.exec(box, ["kill", "-STOP", *map(str, processes)])
    with concurrent.futures.ThreadPoolExecutor() as pool_of:
        made = [pool_of.submit(Kernel, daemon, box) for _ in range(3)]
        let_pass(1)
        daemon.exec(box, ["kill", "-9", *map(str, processes)])
        for kernel in made:
            with kernel.result() as k:
                assert texts(k.run("1 + 1")) == ["2"] and not k.info()["forked"]
    forked(daemon, box)


THREAD = "import sys\nif '--parent' in sys.orig_argv:\n    import signal, threading\n    threading.Thread(target=signal.pause, daemon=True).start()\n"


def test_how_it_is_can_be_seen(daemon, cold_box):  # noqa: F811
    """kernel.list says which modules were left out and why, and why an interpreter is not there."""
    assert loaded(daemon, cold_box) is None
    name = daemon.create("code", limits={"memory_bytes": "2Gi"}, kernels=WARM)
    try:
        assert loaded(daemon, name)["state"] in ("loading", "ready")
        forked(daemon, name)
        assert loaded(daemon, name) == {"state": "ready", "missing": {"no_such_module": "ModuleNotFoundError: No module named 'no_such_module'"}}
        [(pid, _)] = parents(daemon, name)
        with Kernel(daemon, name) as k:
            assert not k.run(f"import os, pathlib\nat = pathlib.Path.home() / {SITE!r}\nat.parent.mkdir(parents=True)\n"
                             f"at.write_text({THREAD!r})\nos.kill({pid}, 9)").get("exception")
        wait_for("its end", lambda: loaded(daemon, name)["state"] == "ended", 10)
        assert loaded(daemon, name)["why"] == "it was killed by SIGKILL"
        with Kernel(daemon, name) as k:  # which has it loaded again
            assert texts(k.run("1 + 1")) == ["2"] and not k.info()["forked"]
        wait_for("its end", lambda: loaded(daemon, name)["state"] == "failed", 60)
        assert "a module started a thread" in loaded(daemon, name)["why"] and not family(daemon, name)
    finally:
        daemon.delete(name)


SEARCH = """import re, sys
hits = 0
with open(f"/proc/{sys.argv[1]}/maps") as maps, open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as memory:
    for line in maps:
        begin, end, may = re.match("(\\w+)-(\\w+) (..)", line).groups()
        if may == "rw":
            memory.seek(int(begin, 16))
            hits += memory.read(int(end, 16) - int(begin, 16)).count(sys.argv[2].encode())
print(hits)
"""


def test_a_spare_has_nothing_of_a_kernel(daemon, box):
    """It is forked ahead: no kernel, and none of the variables, directories and code of any."""
    with Kernel(daemon, box, env={"SECRET": "s3cr3t-of-k"}, cwd="/tmp") as k:
        assert k.run("mine = 1")["end"]["exit_code"] == 0
        spare = the_spare(daemon, box)
        shown = daemon.exec(box, ["sh", "-c", f"readlink /proc/{spare}/cwd; cat /proc/{spare}/environ; cat /proc/{spare}/status"]).text
        assert shown.startswith("/\n") and "s3cr3t" not in shown and "PPid:\t1\n" in shown
        for pid, least in ((k.info()["pid"], 1), (spare, 0)):  # nor is a byte of another's request in its memory
            hits = int(daemon.exec(box, ["python3", "-c", SEARCH, str(pid), "s3cr3t-of-k"]).text)
            assert hits >= 1 if least else hits == 0, (pid, hits)
        assert [row["id"] for row in daemon.call("GET", f"/v1/sandboxes/{box}/kernels")["kernels"]] == [k.id]
        with Kernel(daemon, box, env={"OTHER": "1"}) as next_one:
            assert next_one.info()["pid"] == spare and next_one.info()["forked"]
            assert next_one.run("import os; print('SECRET' in os.environ, os.environ['OTHER'], 'mine' in globals())")["stdout"] == "False 1 False\n"


def test_a_spare_that_is_killed_or_left(daemon, box):
    forked(daemon, box)
    spare = the_spare(daemon, box)
    daemon.exec(box, ["kill", "-9", str(spare)])
    wait_for("the end of the spare", lambda: spare not in spares(daemon, box), 10)
    with Kernel(daemon, box) as k:
        assert k.info()["forked"] and k.info()["pid"] != spare and texts(k.run("1 + 1")) == ["2"]
    spare = the_spare(daemon, box)
    [(pid, _)] = parents(daemon, box)
    daemon.exec(box, ["kill", "-9", str(pid)])
    wait_for("its end", lambda: not family(daemon, box), 10)
    forked(daemon, box)


@pytest.mark.parametrize("given, words", [
    ([{"language": "node"}], "python"), ([{"language": "python", "modules": ["os;import"]}], "os;import.* is not the name of a module"),
    ([{"language": "python", "modules": ["--parent"]}], "is not the name"), (WARM * 2, "kernels"), ([{}], "language")])
def test_refused(daemon, cold_box, given, words):  # noqa: F811
    with pytest.raises(ApiError, match=words) as e:
        daemon.create("code", kernels=given)
    assert e.value.status == 400


def test_a_pool_has_them_loaded(daemon, cold_box):  # noqa: F811
    """The parent of a warm sandbox is older than its claim, and what it loads is what the template says."""
    t = put(daemon, f"kind{os.urandom(3).hex()}", image="code", limits={"memory_bytes": "1Gi"}, kernels=WARM)
    try:
        pool(daemon, t, min=1, max=2)
        filled(daemon, t, 1)
        let_pass(3)
        name = daemon.call("POST", "/v1/sandboxes", {"template": t["name"], "env": {"TASK": "7"}})["id"]
        assert now(daemon, t)["claimed"] == 1
        [(_, age)] = parents(daemon, name)
        assert age >= 2
        forked(daemon, name)
        with Kernel(daemon, name) as k:
            assert k.run("import os; print(os.environ['TASK'])")["stdout"] == "7\n"
        daemon.delete(name)
        filled(daemon, t, 1)
        other = daemon.call("POST", "/v1/sandboxes", {"template": t["name"], "kernels": []})["id"]
        assert now(daemon, t)["claimed"] == 1 and not family(daemon, other)
        daemon.delete(other)
    finally:
        pool(daemon, t, min=0)
        daemon.call("DELETE", f"/v1/templates/{t['id']}")


def test_the_parent_outlives_cayd(daemon, box):
    forked(daemon, box)
    before = parents(daemon, box)
    daemon.kill_daemon("cayd")
    daemon.start_cayd()
    assert [p for p, _ in parents(daemon, box)] == [p for p, _ in before]
    with Kernel(daemon, box) as k:
        assert k.info()["forked"]
