# SPDX-License-Identifier: Apache-2.0
"""make.py CSS JS LLMS TABLEGEN TOOLGEN OUT.c OUT.txt - generate the pages of webdocs.h from the tables, and llms.txt

Called by the build.  All text put into a page goes through escape(): the tables are
trusted, but a '<' in them is a letter.
"""
import base64
import hashlib
import html
import json
import pathlib
import re
import subprocess
import sys

NOUN = "#/components/schemas/"
REPLIES = {"application/json": "JSON", "application/octet-stream": "bytes", "application/vnd.cay.frames": "frames", "text/event-stream": "SSE",
           "application/x-tar": "tar", "application/gzip": "tar.gz", "text/plain": "text", "text/html": "HTML"}
SUFFIXES = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
MOST = (1 << 63) - 1  # no limit worth a word
POLICY = "default-src 'none'; img-src data:; style-src {css}; script-src {js}; base-uri 'none'; form-action 'none'"


def escape(text):
    return html.escape(str(text), quote=True)


def prose(text):
    """Text of a table, whose `x` is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def number(n):
    for size, name in SUFFIXES:
        if n % size == 0 and 1 <= n // size < 1024:  # other numbers are not sizes
            return f"{n // size} {name}"
    return f"{n:,}".replace(",", "\u202f") if n >= 10000 else str(n)


def size(n):
    text = number(n)
    return text + ("B" if text.endswith("i") else " bytes")


def between(low, high, show=number):
    if high is None or high >= MOST:
        return f"from {show(low)}" if low else ""
    return f"{number(low)} to {show(high)}" if low else f"up to {show(high)}"


def link(name):
    return f'<a href="#{escape(name)}">{escape(name)}</a>'


def kind(s):
    """A schema in a few words, as HTML."""
    if "$ref" in s:
        return link(s["$ref"].removeprefix(NOUN))
    if "oneOf" in s:
        n = s["oneOf"][0]
        return f'number or quantity <span class="type">{escape(between(n["minimum"], n["maximum"]))}</span>'
    if s["type"] == "array":
        return "list of " + (link(s["items"]["$ref"].removeprefix(NOUN)) if "$ref" in s["items"] else "strings")
    if s["type"] == "object":
        return "map of strings"
    if s["type"] == "integer":
        return f'number <span class="type">{escape(between(s["minimum"], s["maximum"]))}</span>'
    if s["type"] == "boolean":
        return "boolean"
    if "enum" in s:
        return " ".join(f"<code>{escape(v)}</code>" for v in s["enum"])
    if s.get("format") == "date-time":
        return "time"
    if s.get("pattern", "").endswith("{24}$"):
        return f'id <span class="type">{escape(s["pattern"][1:3])}…</span>'
    return f'string <span class="type">{escape(between(s.get("minLength", 0), s.get("maxLength"), size))}</span>'


def preset(s):
    if "default" not in s or s["default"] in (False, "", 0):
        return ""
    shown = json.dumps(s["default"]) if isinstance(s["default"], bool) else s["default"]
    return f' <span class="type">default {escape(number(shown) if isinstance(shown, int) and not isinstance(shown, bool) else shown)}</span>'


def rows(members, anchor=""):
    """A table of (name, schema, whether it is required)."""
    out = ['<table class="fields"><tr><th>name</th><th>type</th><th>description</th></tr>']
    for name, s, must in members:
        ident = f' id="{escape(anchor + name)}"' if anchor else ""
        out.append(f'<tr{ident}><td><code>{escape(name).replace("_", "_<wbr>")}</code>{" <span class=must>required</span>" if must else ""}</td>'
                   f'<td>{kind(s)}{preset(s)}</td><td>{prose(s.get("description", ""))}</td></tr>')
    return "".join(out) + "</table>"


def members(schema):
    return [(n, s, n in schema["required"]) for n, s in schema["properties"].items()]


def pretty(value):
    return escape(json.dumps(value, indent=2, ensure_ascii=False))


def curl(method, path, op):
    """The example as a shell command; ids are shell variables."""
    query = [f'{p["name"]}={str(p["example"]).lower() if isinstance(p["example"], bool) else p["example"]}'
             for p in op["parameters"] if p["in"] == "query" and "example" in p]
    target = path.replace("{", "$").replace("}", "") + ("?" + "&".join(query) if query else "")
    for p in op["parameters"]:
        target = target.replace("$" + p["name"], "$" + p["name"].upper()) if p["in"] == "path" else target
    lines = [f'curl {"" if method == "GET" else f"-X {method} "}"$CAY{target}"']
    if op["security"]:
        lines.append('-H "Authorization: Bearer $KEY"')
    content = op.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = json.dumps(content["application/json"]["example"], indent=2, ensure_ascii=False).replace("'", "'\\''")
        lines += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
    elif content:
        lines.append("--data-binary @FILE")
    return escape(" \\\n  ".join(lines))


def operation(method, path, op, row, schemas):
    name, content = op["operationId"], op.get("requestBody", {}).get("content", {})
    scope = op["security"][0]["key"][0] if op["security"] else None
    facts = [f"scope: <b>{escape(scope)}</b>" if scope else "no key needed",
             "served by the sandbox" if row["inside"] else "served by cayd"]
    if row["body_max"]:
        facts.append(f"body up to {size(row['body_max'])}")
    left = [f'<p class="facts">{" · ".join(facts)}</p>']
    for where, title in (("header", "Headers"), ("query", "Query")):
        found = [(p["name"], {**p["schema"], "description": p["description"]}, p["required"]) for p in op["parameters"] if p["in"] == where]
        if found:
            left.append(f"<h4>{title}</h4>" + rows(found))
    if "application/json" in content:
        schema = content["application/json"]["schema"]["$ref"].removeprefix(NOUN)
        left.append(f"<h4>Body: {link(schema)}</h4>" + rows(members(schemas[schema])))
    elif content:
        left.append("<h4>Body</h4><p>Raw bytes.</p>")
    right = [f"<h4>Example</h4><pre>{curl(method, path, op)}</pre>"]
    for status, reply in op["responses"].items():
        if not status.isdigit():
            continue
        media = reply.get("content", {})
        what = ", ".join(dict.fromkeys(REPLIES[m] for m in media)) or "upgraded connection"
        body = media.get("application/json", {})
        to = link(body["schema"]["$ref"].removeprefix(NOUN)) if "$ref" in body.get("schema", {}) else ""
        right.append(f"<h4>{status} · {escape(what)}{': ' + to if to else ''}</h4>")
        if "example" in body and status != "202":
            right.append(f"<pre>{pretty(body['example'])}</pre>")
    words = f"{name} {method} {path} {op['summary']}".lower()
    return (f'<article id="{escape(name)}" data-find="{escape(words)}"><h3><a class="self" href="#{escape(name)}">{escape(name)}</a></h3>'
            f'<code class="call"><b class="{method}">{method}</b> {escape(path)}</code><p>{prose(op["summary"])}.</p>'
            f'<div class="two"><div>{"".join(left)}</div><div>{"".join(right)}</div></div></article>')


def section(ident, title, help_, body):
    return (f'<section data-group><h2 id="{escape(ident)}"><a class="self" href="#{escape(ident)}">{escape(title)}</a></h2>'
            f"<p>{help_}</p>{body}</section>")


def table(head, lines):
    """lines: (id, search words, cells as HTML)"""
    out = ['<div class="wide"><table><tr>', *(f"<th>{escape(h)}</th>" for h in head), "</tr>"]
    for ident, words, cells in lines:
        out.append(f'<tr id="{escape(ident)}" data-find="{escape(words.lower())}">' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    return "".join(out) + "</table></div>"


def code(text):
    return f"<code>{escape(text)}</code>"


START = """<p>In the examples, <code>$CAY</code> is the address of this page and <code>$KEY</code> a key (<code>cay key create</code>) or a token
for one sandbox. Every error reply has the same shape; <a href="#errors">Errors</a> lists the cause of each code and what to do.</p>
<pre>curl "$CAY/v1/sandboxes" -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d '{"image": "base"}'</pre>
<p>Output is JSON when the request waits for it, server-sent events with <code>Accept: text/event-stream</code>, and frames with
<code>Accept: application/vnd.cay.frames</code>. Lists continue with <code>cursor</code>. Sizes are bytes or <code>"512Mi"</code>; durations end in
<code>_ms</code>, times are RFC 3339. <a href="/openapi.json">openapi.json</a> has the same reference for programs,
<a href="/llms.txt">llms.txt</a> a short form for models,
<a href="/tools.json">tools.json</a> the MCP tools.</p>"""


def body(api, tables, operations):
    parts = [section("start", "Cay reference", escape(api["info"]["description"]) + ".", START)]
    for tag in tables["tags"]:
        mine = [operation(m, p, op, row, api["components"]["schemas"]) for m, p, op, row in operations if op["tags"][0] == tag["name"]]
        parts.append(section(tag["name"], tag["title"], escape(tag["help"]) + ".", "".join(mine)))
    objects = "".join(f'<article id="{escape(n)}" data-find="{escape(n.lower())}"><h3>{link(n)}</h3><p>{prose(s["description"])}.</p>'
                      f"{rows(members(s), n + '.')}</article>" for n, s in sorted(api["components"]["schemas"].items()))
    parts.append(section("objects", "Objects", "The objects in requests and replies.", objects))
    parts.append(section("errors", "Errors", "Every error code, its cause, and what to do.", table(
        ("code", "HTTP", "exit", "blame", "retry", "cause", "what to do"),
        [(e["code"], f'{e["code"]} {e["http"]} {e["cause"]}', (code(e["code"]), e["http"], e["exit"], e["blame"], "yes" if e["retryable"] else "no",
                                                              prose(e["cause"]) + ".", prose(e["cure"]) + ".")) for e in tables["errors"]])))
    parts.append(section("settings", "Settings", "Keys of <code>/etc/cay/cay.conf</code>; a variable <code>CAY_SECTION_KEY</code> overrides one.", table(
        ("key", "default", "value", "description"),
        [(f'{s["section"]}.{s["key"]}', f'{s["section"]}.{s["key"]} {s["help"]}',
          (code(f'{s["section"]}.{s["key"]}'), code(s["default"]) if s["default"] else "",
           escape(s["takes"]) + ("; applied on SIGHUP" if s["live"] else ""), prose(s["help"]) + ".")) for s in tables["settings"]])))
    parts.append(section("metrics", "Metrics", "The metrics of <code>GET /metrics</code>, in Prometheus text format.", table(
        ("metric", "type", "labels", "description"),
        [(m["name"], f'{m["name"]} {m["help"]}', (code(m["name"]), m["type"], " ".join(code(l) for l in m["labels"].split(",") if l),
                                                  prose(m["help"]) + ".")) for m in tables["metrics"]])))
    return "".join(parts)


def menu(api, tables, operations):
    out = [f'<nav><h1>Cay <small>{escape(api["info"]["version"])}</small></h1><label hidden>Find (press /)<input id="find" type="search" '
           'autocomplete="off" spellcheck="false"></label><div class="groups"><div><a class="top" href="#start">Start</a></div>']
    for tag in tables["tags"]:
        mine = [op for _, _, op, _ in operations if op["tags"][0] == tag["name"]]
        items = "".join(f'<li data-find="{escape((op["operationId"] + " " + op["summary"]).lower())}"><a href="#{op["operationId"]}">'
                        f'{escape(op["operationId"])}</a></li>' for op in mine)
        out.append(f'<div data-group><a class="top" href="#{tag["name"]}">{escape(tag["title"])}</a><ul>{items}</ul></div>')
    out += [f'<div><a class="top" href="#{i}">{i.capitalize()}</a></div>' for i in ("objects", "errors", "settings", "metrics")]
    return "".join(out) + "</div></nav>"


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def reference(api, tables, operations, css, js):
    policy = POLICY.format(css=digest(css), js=digest(js))
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
            f"<title>Cay {escape(api['info']['version'])}: reference</title><link rel=\"icon\" href=\"data:,\">"
            f"<style>{css}</style></head>\n<body>{menu(api, tables, operations)}\n<main>{body(api, tables, operations)}</main>"
            f"<script>{js}</script></body></html>\n")


def short(api, operations, text):
    lines = "\n".join(f'- `{op["operationId"]}` {m} {p}: {op["summary"]}' for m, p, op, _ in operations)
    return text.replace("@VERSION@", api["info"]["version"]).replace("@OPERATIONS@", lines)


def array(name, text):
    data = text.encode()
    lines = [",".join(map(str, data[i:i + 40])) for i in range(0, len(data), 40)]
    return f"static const unsigned char {name}_data[] = {{\n" + ",\n".join(lines) + f"\n}};\nconst struct page page_{name} = {{ {name}_data, sizeof({name}_data) }};\n"


def printed(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def main(css, js, llms, tablegen, toolgen, out, out_llms):
    api, tables = (json.loads(printed(tablegen, d)) for d in ("openapi", "tables"))
    by_name = {row["name"]: row for row in tables["operations"]}
    found = {op["operationId"]: (m.upper(), p, op, by_name[op["operationId"]]) for p, o in api["paths"].items() for m, op in o.items()}
    operations = [found[name] for name in by_name]  # in the table's order
    css, js, llms = (pathlib.Path(f).read_text() for f in (css, js, llms))
    llms = short(api, operations, llms)
    pathlib.Path(out).write_text('/* Written by src/lib/webdocs/make.py. */\n#include "webdocs/webdocs.h"\n' +
                                 array("reference", reference(api, tables, operations, css, js)) +
                                 array("llms", llms) + array("tools", printed(toolgen)))
    pathlib.Path(out_llms).write_text(llms)


if __name__ == "__main__":
    main(*sys.argv[1:])
