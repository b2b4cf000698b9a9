# SPDX-License-Identifier: Apache-2.0
"""An image with one program: the bash of the build root and its libraries"""
import pathlib
import re
import subprocess

import cay

BASH = "/bin/bash"


def bash_image():
    found = subprocess.run(["ldd", BASH], capture_output=True, text=True, check=True).stdout
    files = [BASH] + re.findall(r"(/\S+) \(0x", found)
    folders = sorted({str(d) for f in files for d in pathlib.PurePath(f).parents if str(d) != "/"}, key=len)
    return cay.layout(
        [*[cay.directory(d[1:]) for d in folders],
         *[cay.file(f[1:], pathlib.Path(f).resolve().read_bytes(), 0o755) for f in files],
         cay.directory("etc"), cay.file("etc/passwd", b"root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/workspace:/bin/bash\n"),
         cay.file("etc/group", b"root:x:0:\nuser:x:1000:\n"), cay.directory("tmp", 0o1777),
         cay.directory("workspace", uid=1000, gid=1000)],
        {"User": "user", "WorkingDir": "/workspace", "Env": ["PATH=/bin"]})
