# SPDX-License-Identifier: Apache-2.0
"""Kernels of the image `code`, through PID 1: what they keep, show, and survive"""
import base64
import json
import struct
import zlib

import pytest
from cay import ApiError, wait_for
from kernel_cells import CHANNEL

LANGUAGES = ["python", "node", "r"]
pytestmark = pytest.mark.one_lane  # its sandbox


@pytest.fixture(scope="module")
def box(daemon, code_image):
    name = daemon.create(code_image, limits={"memory_bytes": "2Gi"})
    yield name
    daemon.delete(name)


class Kernel:
    def __init__(self, daemon, box, language="python", **fields):
        self.daemon, self.box = daemon, box
        self.id = daemon.call("POST", f"/v1/sandboxes/{box}/kernels", {"language": language, **fields})["id"]
        self.at = f"/v1/sandboxes/{box}/kernels/{self.id}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.daemon.call("DELETE", self.at)

    def run(self, code, **fields):
        return self.daemon.call("POST", self.at + "/runs", {"code": code, **fields}, timeout_s=120)

    def info(self):
        return self.daemon.call("GET", self.at)

    def stream(self, code, accept="application/vnd.cay.frames", **fields):
        return self.daemon.open("POST", self.at + "/runs", {"code": code, **fields}, {"Accept": accept}).read()


def texts(run):
    return [r["data"].get("text/plain") for r in run.get("results", [])]


def test_python(daemon, box):
    with Kernel(daemon, box, name="main", cwd="/tmp") as k:
        assert k.info()["state"] == "idle" and k.info()["name"] == "main" and k.info()["implementation"].startswith("IPython")
        run = k.run("x = 20\nprint('hi')\nx + 1")
        assert (run["stdout"], texts(run), run["execution_count"], run["cwd"]) == ("hi\n", ["21"], 1, "/tmp")
        assert run["results"][0]["main"] and run["end"] == {**run["end"], "reason": "exit", "exit_code": 0}
        run = k.run("x += 1\nx")
        assert texts(run) == ["21"] and run["execution_count"] == 2
        run = k.run("1/0")
        assert run["exception"]["name"] == "ZeroDivisionError" and run["exception"]["value"] == "division by zero"
        assert run["end"]["exit_code"] == 1 and "ZeroDivisionError" in "\n".join(run["exception"]["traceback"])
        assert texts(k.run("import asyncio\nawait asyncio.gather()\nx")) == ["21"]


@pytest.mark.parametrize("language, first, second, shown", [
    ("node", "const a = 20; console.log('hi')", "const b = a + 1; b", "21"),
    ("r", "a <- 20; cat('hi\\n')", "a + 1", "[1] 21")])
def test_languages(daemon, box, language, first, second, shown):
    with Kernel(daemon, box, language) as k:
        assert k.run(first)["stdout"] == "hi\n"
        run = k.run(second)
        assert texts(run) == [shown], run
        assert not run.get("exception")
        run = k.run({"node": "null.x", "r": "stop('no')"}[language])
        assert run["exception"]["value"] and run["end"]["exit_code"] == 1


def test_a_plot_and_a_table(daemon, box):
    """The picture is read by its own header: width, height, and the size of the pixels it unpacks to."""
    with Kernel(daemon, box) as k:
        run = k.run("import pandas as pd\nimport matplotlib.pyplot as plt\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\n"
                    "plt.plot([1, 2, 3], [1, 4, 9]); plt.title('squares')\ndf")
        table, = (r for r in run["results"] if r.get("main"))
        assert "<table" in table["data"]["text/html"]
        assert json.loads(table["data"]["application/vnd.cay.data+json"]) == {"a": [1, 2], "b": ["x", "y"]}
        plot, = (r for r in run["results"] if "image/png" in r["data"])
        png = base64.b64decode(plot["data"]["image/png"], validate=True)
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
        at, pixels = 8, b""
        while at < len(png):
            n, kind = struct.unpack(">I4s", png[at:at + 8])
            pixels += png[at + 8:at + 8 + n] if kind == b"IDAT" else b""
            at += n + 12
        assert len(zlib.decompress(pixels)) == height * (1 + width * depth // 8 * {2: 3, 6: 4}[colour])
        chart = json.loads(plot["data"]["application/vnd.cay.chart+json"])
        assert chart["type"] == "line" and chart["title"] == "squares"


def test_a_data_frame_and_plots_of_r(daemon, box):
    """As text, as HTML and as columns; text of the frame is no markup.  A plot is a PNG, told when nothing can be drawn into it any more."""
    with Kernel(daemon, box, "r") as k:
        shown, = k.run("data.frame(a = 1:2, b = c('<x>', 'y'))")["results"]
        assert shown["main"] and shown["data"]["text/plain"].split() == "a b 1 1 <x> 2 2 y".split()
        html = shown["data"]["text/html"]
        assert html.startswith("<table>") and html.count("<tr>") == 3 and "<td>&lt;x&gt;</td>" in html and "<x>" not in html
        assert json.loads(shown["data"]["application/vnd.cay.data+json"]) == {"a": [1, 2], "b": ["<x>", "y"]}
        results = k.run("plot(1:3)\n'between'\nplot(3:1)")["results"]
        assert [sorted(r["data"]) for r in results] == [["text/plain"], ["image/png", "text/plain"], ["image/png", "text/plain"]]
        first, second = (base64.b64decode(results[i]["data"]["image/png"], validate=True) for i in (1, 2))
        assert first[:8] == second[:8] == b"\x89PNG\r\n\x1a\n" and first != second


def frames(data):
    """Streams of frames as a list of (stream, text), neighbours joined, and the end."""
    at, out, end = 0, [], None
    while at < len(data):
        kind, stream, _, length, _ = struct.unpack("<BBHIQ", data[at:at + 16])
        content = data[at + 16:at + 16 + length]
        at += 16 + length
        assert end is None
        if kind == 3:
            end = json.loads(content)
            continue
        assert kind == 1
        if out and out[-1][0] == stream:
            out[-1] = (stream, out[-1][1] + content)
        else:
            out.append((stream, content))
    return out, end


def test_order_is_exact(daemon, box):
    """KRN-02: output and results come in the order in which the code made them."""
    n = 1000
    code = f"from IPython.display import display\nfor i in range({n}):\n    print(i)\n    display(i)\n"
    with Kernel(daemon, box) as k:
        got, end = frames(k.stream(code))
        assert end["reason"] == "exit"
        seen = []
        for stream, text in got:
            for line in text.decode().splitlines():
                value = json.loads(line)
                seen.append(("print", value) if stream == 1 else
                            ("show", int(value["result"]["data"]["text/plain"])) if "result" in value else ("count", value["execution_count"]))
        assert seen == [("count", 1)] + [(kind, i) for i in range(n) for kind in ("print", "show")]
        # the same as events, where a character is not cut by one
        sse = k.stream("import sys\n_ = sys.stdout.buffer.write(b'\\xc3'); sys.stdout.flush(); display(1)\n_ = sys.stdout.buffer.write(b'\\xa9\\n')",
                       "text/event-stream").decode()
        events = [dict(line.split(": ", 1) for line in e.split("\n")) for e in sse.strip().split("\n\n")]
        kinds = [e.get("event", "data") for e in events]
        assert kinds == ["count", "data", "result", "data", "end"], sse


def test_it_takes_turns(daemon, box):
    with Kernel(daemon, box) as k:
        first = k.run("import select\n_ = select.select([], [], [], 0.5)\nx = 1", detach=True)
        assert first["state"] in ("queued", "running")
        assert texts(k.run("x + 1")) == ["2"]
        assert [r["number"] for r in daemon.call("GET", k.at + "/runs")["runs"]] == [1, 2]


def test_64_runs_wait(daemon, box):
    """One more is refused and changes nothing; all others are done in their order."""
    with Kernel(daemon, box) as k:
        k.run("import pathlib, select\nn = []\nwhile not pathlib.Path('/tmp/go').exists(): select.select([], [], [], 0.05)", detach=True)
        for i in range(64):
            k.run(f"n.append({i})", detach=True)
        with pytest.raises(ApiError, match="too many runs are queued") as e:
            k.run("n.append(64)", detach=True)
        assert e.value.code == "limit_exceeded" and k.info()["queued"] == 64
        daemon.exec(box, ["touch", "/tmp/go"])
        wait_for("all", lambda: k.info()["state"] == "idle" and not k.info()["queued"], 60)
        assert texts(k.run("n == list(range(64))")) == ["True"]


@pytest.mark.parametrize("language, code, keeps", [
    ("python", "import select\nselect.select([], [], [], 60)", True),
    ("python", "while True: pass", True),
    ("python", "!sleep 60", True),
    ("python", "import asyncio\nawait asyncio.Event().wait()", True),
    ("python", "import signal, ctypes\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nctypes.CDLL(None).pause()", False),
    ("node", "while (true) {}", True),
    ("node", "await new Promise(() => setTimeout(() => {}, 60000))", True),
    ("r", "do.call(Sys.sleep, list(60))", True),
    ("r", "repeat {}", True)])
def test_a_timeout_keeps_the_kernel_or_says_so(daemon, box, language, code, keeps):
    """KRN-04"""
    define, ask = {"python": ("kept = 7", "kept"), "node": ("var kept = 7", "kept"), "r": ("kept <- 7", "kept")}[language]
    with Kernel(daemon, box, language) as k:
        k.run(define)
        run = k.run(code, timeout_ms=300)
        assert run["end"]["reason"] == "timeout", run
        again = k.run(ask)
        if keeps:
            assert texts(again)[0].endswith("7") and not again.get("restarted"), again
        else:
            assert again["restarted"] and again["exception"]["name"] == "NameError" and k.info()["restarts"] == 1
        left = daemon.exec(box, ["sh", "-c", "ps ax | grep -c '[s]leep 60' || true"]).text.strip()
        assert left == "0"


def test_interrupt_and_restart(daemon, box):
    with Kernel(daemon, box) as k:
        k.run("x = 1")
        k.run("import select\nselect.select([], [], [], 60)", detach=True)
        daemon.call("POST", k.at + "/interrupt")
        wait_for("its end", lambda: k.info()["state"] == "idle", 20)
        run = daemon.call("GET", k.at + "/runs/2")
        assert run["end"]["signal"] == "SIGINT" and run["exception"]["name"] == "KeyboardInterrupt"
        assert texts(k.run("x")) == ["1"]
        pid = k.info()["pid"]
        again = daemon.call("POST", k.at + "/restart")
        assert again["state"] == "idle" and again["pid"] != pid and again["restarts"] == 1
        run = k.run("x")
        assert run["exception"]["name"] == "NameError" and run["execution_count"] == 1 and not run.get("restarted")


@pytest.mark.parametrize("code, reason", [
    ("import os\nos._exit(5)", {"reason": "exit", "exit_code": 5}),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", {"reason": "signal", "signal": "SIGSEGV"}),
    (CHANNEL + "os.close(channel)", None),
    (CHANNEL + "os.write(channel, b'\\xff' * 100)", None),
    (CHANNEL + "os.write(channel, b'\\x05\\0\\0\\0Rhello')", None),
    (CHANNEL + "os.write(channel, b'\\x02\\0\\0\\0H{}')", None),
    (CHANNEL + "os.write(channel, b'\\x02\\0\\0\\0X{}')", None),
    (CHANNEL + "os.write(channel, struct.pack('<IB', 1 << 22, 82) + b' ' * 60000); os.close(channel)", None)],
    ids=["exit", "fault", "closed", "noise", "no JSON", "ready twice", "no event", "cut off"])
def test_a_kernel_that_dies_says_why_and_goes_on(daemon, box, code, reason):
    """KRN-03"""
    with Kernel(daemon, box) as k:
        k.run("print('kept')")
        run = k.run(code, timeout_ms=20000)
        assert run["state"] == "ended" and (not reason or run["end"] == {**run["end"], **reason}), run
        wait_for("its end", lambda: k.info()["state"] == "ended", 20)
        why = k.info().get("why")
        # one that finds its channel closed may end before PID 1 sees that
        by_itself = not why and "os.close(channel)" in code and run["end"]["reason"] == "exit" and run["end"]["exit_code"]
        assert reason or by_itself or ("runner" in why and run["end"]["detail"] == why), k.info()
        run = k.run("1+1")
        assert texts(run) == ["2"] and run["restarted"]
        output = daemon.open("GET", k.at + "/output?stream=stdout&offset=0").read()
        assert (run["number"], output, daemon.call("GET", k.at + "/runs/1")["stdout"]) == (3, b"kept\n", "kept\n")


def test_more_results_than_allowed(daemon, box):
    """A runner of ours keeps to its limits; what writes to the channel in its place is killed for it."""
    flood = CHANNEL + ("import threading\nframe = b'{\"data\":{\"text/plain\":\"' + b'x' * (4 << 20) + b'\"}}'\n"
                       "frame = struct.pack('<IB', len(frame), 82) + frame\n"
                       "for _ in range(8):\n    at = 0\n    while at < len(frame): at += os.write(channel, frame[at:])\n")
    with Kernel(daemon, box) as k:
        run = k.run(flood, timeout_ms=60000)
        assert run["end"]["reason"] == "killed" and "more results" in run["end"]["detail"], run["end"]
        assert texts(k.run("1+1")) == ["2"]


def test_the_oldest_results_are_dropped(daemon, box):
    """Those of ended runs share the budget for output; what was dropped is counted."""
    with Kernel(daemon, box) as k:
        for number in range(1, 40):
            k.run("for c in 'ab': display({'text/plain': c * 3_000_000}, raw=True)", max_results=0)
            oldest, newest = (daemon.call("GET", f"{k.at}/runs/{n}") for n in (1, number))
            assert [t[:2] for t in texts(newest)] == ["aa", "bb"] and not newest.get("results_dropped")
            if oldest.get("results_dropped"):
                break
            assert len(texts(oldest)) == 2
        assert number > 2 and oldest["results_dropped"] == 2 and not oldest.get("results")


def test_a_result_that_no_reply_can_have(daemon, box):
    """It is dropped and counted; the variables stay.  An update of many results is bounded."""
    refused = CHANNEL + """import fcntl, json
def tell(kind, value):
    frame = json.dumps(value).encode()
    frame, at = struct.pack("<IB", len(frame), ord(kind)) + frame, 0
    while at < len(frame): at += os.write(channel, frame[at:])
kept = 7
"""
    with Kernel(daemon, box) as k:
        run = k.run(refused + "tell('R', {'data': {str(i): 'x' for i in range(40)}})\ndisplay(1)")
        # the runner takes the answer to the frame above for its own; what counts is that it lives
        assert run["results_dropped"] == 1, run
        assert texts(k.run("kept")) == ["7"]
        run = k.run("for i in range(300): d = display(0, display_id='a')\nd.update('x' * 1_000_000)")
        assert run["end"]["exit_code"] == 0 and len(texts(run)) == 300
        assert 1 <= sum(len(t) > 1000 for t in texts(run)) <= 10


def test_an_early_interrupt_is_kept(daemon, box):
    """One that comes before the runner has begun with the code."""
    with Kernel(daemon, box) as k:
        run = k.run("while True: pass", timeout_ms=1)
        assert run["end"]["reason"] == "timeout" and run["exception"]["name"] == "KeyboardInterrupt"
        assert not k.run("1").get("restarted")


def test_a_closed_request_channel_is_told(daemon, box):
    """Code that closes only the runner's requests is killed when the next one cannot be sent."""
    code = CHANNEL.replace("02000001", "02000000") + "os.close(channel)"
    with Kernel(daemon, box) as k:
        assert not k.run(code, timeout_ms=20000).get("exception")
        wait_for("its end", lambda: k.info()["state"] == "ended", 20)
        run = k.run("1+1")
        assert texts(run) == ["2"] and run["restarted"]


def test_places(daemon, box):
    """When all places are taken an ended kernel is there still, until a new one needs its place."""
    made = [Kernel(daemon, box, "node") for _ in range(16)]
    made[0].run("process.exit(3)")
    wait_for("its end", lambda: made[0].info()["state"] == "ended", 20)
    assert made[0].info()["end"]["exit_code"] == 3
    with Kernel(daemon, box, "node"):
        with pytest.raises(ApiError):
            made[0].info()
        with pytest.raises(ApiError) as e:
            Kernel(daemon, box, "node")
        assert e.value.code == "limit_exceeded"
    for k in made[1:]:
        k.__exit__()


def test_bounds(daemon, box):
    """Much output, many results, a large picture, a closed stdout: told, and the next cell works."""
    with Kernel(daemon, box) as k:
        run = k.run("import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))", max_output=1024)
        assert run["stdout_bytes"] == 64 << 20 and len(run["stdout"]) <= 1024 and run["stdout_cut_bytes"]
        run = k.run("from IPython.display import display\nfor i in range(10000): display(i)")
        shown = texts(run)
        assert shown[:9998] == [str(i) for i in range(9998)] and shown[9998:] == ["… 2 results more were dropped"]
        run = k.run("from IPython.display import Image, display\ndisplay(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * (20 << 20), format='png'))")
        cut, = run["results"][0]["cut"]
        assert cut["mime"] == "image/png" and cut["bytes"] >= 20 << 20
        assert int(daemon.exec(box, ["stat", "-c", "%s", cut["path"]]).text) >= 20 << 20
        k.run("import os\nos.close(1)")
        assert k.run("print('back')")["stdout"] == "back\n"
        run = k.run("import os\nos.write(1, bytes(range(256)))")
        assert base64.b64decode(run["stdout_b64"]) == bytes(range(256))
        assert texts(k.run("1+1"))[-1] == "2"


def test_variables_of_a_run(daemon, box):
    """KRN-06"""
    with Kernel(daemon, box, env={"A": "kernel"}) as k:
        assert k.run("import os; print(os.environ['A'], os.environ['B'])", env={"B": "run"})["stdout"] == "kernel run\n"
        assert k.run("1/0", env={"A": "run"})["exception"]
        assert k.run("print(os.environ['A'], os.environ.get('B'))")["stdout"] == "kernel None\n"
        assert k.run("print(os.getcwd())", cwd="/usr")["stdout"] == "/usr\n"


REFUSED = {"bash": "shell.create", "sh": "shell.create", "typescript": "npx tsx FILE", "ts": "npx tsx FILE", "TypeScript": "npx tsx FILE",
           "java": "run `java` with exec.run", "go": "run `go run` with exec.run", "cobol": "python, node and r"}


def test_languages_without_a_kernel(daemon, box):
    """Each says what to do instead, in an image with Node and in one that has nothing."""
    name = daemon.create("tiny")
    for language, word in REFUSED.items():
        said = set()
        for one in (box, name):
            with pytest.raises(ApiError) as e:
                Kernel(daemon, one, language)
            assert e.value.code == "unsupported" and word in str(e.value)
            said.add(json.loads(e.value.body)["error"]["message"])
        assert len(said) == 1, said
    with pytest.raises(ApiError) as e:
        Kernel(daemon, name)
    assert e.value.code == "unsupported" and "no python3" in str(e.value)
    daemon.delete(name)


@pytest.mark.parametrize("language", LANGUAGES)
def test_as_another_user(daemon, box, language):
    with Kernel(daemon, box, language, user="1000", cwd="/tmp") as k:
        code = {"python": "import os; os.getuid()", "node": "process.getuid()", "r": "as.integer(system('id -u', intern = TRUE))"}[language]
        assert texts(k.run(code))[0].endswith("1000")


def test_it_outlives_the_daemons(daemon, box):
    """Its process is the sandbox's: cayd is killed and comes back, the variables are there."""
    with Kernel(daemon, box) as k:
        k.run("x = 42")
        daemon.daemons["cayd"].kill()
        daemon.daemons["cayd"].wait()
        daemon.start_cayd()
        assert texts(k.run("x")) == ["42"]
