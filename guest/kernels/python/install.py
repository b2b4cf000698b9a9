# SPDX-License-Identifier: Apache-2.0
"""kernel.install runs this with pip's arguments: install, options, then packages, each with its version or without"""
import subprocess
import sys

FIRST_PACKAGE = 3


def pip(*more):
    """The exit status, and the end of what pip wrote to stderr."""
    process = subprocess.Popen([sys.executable, "-m", "pip", *sys.argv[1:], *more], stderr=subprocess.PIPE)
    said = b""
    for line in process.stderr:
        said = (said + line)[-65536:]
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
    return process.wait(), said


status, said = pip()
# pip cannot replace a package that came with the image's distribution.  Then everything that was
# asked for is installed beside it, where Python looks first.
if status and b"uninstall-no-record-file" in said:
    print("cay: installing beside the packages of the distribution", file=sys.stderr)
    status, _ = pip("--ignore-installed")
if not status:
    # another interpreter: this one looked for directories of packages when it started
    show = "import sys, importlib.metadata as m\nfor name in sys.argv[1:]: print('cay: installed', name, m.version(name))"
    subprocess.run([sys.executable, "-c", show, *(a.partition("==")[0] for a in sys.argv[FIRST_PACKAGE:])])
sys.exit(status)
