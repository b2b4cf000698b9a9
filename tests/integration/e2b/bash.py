# SPDX-License-Identifier: Apache-2.0
"""E2B's code interpreter, unmodified, with code in bash: prints a line of JSON for each thing that was tried"""
import concurrent.futures
import json

from e2b_code_interpreter import Sandbox


def say(name, good, got=None):
    print(json.dumps([name, True if good is True else repr(got) if got is not None else repr(good)]), flush=True)


def run(code, **how):
    return s.run_code(code, **({"language": "bash"} | how))


def output(code, **how):
    return "".join(run(code, **how).logs.stdout)


ODD = "it's \"b\" $HOME `id` \\ \n;*"
s = Sandbox.create("base", timeout=120, envs={"B": "of the sandbox"})
seen = []
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda i: run(f"v{i}=1"), range(4)))
say("first runs at once", output("echo $v0$v1$v2$v3") == "1111\n")
r = run("echo hi; echo er >&2", on_stdout=lambda m: seen.append(m.line))
say("output", r.logs.stdout == ["hi\n"] == seen and r.logs.stderr == ["er\n"] and r.error is None, r)
run("cd /tmp; x=5; f() { echo \"f $1\"; }")
say("state", output("echo $PWD $x; f 1") == "/tmp 5\nf 1\n")
say("envs", output("printf %s \"$A\"", envs={"A": ODD}) == ODD, output("printf %s \"$A\"", envs={"A": ODD}))
say("envs of one run", output("echo ${A-unset}") == "unset\n")
say("envs and quotes", output("echo 'a'; y=\"it's\"", envs={"A": "b"}) == "a\n" and output("echo $y") == "it's\n")
say("code like an option", output("-n 2>/dev/null; echo $?", envs={"A": "b"}) == "127\n")
say("envs over those of the sandbox", [output("echo $B", envs={"B": "c"}), output("echo $B")] == ["c\n", "of the sandbox\n"])
r = run("(exit 7)")
say("status", (r.error.name, r.error.value) == ("", "7"), r)
r = run("echo 'unclosed")
say("syntax", r.error is not None and output("echo $x") == "5\n", r)
try:
    say("a name that is none", False, run("true", envs={"a b": "c"}))
except Exception as e:
    say("a name that is none", "cannot be set in bash" in str(e), e)
run("exit 3")
say("after its end", output("echo ${x-gone}") == "gone\n")
k = s.create_code_context(language="bash", cwd="/tmp")
say("context", k.language == "bash" and output("z=1; pwd", context=k, language=None) == "/tmp\n" and output("echo ${z-apart}") == "apart\n")
say("contexts", (k.id, "bash") in [(c.id, c.language) for c in s.list_code_contexts()])
try:
    say("restart", False, s.restart_code_context(k))
except Exception as e:
    say("restart", "cannot be restarted" in str(e), e)
s.remove_code_context(k)
say("remove", k.id not in [c.id for c in s.list_code_contexts()])
say("kill", s.kill())
print(json.dumps(["done", True]))
