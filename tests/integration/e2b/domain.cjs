// SPDX-License-Identifier: Apache-2.0
// E2B's SDK, unmodified, where each port of a sandbox has a host of its own: prints a line of JSON for each thing that was tried
const dns = require('dns')
const lookup = dns.lookup
dns.lookup = (host, options, done) => {
  if (typeof options === 'function') [options, done] = [{}, options]
  if (!host.endsWith('.test')) return lookup.call(dns, host, options, done)
  process.nextTick(() => options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4))
}
const { Sandbox } = require('e2b')
const say = (name, good, got) => console.log(JSON.stringify([name, good === true ? true : (got ?? String(good))]))
const wait = (ms) => new Promise((r) => setTimeout(r, ms))
const get = async (url, headers = {}) => { const r = await fetch(url, { headers }); return [r.status, await r.text()] }

async function serve(s) {
  await s.files.write('index.html', 'page')
  await s.commands.run('cat >cgi <<"X"\nread -r line; while read -r h && [ "${h%?}" ]; do seen="$seen $h"; done\nprintf "HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\npage%s" "$seen"\nX')
  const h = await s.commands.run('while :; do nc -l -p 8000 -e bash ./cgi; done', { background: true, timeoutMs: 0 })
  for (let i = 0; i < 50; i++) {
    const [status] = await get(`https://${s.getHost(8000)}/`, { 'E2B-Traffic-Access-Token': s.trafficAccessToken })
    if (status === 200) break
    await wait(100)
  }
  return h
}

async function main() {
  const s = await Sandbox.create({ timeoutMs: 60000 })
  say('host', s.getHost(8000) === `8000-${s.sandboxId}.${process.env.PREVIEWS}`, s.getHost(8000))
  say('run', (await s.commands.run('echo $E2B_SANDBOX')).stdout === 'true\n')
  await s.files.write('a.txt', 'héllo')
  say('files', (await s.files.read('a.txt')) === 'héllo')
  say('isRunning', await s.isRunning())
  const again = await Sandbox.connect(s.sandboxId)
  say('connect', (await again.commands.run('cat a.txt')).stdout === 'héllo')
  await serve(s)
  let [status, text] = await get(`https://${s.getHost(8000)}/`)
  say('a public port', status === 200 && text.startsWith('page'), [status, text])
  ;[status, text] = await get(`https://${s.getHost(49983)}/files?path=/etc/passwd`)
  say('its files are not public', status === 401, [status, text])

  const c = await Sandbox.create({ timeoutMs: 60000, allowInternetAccess: false, network: { allowPublicTraffic: false } })
  await serve(c)
  const token = c.trafficAccessToken
  const at = `https://${c.getHost(8000)}/`
  ;[status, text] = await get(at)
  say('a closed port', status === 401, [status, text])
  ;[status, text] = await get(at, { 'E2B-Traffic-Access-Token': s.trafficAccessToken })
  say('with the token of another sandbox', status === 401, [status, text])
  ;[status, text] = await get(at, { 'E2B-Traffic-Access-Token': token })
  say('with its token', status === 200 && text.startsWith('page'), [status, text])
  say('which it does not see', !text.toLowerCase().includes('traffic') && !text.includes(token), text)
  say('kill', (await s.kill()) && (await c.kill()) && !(await s.isRunning()))
  console.log(JSON.stringify(['done', true]))
  process.exit(0)
}
main().catch((e) => { say('main', false, e.stack); process.exit(1) })
