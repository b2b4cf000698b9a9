# SPDX-License-Identifier: Apache-2.0
"""What documents promise of the base image: languages, clocks, and packages of Python."""
import base64
import io
import zipfile

import pytest
from cay import wait_for
from test_terminal import base  # noqa: F401 pylint: disable=unused-import

NAME = "greeting-1.0"


def wheel():
    """A package of one line, as pip takes it."""
    out, about = io.BytesIO(), NAME.replace("-1.0", "-1.0.dist-info/")
    files = {"greeting.py": "text = 'hello'\n", about + "METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
             about + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
        z.writestr(about + "RECORD", "".join(f"{name},,\n" for name in [*files, about + "RECORD"]))
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize("lang, monday", [("en_US.UTF-8", "Monday"), ("zh_CN.UTF-8", "星期一"), ("C.UTF-8", "Monday")])
def test_locales(daemon, base, lang, monday):  # noqa: F811
    done = daemon.exec(base, ["date", "-d", "2026-11-16", "+%A"], env={"LC_ALL": lang})
    assert (done.text, done.stderr) == (monday + "\n", b"")
    assert daemon.exec(base, ["python3", "-c", "import locale; print(locale.setlocale(locale.LC_ALL, ''))"], env={"LC_ALL": lang}).text == lang + "\n"


def test_packages_of_python(daemon, base):  # noqa: F811
    """From a directory of the image, as documented for sandboxes without a network."""
    from_wheels = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    t = daemon.call("POST", "/v1/templates", {"name": "wheels", "defaults": {"image": "base", "env": from_wheels},
                                              "files": [{"path": f"/wheels/{NAME}-py3-none-any.whl", "content_b64": wheel()}]})
    wait_for("its layer", lambda: daemon.call("GET", f"/v1/templates/{t['id']}")["state"] == "ready", 60)
    box = daemon.call("POST", "/v1/sandboxes", {"template": "wheels", "packages": {"python": {"greeting": ""}}})["id"]
    assert daemon.exec(box, ["python3", "-c", "import greeting; print(greeting.text)"]).text == "hello\n"
    daemon.delete(box)
    daemon.call("DELETE", f"/v1/templates/{t['id']}")
