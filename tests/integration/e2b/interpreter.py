# SPDX-License-Identifier: Apache-2.0
"""E2B's code interpreter for Python, unmodified: prints a line of JSON for each thing that was tried"""
import json

from e2b_code_interpreter import Sandbox


def say(name, good, got=None):
    print(json.dumps([name, True if good is True else repr(got) if got is not None else repr(good)]), flush=True)


s = Sandbox.create(timeout=120)
s.run_code("x = 20")
say("state", s.run_code("x + 1").text == "21")
r = s.run_code("print('hi'); 1/0")
say("error", r.error.name == "ZeroDivisionError" and r.logs.stdout == ["hi\n"], r)
r = s.run_code("import matplotlib.pyplot as plt; plt.bar(['a', 'b'], [1, 2]); plt.show()")
say("chart", r.results[0].png is not None and r.results[0].chart.type.value == "bar", r.results)
s.files.write("/home/user/data.csv", "a,b\n1,2\n")
say("home", s.run_code("open('data.csv').read()").text == "a,b\\n1,2\\n" and s.commands.run("cat /home/user/data.csv").stdout == "a,b\n1,2\n")
k = s.create_code_context(language="python")
say("contexts", k.id in [c.id for c in s.list_code_contexts()])
say("kill", s.kill())
print(json.dumps(["done", True]))
