# SPDX-License-Identifier: Apache-2.0
"""What a command may take and show, and what its result looks like, in the profiles of other products.

Expected are the numbers, notices and dictionaries of the products, quoted beside each test:

    SandboxHub      54c60fd0  images/ubuntu/app/tools/bash.py, tools/base.py, mcp_server.py
    deep-agent      94511492  internal/mcp/tools/bash.go, internal/services/bash/executor.go
    sandbox-agent   MAX_STDOUT_CHARS=50000, MAX_STDERR_CHARS=120000; sandbox/models.py truncate_field()
"""
import random

import pytest

import cay

LONG = 'printf "%0{}d" 0'  # so many times '0'
WIDE = "| awk '{gsub(/0/, \"€\"); printf \"%s\", $0}'"  # three bytes for each


class Client:
    def __init__(self, node, profile):
        self.group = "l-" + "".join(random.choices("abcdefgh", k=10))
        key = node.new_key()
        self.client = node.client(key, f"?profile={profile}&group={self.group}")
        self.native = node.client(key, f"?group={self.group}")

    def result(self, tool, **arguments):
        return self.client.ask("tools/call", {"name": tool, "arguments": arguments})

    def data(self, tool, **arguments):
        result = self.result(tool, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    def text(self, tool, **arguments):
        return self.result(tool, **arguments)["content"][0]["text"]


@pytest.fixture
def client(node, request):
    c = Client(node, request.param)
    yield c
    node.door().call("DELETE", f"/v1/sandboxes?group={c.group}")


def profile(name):
    return pytest.mark.parametrize("client", [name], indirect=True)


# -- SandboxHub

@profile("sandboxhub")
def test_sandboxhub_keeps_25_kb_of_each_end(client):
    """HEAD_BYTES = 25 * 1024; TAIL_BYTES = 25 * 1024; f"\\n[...{omitted} bytes 已省略...]\\n" """
    def cut(command):
        return client.data("execute_shell", command=command)["output"]

    assert cut(LONG.format(51200)) == "0" * 51200
    assert cut(LONG.format(51300)) == "0" * 25600 + "\n[...100 bytes 已省略...]\n" + "0" * 25600
    # "over 256 KB the output is discarded": here it is cut as any other
    assert cut(LONG.format(600000)) == "0" * 25600 + "\n[...548800 bytes 已省略...]\n" + "0" * 25600
    # 25600 is no multiple of three: no character is cut
    assert cut(LONG.format(20000) + WIDE) == "€" * 8533 + "\n[...8802 bytes 已省略...]\n" + "€" * 8533
    error = client.data("execute_shell", command=LONG.format(51300) + " >&2")
    assert error == {"output": "", "error": "0" * 25600 + "\n[...100 bytes 已省略...]\n" + "0" * 25600, "system": ""}


@profile("sandboxhub")
def test_sandboxhub_answers_its_dictionaries(client):
    # {"output": result.output or "", "error": result.error or "", "system": result.system or ""}, without last line ends
    assert client.data("execute_shell", command="echo hi; echo oops >&2") == {"output": "hi", "error": "oops", "system": ""}
    # decode(errors="replace")
    assert client.data("execute_shell", command=r"printf 'a\377b'")["output"] == "a\ufffdb"
    # it has no place for a status: that is in `system`
    assert client.data("execute_shell", command="exit 3") == {"output": "", "error": "", "system": "[exit 3]"}
    # {"pid", "name", "cpu_percent", "memory_mb", "status"}, and "cmdline" of its HTTP interface
    client.data("execute_shell", command="sleep 98 &")
    cay.wait_for("it to sleep", lambda: ("sleep", "sleeping", "sleep 98") in
                 [(r["name"], r["status"], r["cmdline"]) for r in client.data("list_processes")["result"]], 20)
    rows = client.data("list_processes")["result"]
    assert all(r["memory_mb"] >= 0 and r["cpu_percent"] >= 0 for r in rows)
    assert {frozenset(r) for r in rows} == {frozenset({"pid", "name", "cpu_percent", "memory_mb", "status", "cmdline"})}
    # cpu_count ... disk_percent
    info = client.data("get_system_info")
    assert list(info) == ["cpu_count", "cpu_percent", "memory_total_mb", "memory_used_mb", "memory_percent", "disk_total_gb", "disk_used_gb", "disk_percent"]
    # as psutil would count inside
    inside = client.data("execute_shell", command="grep -c ^processor /proc/cpuinfo; awk '/MemTotal/{print $2}' /proc/meminfo")["output"]
    assert inside == f"{info['cpu_count']}\n{info['memory_total_mb'] * 1024:.0f}"
    assert 0 < info["memory_percent"] < 100 and 0 <= info["cpu_percent"] <= 100


@profile("sandboxhub")
def test_sandboxhub_has_one_shape_for_text(client):
    """class ToolResult: output, error, base64_image, system"""
    shape = {"output": "", "error": "", "base64_image": None, "system": ""}
    client.result("write_file", path="f", content="abc")
    assert client.data("read_file", path="f") == {**shape, "output": "     1\tabc"}
    missing = client.result("read_file", path="none")
    assert missing["isError"] and missing["structuredContent"] == {**shape, "error": missing["content"][0]["text"]}


# -- sandbox-agent

@profile("sandbox-agent")
def test_sandbox_agent_keeps_the_first_characters(client):
    """TRUNCATION_NOTICE = "\\n\\n... [truncated — {original} chars total, showing first {limit}]" """
    session = client.native.call("sandbox_create")["structuredContent"]["id"]  # which needs no template

    def run(command):
        return client.data("execute_terminal", session_id=session, command=command)

    assert run(LONG.format(50000) + WIDE)["stdout"] == "€" * 50000
    assert run(LONG.format(50001) + WIDE)["stdout"] == "€" * 50000 + "\n\n... [truncated — 50001 chars total, showing first 50000]"
    assert run(f"({LONG.format(120001)}) >&2")["stderr"] == "0" * 120000 + "\n\n... [truncated — 120001 chars total, showing first 120000]"
    assert run("seq 1000000")["stdout"].endswith("\n\n... [truncated — 6888896 chars total, showing first 50000]")


# -- deep-agent

@profile("deep-agent")
def test_deep_agent_keeps_the_first_lines(client):
    """TruncateOptions{MaxLines: 2000, MaxBytes: 50 * 1024}; then output[:30000] + "\\n... (output truncated)" """
    def note(what):
        return f"\n\n...{what} truncated...\n\nUse Grep to search the full content or Read with offset/limit to view specific sections."

    def lines(n):
        return "".join(f"{i}\n" for i in range(1, n + 1))

    assert client.text("Bash", command="seq 2000") == lines(2000)
    assert client.text("Bash", command="seq 2003") == lines(2000)[:-1] + note("3 lines (16 bytes)")
    assert client.text("Bash", command="seq 1500; seq 600 >&2") == lines(1500) + lines(500)[:-1] + note("100 lines (401 bytes)")
    assert client.text("Bash", command=LONG.format(30001)) == "0" * 30000 + "\n... (output truncated)"
    # 17,066 characters of three bytes are 50 KiB
    assert client.text("Bash", command=LONG.format(20000) + WIDE) == "€" * 17066 + note("1 lines (8802 bytes)")
    words = client.text("Bash", command="seq 1000000")
    assert words.startswith(lines(2000)[:-1] + "\n\n...more than ") and f" lines ({6888896 - len(lines(2000)) + 1} bytes) truncated..." in words


@profile("deep-agent")
def test_deep_agent_reduces_a_timeout(client):
    """if timeoutMS > 60000 { timeoutMS = 60000 }; its description says "max 600000", and that is the ceiling here"""
    assert client.text("Bash", command="echo hi", timeout_ms=900000000) == "hi\n"
    assert client.text("Bash", command="echo hi", timeout_ms=0) == "hi\n"  # GetFloat("timeout_ms", 0); to > 0: else the default
    assert "timeout after 0.2 s" in client.text("Bash", command="sleep 9", timeout_ms=200)
