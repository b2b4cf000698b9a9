# SPDX-License-Identifier: Apache-2.0
"""Python kernel: runs the code that PID 1 of a sandbox sends, in one IPython shell

The build joins chart.py, channel.py, results.py, parent.py and this file, in that order, into one text, and
PID 1 gives it to python3 on fd 5: nothing of it is installed in an image.
"""
import faulthandler
import os
import signal
import sys
import traceback
import types


def import_ipython():
    """Import IPython without the parts for terminals and completion, which take more than half of its time.

    While it is imported, the module with embed() is one that imports the true module when it is
    called, and jedi is not there; afterwards both can be imported as ever.
    """
    late = types.ModuleType("IPython.terminal.embed")

    def embed(*args, **keywords):
        from IPython.terminal.embed import embed as true
        return true(*args, **keywords)

    late.embed = embed
    sys.modules["IPython.terminal.embed"], sys.modules["jedi"] = late, None
    try:
        import IPython
        import IPython.core.completer  # the shell needs it, and it works without jedi
    except ImportError as e:
        sys.stderr.write(f"cay: the python kernel needs IPython ({e}): run `apt-get install python3-ipython` or "
                         "`python3 -m pip install ipython`, or take the image `python`\n")
        sys.exit(3)
    finally:
        del sys.modules["jedi"], sys.modules["IPython.terminal.embed"]
    if "IPython.terminal" in sys.modules and hasattr(sys.modules["IPython.terminal"], "embed"):
        del sys.modules["IPython.terminal"].embed
    return IPython


def run_async(results):
    """Returns what runs a cell that has await in it; when it is interrupted, the cell does not go on later."""
    def runner(coroutine):
        from IPython.core.async_helpers import get_asyncio_loop
        loop = get_asyncio_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                was, results.on = results.on, False  # the end of the task is not an error of its own
                try:
                    loop.run_until_complete(task)
                except BaseException:
                    pass
                results.on = was
            raise
    return runner


def make_shell(channel, results):
    IPython = import_ipython()
    from IPython.core import interactiveshell, page
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import BaseFormatter
    from IPython.core.profiledir import ProfileDir
    from traitlets import ObjectName, Type, Unicode
    from traitlets.config import Config

    def loaded(module, name):
        """A class of a module that the code has imported; else nothing can be of that class."""
        return getattr(sys.modules.get(module), name, ())

    class Hook(DisplayHook):
        """The value of the last expression of a cell."""

        def __call__(self, result=None):
            if isinstance(result, types.CoroutineType) and not sys.modules["asyncio"]._get_running_loop():
                result = run(result)
            super().__call__(result)

        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            results.show(True, format_dict, md_dict)

        def finish_displayhook(self):
            pass

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **rest):
            results.show(False, data, metadata, (transient or {}).get("display_id"), update)

        def clear_output(self, wait=False):
            results.clear(wait)

    class Data(BaseFormatter):
        """A pandas DataFrame as its columns, as E2B has it."""
        format_type, print_method, _return_type = Unicode(DATA), ObjectName("_repr_cay_data_"), (dict,)

        def __call__(self, value):
            frame = loaded("pandas", "DataFrame")
            if not frame or not isinstance(value, frame) or value.size > MAX_ITEMS:
                return None
            try:
                return plain(value.to_dict(orient="list"), other=text_of)
            except Exception:
                return None

    class Chart(BaseFormatter):
        format_type, print_method, _return_type = Unicode(CHART), ObjectName("_repr_cay_chart_"), (dict,)

        def __call__(self, value):
            figure = loaded("matplotlib.figure", "Figure")
            if not figure or not isinstance(value, figure):
                return None
            try:
                return chart_of(value)
            except Exception:
                return None  # a drawing that is none of the kinds

    class Shell(interactiveshell.InteractiveShell):
        displayhook_class, display_pub_class = Type(Hook), Type(Publisher)
        ended = False

        def init_ipython_dir(self, ipython_dir):
            pass  # nothing is kept in the home directory

        def _showtraceback(self, etype, evalue, stb):
            results.error(evalue, stb)

        def ask_exit(self):
            self.ended = True

        def enable_gui(self, gui=None):
            pass

        def system(self, cmd):
            """!cmd: a child with our stdout and stderr, so that what it writes is told at once."""
            import subprocess
            cmd = self.var_expand(cmd, depth=1)
            channel.streams.flush()
            with subprocess.Popen(cmd, shell=True, executable=os.environ.get("SHELL") or None, start_new_session=True) as child:
                try:
                    code = child.wait()
                except BaseException:  # an interrupt is for all that cmd started
                    os.killpg(child.pid, signal.SIGINT)
                    try:
                        child.wait(1)
                    except subprocess.TimeoutExpired:
                        os.killpg(child.pid, signal.SIGKILL)
                    raise
            self.user_ns["_exit_code"] = code

    class JSON(BaseFormatter):
        """Lists and dicts as JSON when they are that; else what an object says of itself."""
        format_type, print_method, _return_type = Unicode("application/json"), ObjectName("_repr_json_"), (list, dict)

        def __call__(self, value):
            if type(value) not in (list, dict):
                return super().__call__(value)
            try:
                return plain(value)
            except Exception:
                return None

    run = run_async(results)
    if hasattr(interactiveshell, "PickleShareDB"):
        interactiveshell.PickleShareDB = lambda folder: {}
    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "NoColor", "xmode": "Plain"}})
    shell = Shell.instance(config=config, profile_dir=ProfileDir(), loop_runner=run)
    for formatter in (Data, Chart, JSON):
        made = formatter(parent=shell.display_formatter)
        shell.display_formatter.formatters[made.format_type] = made
    shell.set_hook("show_in_pager", page.as_hook(lambda data, start=0, screen_lines=0: print(
        data["text/plain"] if isinstance(data, dict) else data)), 99)
    return shell, IPython.__version__


class Environment:
    """The variables of one run: set before it, as they were after it."""

    def __init__(self, wanted):
        self.before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)

    def restore(self):
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def interruptible(channel, function):
    """Call function with SIGINT let through; returns its value, and the interrupt that it did not catch itself."""
    try:
        try:
            channel.armed = True
            if channel.pending:
                channel.pending = False
                raise KeyboardInterrupt
            return function(), None
        finally:
            channel.armed = False
    except BaseException as e:
        channel.armed = False
        return None, e


def lines_of(error):
    """The traceback of an error that IPython told only on stderr, or did not see."""
    if type(error).__name__ == "UsageError":  # of a magic; its frames are IPython's
        return [f"UsageError: {error}\n"]
    where = error.__traceback__
    while where and (where.tb_frame.f_code.co_filename == "<cay kernel>" or "/IPython/core/" in where.tb_frame.f_code.co_filename):
        where = where.tb_next
    if not where:
        return traceback.format_exception_only(error)
    return traceback.format_exception(type(error), error, where)


def run_cell(shell, channel, results, request):
    silent = bool(request.get("silent"))
    channel.streams.mend()
    signal.signal(signal.SIGINT, channel.interrupt)
    results.begin(silent)
    channel.pending = False
    channel.event("C", encoded({"execution_count": 0 if silent else shell.execution_count}), ask=False)

    def cell():
        if request.get("cwd"):
            os.chdir(request["cwd"])
        code = request["code"].encode("utf-8", "replace").decode()
        return shell.run_cell(code, store_history=not silent, silent=silent)

    pid, environment = getpid(), Environment(request.get("env") or {})
    result, error = interruptible(channel, cell)
    if channel.silenced or getpid() != pid:  # a child that the code forked came to the end of the cell
        channel.streams.flush()
        exit_now(0)
    environment.restore()
    error = error or result.error_before_exec or result.error_in_exec
    if error and results.told is not error:
        results.error(error, lines_of(error), last=True)
    results.end()
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""  # it was removed
    channel.event("D", encoded({"status": "error" if error else "ok", "cwd": folder}), ask=False)
    if shell.ended:
        channel.leave()


def warm_up(shell):
    """What the first run of a context would do, once for all of them: it shows nothing, sets nothing and counts nothing."""
    shell.run_cell("None", store_history=False, silent=True)
    shell.display_formatter.format(2)


def main():
    try:
        os.close(5)
    except OSError:
        pass  # whoever read this text has closed it
    modules, sys.argv = sys.argv[2:] if sys.argv[1:2] == ["--parent"] else None, [""]
    streams = Streams()
    channel = Channel(streams)
    results = Results(channel)
    if modules is None:
        streams.open()
        channel.open(3, 4)
        signal.signal(signal.SIGINT, channel.interrupt)
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    shell, version = make_shell(channel, results)
    hello = {"version": "%d.%d.%d" % sys.version_info[:3], "implementation": f"IPython {version}"}
    if modules is not None:
        warm_up(shell)
        given = wait_for_contexts(modules, hello, lambda: warm_up(shell))
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        streams.open()
        channel.open(*given)
        signal.signal(signal.SIGINT, channel.interrupt)
        while channel.take()[0] != "G":
            pass
    faulthandler.enable(2)
    channel.event("H", encoded(hello), ask=False)
    while True:
        request = channel.request()
        if request is not None:
            run_cell(shell, channel, results, request)


main()
