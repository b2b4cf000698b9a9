# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

HERE = pathlib.Path(__file__)
for where in (HERE.parents[2] / "lib", HERE.parents[1] / "control"):
    sys.path.append(str(where))
