# SPDX-License-Identifier: Apache-2.0
"""face_world - a node with its edges and a program that speaks another protocol for them"""
import os
import pathlib
import shutil

import world


class FaceWorld(world.World):
    face = uid = None

    def __init__(self, build, env=None, edges=1, program=None):
        super().__init__(build, env, edges)
        self.daemon = f"cay-{self.face}"
        self.meet = pathlib.Path(f"/run/{self.name}-{self.face}")
        self.env[f"CAY_{self.face.upper()}_RUN"] = str(self.meet)
        self.programs[self.face] = pathlib.Path(build).resolve() / "src" / self.face / (program or self.daemon)

    def start(self):
        """The directory is a package's to make: the face's, and its group is the edges'."""
        self.meet.mkdir(mode=0o770)
        os.chown(self.meet, self.uid, self.uid)
        self.meet.chmod(0o770)
        super().start()
        self.start_face()

    def start_face(self):
        self._spawn(self.daemon, self.programs[self.face], user=self.uid, group=self.uid, extra_groups=[])
        self._up(self.daemon)

    def edge_groups(self):
        return [*super().edge_groups(), self.uid]

    def stop(self):
        if self.daemon in self.daemons:
            self.daemons[self.daemon].kill()
            self.daemons[self.daemon].wait()
        super().stop()
        shutil.rmtree(self.meet, ignore_errors=True)
