# SPDX-License-Identifier: Apache-2.0
"""world - a node with its edges, and the world that asks it over TCP"""
import copy
import http.client
import importlib.util
import pathlib
import re
import ssl
import subprocess

import cay
from cay import free_port

EDGE_UID = 64101
IMAGES = importlib.util.spec_from_file_location(
    "images", pathlib.Path(__file__).parents[1] / "integration/control/conftest.py")


def tiny(more=()):
    module = importlib.util.module_from_spec(IMAGES)
    IMAGES.loader.exec_module(module)
    return module.tiny(more)


def bash():
    """The machine's own with its libraries, for images that shells run in."""
    text = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    paths = ["/bin/bash", *re.findall(r"(/\S+) \(0x", text)]
    return [cay.file(p.lstrip("/"), pathlib.Path(p).read_bytes(), 0o755) for p in paths]


class World(cay.Cay):
    def __init__(self, build, env=None, edges=1):
        self.port = free_port()
        # every test comes from one address
        listen = {"CAY_EDGE_LISTEN": f"127.0.0.1:{self.port}", "CAY_EDGE_FAILURES": "1000000"}
        super().__init__(build, env={**listen, **(env or {})})
        self.programs["edge"] = pathlib.Path(build).resolve() / "src/edge/cay-edge"
        self.edges, self.n_edges, self.ca = [], edges, None

    def start(self):
        super().start()
        self.image_import("tiny", tiny())
        for _ in range(self.n_edges):
            self.start_edge()

    def start_edge(self):
        """As a user of its own, with cayd's group."""
        name = f"cay-edge-{len(self.edges)}"
        self._spawn(name, self.programs["edge"], user=EDGE_UID, group=EDGE_UID, extra_groups=self.edge_groups())
        self._up(name)
        self.edges.append(name)
        cay.wait_for("the edge to hear all", lambda: "synchronised with control" in self.log(name), cay.UP_S)
        return self.daemons[name]

    def edge_groups(self):
        return [cay.CONTROL_UID]

    def restart_cayd(self, between=lambda: None):
        """Until every edge has heard all of the new one."""
        told = {name: self.log(name).count("synchronised with control") for name in self.edges}
        super().restart_cayd(between)
        cay.wait_for("the edges to hear all", lambda: all(self.log(n).count("synchronised with control") > told[n] for n in told), cay.UP_S)

    def stop(self):
        for name in self.edges:
            self.daemons[name].kill()
            self.daemons[name].wait()
        self.edges = []
        super().stop()

    def operator_key(self):
        return (self.state / "db" / "operator.key").read_text().strip()

    def new_key(self, scope="write", tenant="tn" + "0" * 24, **more):
        return self.call("POST", "/v1/keys", {"tenant": tenant, "name": "test", "scope": scope, **more})["secret"]

    def door(self, credential=None, host=None):
        """The same node, asked over TCP; credential "" is none."""
        other = copy.copy(self)
        other.__class__ = Door
        other.credential = self.operator_key() if credential is None else credential
        other.host = host
        return other


class Door(World):
    def connection(self, timeout_s):
        if self.ca:
            return http.client.HTTPSConnection("localhost", self.port, timeout=timeout_s,
                                               context=ssl.create_default_context(cafile=self.ca))
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)

    def says(self):
        who = {"Authorization": "Bearer " + self.credential} if self.credential else {}
        return {**who, **({"Host": self.host} if self.host else {})}
