// SPDX-License-Identifier: Apache-2.0
// E2B's code interpreter, unmodified: prints a line of JSON for each thing that was tried, [name, true or what came instead]
const { Sandbox } = require('@e2b/code-interpreter')
const say = (name, good, got) => console.log(JSON.stringify([name, good === true ? true : (got ?? String(good))]))
const failure = async (f) => { try { return ['no error', await f()] } catch (e) { return e } }

const PLOT = `
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [4, 5, 6], label='a')
plt.title('Title')
plt.xlabel('X')
plt.show()
`

async function main() {
  const s = await Sandbox.create({ timeoutMs: 120000 })
  let r = await s.runCode('x = 20')
  r = await s.runCode('x += 1; x')
  say('state', r.text === '21' && r.results[0].isMainResult, r)
  const seen = []
  r = await s.runCode('import sys; print("hi"); print("er", file=sys.stderr); 1 + 1', { onStdout: (m) => seen.push(m.line), onResult: (o) => seen.push(o.text) })
  say('output', r.logs.stdout.join('') === 'hi\n' && r.logs.stderr.join('') === 'er\n' && r.text === '2' && seen.join() === 'hi\n,2', [r, seen])
  r = await s.runCode('1 / 0')
  say('error', r.error.name === 'ZeroDivisionError' && r.error.value === 'division by zero' && r.error.traceback.includes('ZeroDivisionError'), r)
  r = await s.runCode(PLOT)
  const c = r.results[0]?.chart
  say('chart', Buffer.from(r.results[0]?.png ?? '', 'base64').subarray(1, 4).toString() === 'PNG' && c?.type === 'line' && c.title === 'Title' && c.x_label === 'X'
      && c.elements[0].label === 'a' && c.elements[0].points.length === 3, [r.error, c])
  r = await s.runCode('import pandas as pd; pd.DataFrame({"a": [1, 2], "b": [3, 4]})')
  say('data', JSON.stringify(r.results[0]?.data) === '{"a":[1,2],"b":[3,4]}' && r.results[0].html.includes('<table'), r)
  r = await s.runCode('"ü" * 65536')
  say('text', r.text?.length === 65536 && r.text[0] === 'ü', r.text?.length)
  r = await s.runCode('print("ü" * 65536)')
  say('long output', r.logs.stdout.join('') === 'ü'.repeat(65536) + '\n', r.logs.stdout.join('').length)
  r = await s.runCode('import os; os.environ["A"]', { envs: { A: 'b' } })
  say('envs', r.text === 'b', r)
  r = await s.runCode('[1, 2].map((x) => x * 2)', { language: 'js' })
  say('javascript', r.text?.replace(/\s/g, '') === '[2,4]', r)

  const k = await s.createCodeContext({ cwd: '/tmp' })
  r = await s.runCode('import os; y = 5; os.getcwd()', { context: k })
  say('context', r.text === '/tmp' && k.language === 'python' && k.cwd === '/tmp', [r, k])
  r = await s.runCode('y')
  say('is apart', r.error?.name === 'NameError', r)
  say('contexts', (await s.listCodeContexts()).some((o) => o.id === k.id))
  await s.restartCodeContext(k)
  r = await s.runCode('y', { context: k })
  say('restart', r.error?.name === 'NameError', r)
  await s.removeCodeContext(k)
  say('remove', !(await s.listCodeContexts()).some((o) => o.id === k.id))
  const e = await failure(() => s.runCode('1', { context: k }))
  say('no such context', e.name === 'NotFoundError', [e.name, e.message])
  const t = await failure(() => s.runCode('import threading; threading.Event().wait(60)', { timeoutMs: 1000 }))
  r = await s.runCode('x')
  say('after one that was left', t.name === 'TimeoutError' && r.text === '21', [t.name, r])
  say('kill', await s.kill())
  console.log(JSON.stringify(['done', true]))
  process.exit(0)
}
main().catch((e) => { say('main', false, e.stack); process.exit(1) })
