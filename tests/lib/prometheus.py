# SPDX-License-Identifier: Apache-2.0
"""prometheus - its text form, read strictly"""
import re

import cay

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\d+(?:\.\d+)?)")


def parse(text):
    """Prometheus' text form, without mercy: {(name, labels): value}."""
    assert text.endswith("\n")
    kinds, found, current = {}, {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in kinds and len(line.split(" ", 3)[3]) > 3
            kinds[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kinds[name] is None and kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        else:
            m = SAMPLE.fullmatch(line)
            assert m, line
            base = re.sub("_(bucket|sum|count)$", "", m[1]) if kinds[current] == "histogram" else m[1]
            assert base == current, line
            key = m[1], tuple(sorted(re.findall(r'([^=,"]+)="((?:[^"\\]|\\.)*)"', m[2] or "")))
            assert key not in found, line
            found[key] = float(m[3])
    for name, kind in kinds.items():
        assert kind, name
        if kind == "histogram":
            check_histogram(name, found)
    return found


def check_histogram(name, found):
    series = {}
    for (n, labels), value in found.items():
        if n == f"{name}_bucket":
            rest = tuple(x for x in labels if x[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    for rest, buckets in series.items():
        assert buckets == sorted(buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets), rest
        assert buckets[-1] == (float("inf"), found[f"{name}_count", rest])
        assert found[f"{name}_sum", rest] >= 0 and buckets[0][0] == 0.0005 and buckets[-2][0] == 60


def metrics(c):
    connection = cay.UnixConnection(str(c.run / "control.sock"), 30)
    connection.request("GET", "/metrics")
    reply = connection.getresponse()
    text = reply.read().decode()
    assert reply.status == 200 and reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    connection.close()
    return parse(text)
