# SPDX-License-Identifier: Apache-2.0
"""Kernels' runners without a node: started as PID 1 starts them, in the files of the image `code`

What is expected of the cells in tests/fixtures/kernels comes from ipykernel, IRkernel, Node's own
REPL and E2B's chart package (record.py there); differences.txt lists and argues every difference.
"""
import hashlib
import json
import socket
import time

import kernel_driver
import pytest
from kernel_cells import cells, compare_cells
from kernel_driver import Ended, Kernel, Parent

LANGUAGES = ("python", "node", "r")
MIB = 1 << 20
pytestmark = pytest.mark.one_lane  # its files are unpacked first

MISSING = "no build/images/code; `make image NAME=code` makes it"


@pytest.fixture(scope="module")
def image():
    return kernel_driver.image_root()


@pytest.fixture
def root(image):
    if not image:
        pytest.skip(MISSING)
    return image


@pytest.fixture
def start(image):
    """A kernel of a language; all of them end with the test.  The build root itself has Node."""
    made = []

    def starter(language):
        if not image and language != "node":
            pytest.skip(MISSING)
        made.append(Kernel(language, image))
        made[-1].wait_ready()
        return made[-1]

    yield starter
    for kernel in made:
        kernel.close()


def plain(run):
    """Texts of the results of a run."""
    return [r["data"].get("text/plain") for r in run.results]


def fine(kernel):
    """The kernel runs the next cell as if nothing had been."""
    code = {"python": "40 + 2", "node": "40 + 2", "r": "40 + 2"}[kernel.language]
    run = kernel.run(code, timeout=90)
    assert (run.status, plain(run)) == ("ok", ["[1] 42" if kernel.language == "r" else "42"]), (run.events, run.err)


@pytest.mark.parametrize("language", LANGUAGES)
def test_cells_as_others_answer(start, language):
    kernel = start(language)
    wrong, unused = compare_cells(language, lambda code, interrupt: kernel.run(code, interrupt_when=b"go\n" if interrupt else None))
    assert not wrong, "\n".join(wrong)
    assert not unused, "lines of differences.txt that are no more"


def test_there_are_enough_cells():
    assert {language: len(cells(language)) for language in LANGUAGES} == {"python": 148, "node": 74, "r": 63}


# What a cell may do to the kernel that runs it; the cell after it must not notice.
HOSTILE = {
    "python": {
        "closes stdout": "import os\nos.close(1)",
        "closes stderr": "import os\nos.close(2)",
        "stdout is another file": "import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        "stdout is None": "import sys\nsys.stdout = sys.stderr = None",
        "stdout was closed": "import sys\nsys.stdout.close()",
        "stdout raises": "import sys\nclass S:\n    closed = True\n    def write(self, t): raise OSError\n    def flush(self): raise OSError\nsys.stdout = S()",
        "modules are changed": "import json, os, struct, time\njson.dumps = json.loads = os.write = os.read = struct.pack = os.getpid = time.monotonic = None",
        "fds are closed": "import os\nos.closerange(3, 20)",
        "forks": "import os\nif os.fork() == 0:\n    display('from the child')",
        "forks and exits": "import os, sys\nif os.fork() == 0:\n    sys.exit(0)",
        "ignores SIGINT": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
        "removes its directory": "import os\nos.mkdir('/tmp/gone')\nos.chdir('/tmp/gone')\nos.rmdir('/tmp/gone')",
        "deletes builtins' display": "import builtins\ndel builtins.display",
        "replaces the shell's hooks": "get_ipython().events.register('post_run_cell', lambda *a: 1 / 0)",
        "recursion": "def f(): f()\nf()",
        "deep value": "x = []\nfor i in range(900):\n    x = [x]\nx",
        "circular": "d = {}\nd['d'] = d\nd",
        "surrogates": "display({'text/plain': '\\ud800', 'text/\\udfff': 'x', 'application/json': {'\\ud800': '\\udc00'}}, raw=True)",
        "not finite": "display({'application/json': [float('nan'), float('inf'), 10**400]}, raw=True)",
        "bytes in text": "display({'text/plain': b'\\xff\\xfe', 'image/png': b'\\x89PNG'}, raw=True)",
        "nulls": "display({'text/plain': 'a\\0b', 'application/json': ['\\0', {'\\0': 1}]}, metadata={'\\0': '\\0'}, raw=True)",
        "many types": "display({f'text/x{i}': 'x' for i in range(200)} | {'text/' + 'y' * 1000: 'y'}, raw=True)",
        "odd types": "display({'text/plain': 5, 'text/html': None, 'application/json': object()}, raw=True)",
        "odd metadata": "display('x', metadata={'k': object(), 'big': 'x' * 10**6})",
        "huge error": "raise ValueError('x' * 10**7)",
        "huge traceback": "exec('def g' + 'x' * 10**6 + '(): raise ValueError\\ng' + 'x' * 10**6 + '()')",
    },
    "node": {
        "closes stdout": "require('fs').closeSync(1)",
        "ends stdout": "process.stdout.end('x'); process.stdout.destroy()",
        "modules are changed": "require('fs').writeSync = JSON.stringify = JSON.parse = Atomics.wait = require('util').inspect = null",
        "prototypes are changed": "Object.prototype.extra = 1; delete Object.prototype.extra",
        "recursion": "function f() { f() }\nf()",
        "deep value": "let x = []; for (let i = 0; i < 900; i++) x = [x]; display({ 'application/json': x })",
        "circular": "const c = {}; c.c = c; display({ 'application/json': c })",
        "surrogates": "display({ 'text/plain': '\\ud800', 'application/json': ['\\udc00'] })",
        "nulls": "display({ 'text/plain': 'a\\0b', 'application/json': ['\\0'] })",
        "many types": "display(Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`text/x${i}`, 'x'])))",
        "throws undefined": "throw undefined",
        "throws a proxy": "throw new Proxy({}, { get() { throw new Error('in get') } })",
        "inspect throws": "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('in inspect') } })",
        "stack is odd": "const e = new Error('x'); e.stack = 5; e.name = null; throw e",
        "rejects later": "Promise.reject(new Error('later')); 1",
        "huge error": "throw new Error('x'.repeat(1e7))",
        "its exit handlers": "process.removeAllListeners('uncaughtException'); process.removeAllListeners('unhandledRejection')",
    },
    "r": {
        "closes a connection": "closeAllConnections",
        "sinks": "sink('/dev/null')",
        "sinks messages": "sink(file('/dev/null', 'w'), type = 'message')",
        "removes all": "rm(list = ls(all.names = TRUE))",
        "masks functions": "print <- paste0 <- c <- list <- eval <- NULL",
        "recursion": "f <- function() f()\nf()",
        "deep value": "x <- list()\nfor (i in 1:100) x <- list(x)\ndisplay(list('application/json' = x))",
        "invalid UTF-8": "display(list('text/plain' = '\\xff\\xfe'))",
        "print raises": "print.bad <- function(x, ...) stop('in print')\nstructure(1, class = 'bad')",
        "options": "options(warn = -1, device = NULL, encoding = 'latin1', OutDec = ',')",
        "removes its directory": "dir.create('/tmp/gone')\nsetwd('/tmp/gone')\nunlink('/tmp/gone', recursive = TRUE)",
        "closes its device": "plot(1)\ngraphics.off()",
        "own device": "png('/tmp/own.png')\nplot(1)",
        "huge error": "stop(strrep('x', 1e7))",
        "forks": "p <- parallel::mcparallel(display('child'))\nparallel::mccollect(p)",
    },
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_hostile_cells(start, language):
    kernel = start(language)
    for what, code in HOSTILE[language].items():
        try:
            for _, value, *_ in kernel.run(code, timeout=90).events:
                assert len(str(value)) < MIB, what
            fine(kernel)
        except (AssertionError, Ended, TimeoutError) as e:
            raise AssertionError(f"after {what!r}: {e!r}") from e


NOISE = {
    "python": "import sys\nfor i in range(64):\n    sys.stdout.write('x' * 2**20)",
    "node": "for (let i = 0; i < 64; i++) process.stdout.write('x'.repeat(2 ** 20))",
    "r": "for (i in 1:64) cat(strrep('x', 2^20))",
}
MANY = {"python": "for i in range(10500):\n    display(i)", "node": "for (let i = 0; i < 10500; i++) display(i)", "r": "for (i in 1:10500) display(i)"}
BIG = {
    "python": "display({'image/png': b'\\x89PNG' + bytes(20 * 2**20), 'text/plain': 'big'}, raw=True)",
    "node": "display({ 'image/png': Buffer.alloc(20 * 2 ** 20, '\\u0089PNG', 'latin1'), 'text/plain': 'big' })",
    "r": "display(list('image/png' = raw(20 * 2^20), 'text/plain' = 'big'))",
}
TOGETHER = {
    "python": "for i in range(4):\n    display({'text/plain': 'y' * 3 * 2**20}, raw=True)",
    "node": "for (let i = 0; i < 4; i++) display({ 'text/plain': 'y'.repeat(3 * 2 ** 20) })",
    "r": "for (i in 1:4) display(list('text/plain' = strrep('y', 3 * 2^20)))",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_much(start, language):
    kernel = start(language)
    run = kernel.run(NOISE[language], timeout=300)
    assert hashlib.sha256(run.stdout).digest() == hashlib.sha256(b"x" * (64 * MIB)).digest()
    run = kernel.run(MANY[language], timeout=300)
    assert len(run.results) == 9999 and "502 results more" in plain(run)[-1], (len(run.results), plain(run)[-1])
    run = kernel.run(MANY[language] + {"python": "\n1 / 0", "node": "\nthrow new Error()", "r": "\nstop()"}[language], timeout=300)
    assert len(run.errors) == 1 and run.status == "error"
    run = kernel.run(BIG[language], timeout=300)
    assert plain(run) == ["big"] and "image/png" not in run.results[0]["data"]
    cut, = run.results[0]["cut"]
    assert cut["mime"] == "image/png" and cut["bytes"] >= 20 * MIB and cut["path"].endswith(".png"), cut
    run = kernel.run(TOGETHER[language], timeout=300)
    assert [("cut" in r) for r in run.results] == [False, False, True, True]
    fine(kernel)


ORDER = {  # every second piece of text has no line end, at which an output may be written by itself
    "python": "for i in range(300):\n    print(i, end=' ' if i % 2 else '\\n')\n    display(i)",
    "node": "for (let i = 0; i < 300; i++) { process.stdout.write(i + (i % 2 ? ' ' : '\\n')); display(i) }",
    "r": "for (i in 0:299) { cat(i, if (i %% 2) ' ' else '\\n', sep = ''); display(i) }",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_order_is_exact(start, language):
    run, seen = start(language).run(ORDER[language]), 0
    for i, (_, _, out, _) in enumerate(e for e in run.events if e[0] == "R"):
        seen += len(f"{i}\n")
        assert out == seen


LOOPS = {
    "python": ["print('go')\nwhile True: pass", "print('go')\nimport time\nrest = time.sleep\nrest(60)", "import asyncio\npause = asyncio.sleep\nprint('go')\nawait pause(60)",
               "!echo go; sleep 60", "print('go')\nwhile True: display(1)", "print('go')\nimport subprocess\nsubprocess.run(['sleep', '60'])"],
    "node": ["console.log('go'); while (true) {}", "console.log('go'); await new Promise(() => {})", "console.log('go'); await null; while (true) {}",
             "setTimeout(() => { console.log('go'); while (true) {} }, 5); await new Promise(() => {})",
             "console.log('go'); while (true) display(1)"],
    "r": ["cat('go\\n'); while (TRUE) {}", "rest <- Sys.sleep; cat('go\\n'); rest(60)", "cat('go\\n'); repeat display(1)"],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_interrupts_keep_the_state(start, language):
    kernel = start(language)
    kernel.run({"python": "kept = 5", "node": "var kept = 5", "r": "kept <- 5"}[language])
    for code in LOOPS[language]:
        run = kernel.run(code, interrupt_when=b"go\n")
        assert (run.status, [e["name"] for e in run.errors][-1:]) == ("error", ["KeyboardInterrupt"]), (code, run.errors)
        kernel.interrupt()  # none is running: nothing happens
        assert plain(kernel.run("kept"))[0] in ("5", "[1] 5")


def test_interrupts_at_any_moment(start):
    """Whenever it comes, the run ends once, and the next is untouched."""
    kernel = start("python")
    code = "for i in range(2000):\n    display(i)\n    print(i)"
    for i in range(40):
        run = kernel.run(code, interrupt_after=i / 1000)
        assert run.status in ("ok", "error") and all(e["name"] == "KeyboardInterrupt" for e in run.errors)
        fine(kernel)


def test_an_interrupted_await_does_not_go_on(start):
    """What it waited for comes later; the rest of that cell does not run beside the next one."""
    kernel = start("python")
    kernel.run("import asyncio\nkept, gate, pause = 5, asyncio.Event(), asyncio.sleep")
    code = "asyncio.get_running_loop().call_soon(print, 'go')\nawait gate.wait()\nkept = 6"  # printed while it waits
    assert [e["name"] for e in kernel.run(code, interrupt_when=b"go\n").errors] == ["KeyboardInterrupt"]
    assert plain(kernel.run("gate.set()\nfor _ in range(9): await pause(0)\nkept")) == ["5"]


def test_environment_and_directory_of_a_run(start):
    codes = {"python": ("import os\n(os.environ.get('ONE'), os.environ.get('HOME'))", "('1', '/x')", "(None, '/tmp')"),
             "node": ("[process.env.ONE, process.env.HOME]", "[ '1', '/x' ]", "[ undefined, '/tmp' ]"),
             "r": ("Sys.getenv(c('ONE', 'HOME'), names = FALSE)", '[1] "1"  "/x"', '[1] ""     "/tmp"')}
    fails = {"python": "\n1 / 0", "node": "\nthrow new Error()", "r": "\nstop()"}
    for language, (code, inside, after) in codes.items():
        kernel = start(language)
        run = kernel.run(code, env={"ONE": "1", "HOME": "/x"}, cwd="/usr")
        assert (plain(run), run.cwd) == ([inside], "/usr")
        kernel.run(code + fails[language], env={"ONE": "1", "HOME": "/x"})
        run = kernel.run(code)
        assert (plain(run), run.cwd) == ([after], "/usr")
        run = kernel.run(code, cwd="/no/such")
        assert run.status == "error" and len(run.errors) == 1
        fine(kernel)


def test_silent_runs_and_counts(start):
    for language in LANGUAGES:
        kernel = start(language)
        assert kernel.run("1 + 1").count == 1
        run = kernel.run("1 + 1", silent=True)
        assert run.begun and run.count is None and not run.results and run.status == "ok"
        assert kernel.run("1 +* 1", silent=True).errors
        assert kernel.run("1 + 1").count == 2


def test_a_start_loads_nothing_for_completion(start):
    kernel = start("python")
    assert plain(kernel.run("import sys\nsorted({'jedi', 'parso', 'IPython.terminal.embed'} & sys.modules.keys())")) == ["[]"]
    assert plain(kernel.run("'import' in get_ipython().complete('impo')[1]")) == ["True"]
    assert plain(kernel.run("import jedi, IPython.terminal.embed\njedi.__name__")) == ["'jedi'"]


def test_ends(start):
    """EOF of the requests, and what code does to end its kernel."""
    for language, code, status in (("python", "exit()", 0), ("node", "process.exit(3)", 3), ("r", "quit(status = 4)", 4),
                                   ("python", "import os\nos._exit(5)", 5), ("python", "import os\nos.kill(os.getpid(), 9)", -9)):
        kernel = start(language)
        with pytest.raises(Ended) as ended:
            kernel.run(code)
            kernel.run("1")
        assert ended.value.args[0] == status or status == -9
    kernel = start("python")
    run = kernel.run("import sys\nsys.exit(3)")
    assert run.errors[0]["name"] == "SystemExit"
    fine(kernel)


def test_late_errors_and_results(start):
    node = start("node")
    node.run("setTimeout(() => { throw new Error('late') }, 1)")
    kind, value = node.next_frame(time.monotonic() + 20)
    assert (kind, value["value"], value["late"]) == ("E", "late", True)
    node.send("A")
    fine(node)
    python = start("python")
    python.run("import threading\ngo, gone = threading.Event(), threading.Event()\ndef late():\n    go.wait()\n    print('late')\n    display('late')\n"
               "    gone.set()\nthreading.Thread(target=late).start()")
    run = python.run("go.set()\ngone.wait()")
    assert run.out == "late\n" and plain(run) == ["'late'", "True"]


def test_packages_that_are_missing(root):
    """One line that says what to install, and status 3; a Node that is too old has not all methods of strings."""
    for language, argv in (("python", ["python3", "-S", *kernel_driver.ARGV["python"][1:]]),
                           ("node", [*kernel_driver.ARGV["node"][:-1], "delete String.prototype.toWellFormed;" + kernel_driver.ARGV["node"][-1]]),
                           ("r", ["env", "R_LIBS_SITE=/none", *kernel_driver.ARGV["r"]])):
        kernel = Kernel(language, root, argv)
        with pytest.raises(Ended) as ended:
            kernel.wait_ready()
        assert ended.value.args[0] == 3
        line = bytes(kernel.bytes[kernel.err]).decode()
        assert line.count("\n") == 1 and "install" in line and line.startswith("cay: "), line
        kernel.close()


def test_contexts_of_a_warmed_parent(root):
    """Each is a child of PID 1 with its own state; the parent outlives their ends and keeps nothing of them."""
    parent = Parent(root, ["numpy", "matplotlib.pyplot"])
    kernels = [Kernel("python", parent=parent) for _ in range(5)]
    dice = set()
    for i, kernel in enumerate(kernels):
        assert kernel.wait_ready() == parent.hello
        assert plain(kernel.run("(_, Out, len(In), get_ipython().execution_count)")) == ["('', {}, 2, 1)"]  # of a parent that ran a cell
        assert plain(kernel.run(f"import os, random, uuid\nmine = {i}\nos.getcwd()")) == ["'/tmp'"]
        dice.update(plain(kernel.run("import numpy\n(random.random(), numpy.random.rand())")))
        assert plain(kernel.run("(os.getsid(0) == os.getpid(), os.environ.get('OPENBLAS_NUM_THREADS'))")) == ["(True, None)"]
    assert len(dice) == 5
    assert [plain(kernel.run("mine")) for kernel in kernels] == [[str(i)] for i in range(5)]
    run = kernels[0].run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert {"image/png", "application/vnd.cay.chart+json"} < run.results[0]["data"].keys()
    run = kernels[1].run("print('go')\nwhile True: pass", interrupt_when=b"go\n")
    assert run.errors[0]["name"] == "KeyboardInterrupt"
    with pytest.raises(Ended):
        kernels[2].run("os.kill(os.getpid(), 9)")
    kernels[3].run("import signal\nos.kill(os.getppid(), 0)\nimport threading\nthreading.Thread(target=print).start()")
    kernels.append(Kernel("python", parent=parent))
    kernels[-1].wait_ready()
    assert kernels[-1].run("mine").errors[0]["name"] == "NameError"
    fine(kernels[0])
    for kernel in kernels:
        kernel.close()
    assert parent.close() == 0


def test_a_parent_without_a_module(root):
    parent = Parent(root, ["no_such_module_here"])
    assert list(parent.hello["missing"]) == ["no_such_module_here"]
    kernel = Kernel("python", parent=parent)
    kernel.wait_ready()
    fine(kernel)
    kernel.close()
    assert parent.close() == 0
