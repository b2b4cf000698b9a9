# SPDX-License-Identifier: Apache-2.0
"""Results of a run: MIME bundles and errors, made into events within the limits of a run"""
import base64
import json
import math
import os
import re

MAX_VALUE = 4 << 20  # bytes of one result; a larger one becomes a file
MAX_RESULTS = 8 << 20  # bytes of all results of a run
MAX_TYPES, MAX_TYPE = 32, 128  # MIME types of a result, characters of one
MAX_EVENTS = 9_998  # results, errors and clears of a run; the error that ends it and a note may follow
MAX_ERROR, MAX_TRACEBACK = 16 << 10, 64 << 10
MAX_DEPTH, MAX_ITEMS = 24, 500_000  # of a JSON value
DATA, CHART = "application/vnd.cay.data+json", "application/vnd.cay.chart+json"
BINARY = ("image/png", "image/jpeg", "application/pdf")
EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "application/pdf": "pdf", "image/svg+xml": "svg", "text/html": "html",
              "text/markdown": "md", "text/latex": "tex", "application/javascript": "js"}


def shortened(text, limit):
    """text in at most about limit bytes: the middle is left out, and a note says so."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    start, end = data[:limit * 2 // 3].decode("utf-8", "ignore"), data[-limit // 4:].decode("utf-8", "ignore")
    return f"{start}\n… {len(data) - limit * 2 // 3 - limit // 4} bytes left out …\n{end}"


def text_of(value):
    try:
        return str(value)
    except Exception as e:  # __str__ is the code's own
        return f"<{type(value).__name__}: its __str__ raised {type(e).__name__}>"


def folded(lines):
    """A traceback without the runner's own frames, and with a frame that repeats told three times and counted."""
    told, repeated = [], 0
    for line in [*(line for line in lines if not line.startswith("  File <cay kernel>")), None]:
        if told and line == told[-1]:
            repeated += 1
            if repeated > 2:
                continue
        elif repeated > 2:
            told.append(f"  [the line above {repeated - 2} times more]\n")
        if line is not None:
            told.append(line)
        repeated = repeated if len(told) > 1 and told[-1] == told[-2] else 0
    return told


class Unfit(Exception):
    """A value that is not told as JSON: of a strange type, too deep or too large."""


def plain(value, depth=0, items=None, other=None):
    """value in JSON's own types.  Not finite or not there: null.  A strange type: other(value), or Unfit."""
    items = items if items is not None else [0]
    items[0] += 1
    if depth > MAX_DEPTH or items[0] > MAX_ITEMS:
        raise Unfit
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if -2**63 <= value < 2**64 else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): plain(v, depth + 1, items, other) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, depth + 1, items, other) for v in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    for method in ("isoformat", "tolist", "item"):  # dates; arrays and scalars of numpy
        if callable(getattr(value, method, None)) and not isinstance(value, type):
            return plain(getattr(value, method)(), depth + 1, items, other)
    if other:
        return other(value)
    raise Unfit


class Results:
    """What a run shows: turns MIME bundles into events and keeps within the limits of a run."""

    def __init__(self, channel):
        self.channel, self.files = channel, 0
        self.begin(silent=True)
        self.on = False

    def begin(self, silent):
        self.silent, self.bytes, self.events, self.dropped, self.told, self.on = silent, 0, 0, 0, None, True

    def end(self):
        with self.channel.lock:
            self.on = False
        if self.dropped:
            note = {"text/plain": f"… {self.dropped} results more were dropped"}
            self.channel.event("R", encoded({"main": False, "data": note}))

    def send(self, kind, payload, last=False):
        """Whether it was sent: not after the run (by a thread of the code), nor above the limit."""
        with self.channel.lock:
            if not self.on:
                return False
            self.events += 1
            if self.events > MAX_EVENTS and not last:
                self.dropped += 1
                return False
        self.channel.event(kind, payload)
        return True

    def show(self, main, data, metadata=None, display_id=None, update=False):
        if self.silent or not self.on or self.events >= MAX_EVENTS:
            self.dropped += self.on and not self.silent
            return
        told, cut, size = [], [], 0
        types = [mime for mime in data if isinstance(mime, str) and len(mime) <= MAX_TYPE]
        for mime in sorted(types, key=lambda m: (m != "text/plain", m == DATA))[:MAX_TYPES]:
            value, text = self.prepare(mime, data[mime])
            if text is None or size + len(text) > MAX_VALUE or self.bytes + size + len(text) > MAX_RESULTS:
                cut.append(self.save(mime, value))
            else:
                told.append(encoded(mime) + b":" + text)
                size += len(text)
        self.bytes += size
        rest, metadata = {"main": main}, self.small(metadata)
        rest |= {name: value for name, value in (("metadata", metadata), ("display_id", display_id and text_of(display_id)[:256]), ("update", update), ("cut", cut)) if value}
        self.send("R", encoded(rest)[:-1] + b',"data":{' + b",".join(told) + b"}}")

    def prepare(self, mime, value):
        """The value for a file, and for the event: a JSON string, for JSON types of JSON text; None when it cannot be told."""
        if mime in BINARY:
            value = base64.b64encode(value).decode() if isinstance(value, bytes) else "".join(str(value).split())
            return value, encoded(value)
        if mime.endswith("json"):
            try:
                return value, encoded(encoded(plain(value, other=text_of)).decode())
            except Unfit:
                return value, None
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        value = value if isinstance(value, str) else text_of(value)
        return value, encoded(value)

    def small(self, metadata):
        try:
            texts = {k[:MAX_TYPE]: encoded(v).decode() for k, v in plain(metadata or {}, other=text_of).items()}
            return texts if len(encoded(texts)) <= 64 << 10 else {}
        except Unfit:
            return {}

    def save(self, mime, value):
        """Write a value that is too large for an event to a file; an empty path tells that this failed too."""
        try:
            if mime in BINARY:
                value = base64.b64decode(value)
            else:
                value = (value if isinstance(value, str) else json.dumps(value, default=text_of)).encode("utf-8", "replace")
            folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", "cay-results")
            os.makedirs(folder, 0o700, exist_ok=True)
            self.files += 1
            ending = EXTENSIONS.get(mime, "json" if mime.endswith("json") else "txt")
            path = os.path.join(folder, f"{getpid()}-{self.files}.{ending}")
            with open(path, "xb") as f:
                f.write(value)
            return {"mime": str(mime), "bytes": len(value), "path": path}
        except Exception:
            return {"mime": str(mime), "bytes": len(value) if hasattr(value, "__len__") else 0, "path": ""}

    def error(self, error, lines, last=False):
        lines = folded([re.sub(r"\x1b\[[0-9;]*m", "", text_of(line)) for line in lines])
        if sum(len(line.encode("utf-8", "replace")) for line in lines) > MAX_TRACEBACK:
            lines = [shortened("\n".join(lines), MAX_TRACEBACK)]
        name = shortened(type(error).__name__, 256)
        told = {"name": name, "value": shortened(text_of(error), MAX_ERROR), "traceback": lines}
        if self.send("E", encoded(told), last):
            self.told = error

    def clear(self, wait):
        if not self.silent:
            self.send("U", encoded({"wait": bool(wait)}))
