# SPDX-License-Identifier: Apache-2.0
"""An image with one program: the bash of the build root and its libraries; and a python3 that only speaks as a kernel's runner does"""
import pathlib
import re
import subprocess

import cay

BASH = "/bin/bash"

# Shows 2 whatever it is to run, and runs a code with "sleep" in it until it is interrupted.
RUNNER = rb"""#!/bin/bash
put() { local n=${#2}; printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0$1%s" "$2" >&4; }
trap 'stopped=1' INT
put H '{"version":"3.0.0","implementation":"none"}'
while IFS= read -r -d '}' -u 3 request; do
	IFS= read -r -d '}' -u 3 rest
	put C '{"execution_count":1}'
	stopped=
	case $request in *sleep*) until [ "$stopped" ]; do :; done ;; esac
	put R '{"main":true,"data":{"text/plain":"2"},"metadata":{"text/plain":"{}"},"cut":[{"mime":"image/png","bytes":9,"path":"/tmp/x.png"}]}'
	read -r -N 1 -u 3 ack
	put E '{"name":"Error","value":"no","traceback":["a","b"]}'
	read -r -N 1 -u 3 ack
	put D '{"status":"error","cwd":"/tmp"}'
done
"""


def bash_image():
    found = subprocess.run(["ldd", BASH], capture_output=True, text=True, check=True).stdout
    files = [BASH] + re.findall(r"(/\S+) \(0x", found)
    folders = sorted({str(d) for f in files for d in pathlib.PurePath(f).parents if str(d) != "/"}, key=len)
    return cay.layout(
        [*[cay.directory(d[1:]) for d in folders],
         *[cay.file(f[1:], pathlib.Path(f).resolve().read_bytes(), 0o755) for f in files],
         cay.file("bin/python3", RUNNER, 0o755), cay.directory("etc"), cay.file("etc/passwd", b"root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/workspace:/bin/bash\n"),
         cay.file("etc/group", b"root:x:0:\nuser:x:1000:\n"), cay.directory("tmp", 0o1777),
         cay.directory("workspace", uid=1000, gid=1000)],
        {"User": "user", "WorkingDir": "/workspace", "Env": ["PATH=/bin"]})
