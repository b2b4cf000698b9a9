# SPDX-License-Identifier: Apache-2.0
"""kernel.eval: code for the kernel of a language, opened when there is none, in one request"""
import concurrent.futures

import pytest
from cay import ApiError, wait_for

pytestmark = pytest.mark.one_lane  # its sandbox


class Box:
    def __init__(self, daemon, image):
        self.daemon = daemon
        self.name = daemon.create(image, limits={"memory_bytes": "1Gi"})
        self.at = f"/v1/sandboxes/{self.name}/kernels"

    def __call__(self, code, language="python", **fields):
        return self.daemon.call("POST", self.at + "/runs", {"language": language, "code": code, **fields}, timeout_s=120)

    def kernels(self):
        return self.daemon.call("GET", self.at)["kernels"]


@pytest.fixture
def run(daemon, code_image):
    box = Box(daemon, code_image)
    yield box
    daemon.delete(box.name)


def texts(run):
    return [r["data"].get("text/plain") for r in run.get("results", [])]


def test_the_kernel_of_a_language_is_opened_once(run):
    first = run("x = 20\nx + 1")
    assert texts(first) == ["21"] and first["number"] == 1 and not first.get("restarted")
    assert texts(run("x")) == ["20"]
    other = run("'x' in globals()", name="other")
    assert texts(other) == ["False"] and other["kernel"] != first["kernel"]
    node = run("const a = 1; a", "javascript")
    assert texts(node) == ["1"] and run("a", "node")["kernel"] == node["kernel"]
    assert [(k["id"], k["name"], k["language"]) for k in run.kernels()] == [
        (first["kernel"], "python", "python"), (other["kernel"], "other", "python"), (node["kernel"], "node", "node")]
    # a kernel of kernel.create, by its name; and the run is one of that kernel
    made = run.daemon.call("POST", run.at, {"language": "python", "name": "made"})["id"]
    assert run("1", name="made")["kernel"] == made
    assert run.daemon.call("POST", f"{run.at}/{made}/runs", {"code": "_"})["number"] == 2


def test_runs_that_come_while_it_starts_wait_for_it(run):
    with concurrent.futures.ThreadPoolExecutor(6) as many:
        runs = list(many.map(lambda i: run(f"seen = globals().get('seen', []) + [{i}]\nlen(seen)"), range(6)))
    assert sorted(texts(r)[0] for r in runs) == list("123456") and len(run.kernels()) == 1
    stream = run.daemon.open("POST", run.at + "/runs", {"language": "r", "code": "1 + 1"}, {"Accept": "text/event-stream"}).read().decode()
    assert "event: result" in stream and "[1] 2" in stream and stream.rstrip().split("\n\n")[-1].startswith("event: end")
    run("x = 5", name="later", detach=True)
    assert texts(run("x", name="later")) == ["5"]


def test_one_that_ended_is_started_anew_and_says_so(run):
    before = run("x = 1")
    assert run("import os\nos._exit(3)")["end"]["exit_code"] == 3
    again = run("'x' in globals()")
    assert again["restarted"] and texts(again) == ["False"] and again["kernel"] == before["kernel"]


def test_restart_ends_the_runs_it_has(run):
    run("x = 1")
    slow = run("import select\nprint('go')\nselect.select([], [], [], 300)", detach=True)
    at = f"{run.at}/{slow['kernel']}"
    wait_for("its begin", lambda: run.daemon.call("GET", f"{at}/runs/{slow['number']}").get("stdout"), 60)
    again = run("'x' in globals()", restart=True)
    assert again["restarted"] and texts(again) == ["False"] and again["kernel"] != slow["kernel"]
    assert [k["id"] for k in run.kernels()] == [again["kernel"]]
    first = run("1", name="new", restart=True)
    assert not first.get("restarted")


def test_a_kernel_that_cannot_start_says_why(daemon, run):
    for language, word in (("bash", "shell.create"), ("typescript", "npx tsx FILE"), ("go", "`go run` with exec.run"), ("cobol", "python, node and r")):
        with pytest.raises(ApiError) as e:
            run("1", language)
        assert e.value.code == "unsupported" and word in str(e.value)
    tiny = Box(daemon, "tiny")
    for accept in ("application/json", "text/event-stream"):
        reply = daemon.open("POST", tiny.at + "/runs", {"language": "python", "code": "1"}, {"Accept": accept})
        assert reply.status == 422 and b"no python3" in reply.read()
    assert tiny.kernels() == []
    daemon.delete(tiny.name)


def test_results_fit_the_reply(run):
    """What is left out is named or counted, and kernel.run_get has it."""
    got = run("from IPython.display import display\n"
              "display({'text/plain': 'small', 'text/html': 'x' * 200_000, 'text/markdown': chr(1) * 20_000, 'text/latex': 'y'}, raw=True)\n"
              "display('z')", max_results="64Ki")
    first, second = got["results"]
    assert first["data"] == {"text/plain": "small", "text/latex": "y"} and second["data"] == {"text/plain": "'z'"}
    assert sorted((c["mime"], c["bytes"], c.get("path")) for c in first["cut"]) == [("text/html", 200_000, None), ("text/markdown", 20_000, None)]
    whole = run.daemon.call("GET", f"{run.at}/{got['kernel']}/runs/{got['number']}")["results"][0]
    assert len(whole["data"]["text/html"]) == 200_000 and not whole.get("cut")
    many = run("for i in range(5000): display(i)", max_results="1Mi")
    n = len(many["results"])
    assert 500 < n < 2000 and many["results_dropped"] == 5000 - n and texts(many) == [str(i) for i in range(n)]
    none = run("1", max_results=0)
    assert none["results_dropped"] == 1 and not none.get("results")
