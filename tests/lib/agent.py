# SPDX-License-Identifier: Apache-2.0
"""agent - a loop that drives MCP by what a model says, and a model that is a script

The model is a server of its own: POST /v1/messages in the shape of a messages API with tool
use.  What it decides depends on the results it is given: a brain is a generator that yields
a tool call, gets the result as text, and returns its last words.  The loop knows nothing of
the task; it lists tools, asks the model, calls what it wants, until it wants no more.
"""
import http.client
import http.server
import json
import threading


class Refused(Exception):
    """What a messages API answers with 400."""


class Model:
    """brains: words of a task to a generator function; `asked` has every request."""

    def __init__(self, brains):
        self.brains, self.asked, self.threads, self.count = brains, [], {}, 0
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    status, answer = 200, model.answer(request)
                except Refused as e:
                    status, answer = 400, {"type": "error", "error": {"type": "invalid_request_error", "message": str(e)}}
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def check(self, request):
        """What a real one would refuse."""
        names = [t["name"] for t in request["tools"]]
        if len(set(names)) != len(names) or not all(t["description"] and t["input_schema"]["type"] == "object" for t in request["tools"]):
            raise Refused("tools")
        for before, after in zip(request["messages"], request["messages"][1:]):
            if before["role"] == after["role"]:
                raise Refused("roles must alternate")
            if before["role"] == "assistant":
                wants = [b["id"] for b in before["content"] if b["type"] == "tool_use"]
                got = [b["tool_use_id"] for b in after["content"] if b["type"] == "tool_result"]
                if wants != got:
                    raise Refused("tool_use without tool_result")
        return names

    def answer(self, request):
        names = self.check(request)
        self.asked.append(request)
        task = request["messages"][0]["content"]
        said = request["messages"][-1]
        try:
            if len(request["messages"]) == 1:
                key = next(k for k in self.brains if k in task)
                self.threads[task] = self.brains[key](task)
                name, arguments = next(self.threads[task])
            else:
                (result,) = said["content"]
                words = "\n".join(b["text"] for b in result["content"] if b["type"] == "text")
                name, arguments = self.threads[task].send((words, result["is_error"]))
        except StopIteration as end:
            return {"type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text", "text": str(end.value)}]}
        if name not in names:
            raise Refused(f"there is no tool {name}")
        self.count += 1
        return {"type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [{"type": "tool_use", "id": f"toolu_{self.count}", "name": name, "input": arguments}]}


def solve(model, mcp, task, most=30):
    """The loop: the model's last words, and how many tools it called.  mcp: a client of tests/lib/mcp.py."""
    tools = [{"name": t["name"], "description": t["description"], "input_schema": t["inputSchema"]} for t in mcp.tools().values()]
    says = mcp.ask("server/discover")["instructions"]
    messages = [{"role": "user", "content": task}]
    for turn in range(most):
        c = http.client.HTTPConnection("127.0.0.1", model.port, timeout=30)
        c.request("POST", "/v1/messages", json.dumps({"model": "stub", "max_tokens": 1024, "system": says,
                                                      "tools": tools, "messages": messages}), {"Content-Type": "application/json"})
        r = c.getresponse()
        answer = json.loads(r.read())
        c.close()
        assert r.status == 200, answer
        messages.append({"role": "assistant", "content": answer["content"]})
        if answer["stop_reason"] == "end_turn":
            return answer["content"][0]["text"], turn
        results = []
        for use in answer["content"]:
            result = mcp.call(use["name"], **use["input"])
            results.append({"type": "tool_result", "tool_use_id": use["id"], "is_error": result.get("isError", False),
                            "content": result["content"]})
        messages.append({"role": "user", "content": results})
    raise AssertionError("it does not come to an end")
