# SPDX-License-Identifier: Apache-2.0
"""jupyter-side.py LANGUAGE RUNS [CODE] - what kernels.py measures against: a kernel of Jupyter, driven by jupyter_client

Runs in a sandbox of the image of tests/bench/jupyter.  Starts ipykernel or IRkernel once, runs CODE and then
`1+1` RUNS times, and prints one object: start_ns until both its channels answer (wait_for_ready, which most callers use, waits 200 ms
more for silence), rtt_ns of each run until the reply and the state idle are there, and pss_kib of the kernel afterwards.
"""
import json
import pathlib
import queue
import sys
import time

from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec

ARGV = {"python": ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "r": ["R", "--no-echo", "-e", "IRkernel::main()", "--args", "{connection_file}"]}


def reply_to(message, get):
    while True:
        got = get(timeout=120)
        if got["parent_header"].get("msg_id") == message:
            return got


def start(manager):
    """Ask until both channels answer, as Jupyter's server does: what a kernel publishes is lost until one is subscribed."""
    manager.start_kernel(cwd="/")
    client = manager.client()
    client.start_channels()
    while True:
        asked = client.kernel_info()
        try:
            while client.get_shell_msg(timeout=10)["parent_header"].get("msg_id") != asked:
                pass
            while client.get_iopub_msg(timeout=0.02)["parent_header"].get("msg_id") != asked:
                pass
            return client
        except queue.Empty:
            pass


def run(client, code="1+1", result=("2", "[1] 2")):
    begin = time.monotonic_ns()
    message = client.execute(code, allow_stdin=False)
    shown = None
    while True:
        got = reply_to(message, client.get_iopub_msg)
        if got["msg_type"] in ("execute_result", "display_data"):
            shown = got["content"]["data"]["text/plain"]
        if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
            break
    reply_to(message, client.get_shell_msg)
    took = time.monotonic_ns() - begin
    if shown not in result:
        sys.exit(f"{code} is {shown}")
    return took


language, runs = sys.argv[1], int(sys.argv[2])
manager = KernelManager(kernel_name=language)
manager._kernel_spec = KernelSpec(argv=ARGV[language], display_name=language, language=language)
begin = time.monotonic_ns()
client = start(manager)
told = {"start_ns": time.monotonic_ns() - begin}
for code in sys.argv[3:]:
    run(client, code, (None,))
run(client)
told["rtt_ns"] = [run(client) for _ in range(runs)]
rollup = pathlib.Path(f"/proc/{manager.provisioner.pid}/smaps_rollup").read_text()
told["pss_kib"] = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
client.stop_channels()
manager.shutdown_kernel(now=True)
print(json.dumps(told))
