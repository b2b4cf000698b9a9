// SPDX-License-Identifier: Apache-2.0
// node client.js PORT SCENARIO - npm's ws against ws-echo; prints what happened as JSON
"use strict";
const WebSocket = require("ws");
const [port, scenario] = process.argv.slice(2);
const url = `ws://127.0.0.1:${port}/`;
const say = (what) => console.log(JSON.stringify(what));

// Until a number has not moved for a fifth of a second; whoever started us has a deadline.
async function settled(number) {
  for (let last, same = 0; same < 10; ) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const now = number();
    same = now === last ? same + 1 : 0;
    last = now;
  }
}

// A connection that is open, with everything that arrives in order.
function open(protocols = [], options = {}) {
  return new Promise((resolve, reject) => {
    const c = new WebSocket(url, protocols, options);
    const got = [], waiting = [];
    const put = (x) => (waiting.length ? waiting.shift()(x) : got.push(x));
    c.next = () => (got.length ? Promise.resolve(got.shift()) : new Promise((r) => waiting.push(r)));
    c.on("message", (data, binary) => put({ data, binary }));
    c.on("pong", (data) => put({ pong: data.toString() }));
    c.on("close", (code, reason) => put({ code, reason: reason.toString() }));
    c.on("open", () => resolve(c));
    c.on("unexpected-response", (_, response) => reject({ status: response.statusCode, headers: response.headers }));
    c.on("error", (e) => reject({ error: e.message }));
  });
}

const scenarios = {
  async text() {
    const c = await open();
    for (const text of ["hello", "", "κόσμε 😀", "x".repeat(65536)]) {
      c.send(text);
      const m = await c.next();
      if (m.binary || m.data.toString() !== text) throw Error(`not ${text.slice(0, 20)}`);
    }
    c.close(1000);
    return await c.next();
  },
  async binary() {
    const c = await open();
    for (const n of [0, 1, 125, 126, 127, 65535, 65536, 1 << 20]) {
      const bytes = Buffer.alloc(n, 0).map((_, i) => (i * 7 + n) & 255);
      c.send(bytes);
      const m = await c.next();
      if (!m.binary || Buffer.compare(m.data, bytes) !== 0) throw Error(`not ${n}`);
    }
    c.close(1000);
    return await c.next();
  },
  async fragments() {
    const c = await open();
    const bytes = Buffer.alloc(1 << 20).map((_, i) => (i * 31) & 255);
    for (let i = 0; i < bytes.length; i += 4096) {
      c.send(bytes.subarray(i, i + 4096), { binary: true, fin: i + 4096 === bytes.length });
      if (i % (64 * 4096) === 0) c.ping(String(i));
    }
    const pongs = [];
    let m;
    while ((m = await c.next()).pong !== undefined) pongs.push(m.pong);
    const same = m.binary && Buffer.compare(m.data, bytes) === 0;
    c.close(1000);
    return { same, pongs, end: await c.next() };
  },
  async fragments_too_many() {
    const c = await open();
    for (let i = 0; i < 1025; i++) c.send("a", { fin: false });
    return await c.next();
  },
  async too_big() {
    const c = await open();
    c.send(Buffer.alloc((1 << 20) + 1));
    return await c.next();
  },
  async ping() {
    const c = await open();
    c.ping("are you there");
    const answer = await c.next();
    c.send("ping");
    const asked = (await c.next()).data.toString();
    c.close();
    return { answer, asked, end: await c.next() };
  },
  async flood_of_pings() {
    const c = await open();
    for (let i = 0; i < 5000; i++) c.ping("");
    let m, pongs = 0;
    while ((m = await c.next()).pong !== undefined) pongs++;
    return { pongs, end: m };
  },
  async close_client() {
    const ends = [];
    for (const code of [1000, 1001, 1007, 1011, 1012, 3000, 4999, undefined]) {
      const c = await open();
      c.close(code, code ? "bye" : undefined);
      ends.push((await c.next()).code);
    }
    return ends;
  },
  async close_server() {
    const ends = [];
    for (const code of [1000, 1001, 1011, 4001]) {
      const c = await open();
      c.send(`close ${code} so it ends`);
      c.send("dropped");
      ends.push(await c.next());
    }
    return ends;
  },
  async last_words() {
    const c = await open();
    c.send("flood 50");
    c.send("close 1000 done");
    let m, n = 0;
    while ((m = await c.next()).binary) if (m.data.readUInt32BE() === n) n++;
    return { n, end: m };
  },
  async back_pressure() {
    const c = await open();
    const bytes = Buffer.alloc(32 * 1024);
    c.pause();
    for (let i = 0; i < 1000; i++) {
      bytes.writeUInt32BE(i);
      c.send(Buffer.from(bytes));
    }
    await settled(() => c.bufferedAmount);
    const stuck = c.bufferedAmount;
    c.resume();
    let good = 0;
    for (let i = 0; i < 1000; i++) if ((await c.next()).data.readUInt32BE() === i) good++;
    c.send("peak");
    const peak = Number((await c.next()).data);
    c.close();
    return { stuck, good, peak, end: await c.next() };
  },
  async slow_reader() {
    const c = await open();
    c.pause();
    c.send("flood 10000");
    await settled(() => c._socket.bytesRead);
    c.resume();
    let good = 0;
    for (let i = 0; i < 10000; i++) if ((await c.next()).data.readUInt32BE() === i) good++;
    c.send("peak");
    const peak = Number((await c.next()).data);
    c.close();
    return { good, peak, end: await c.next() };
  },
  async protocol() {
    const c = await open(["other", "cay.more", "cay.echo"]);
    return { protocol: c.protocol, extensions: c.extensions, end: (c.close(), await c.next()) };
  },
  async deflate_offered() {
    const c = await open([], { perMessageDeflate: true });
    c.send("a".repeat(5000));
    const m = await c.next();
    return { extensions: c.extensions, n: m.data.length, end: (c.close(), await c.next()) };
  },
  bad_protocol: () => open(["other"]),
  wrong_version: () => open([], { protocolVersion: 8 }),
};

scenarios[scenario]().then(
  (what) => { say(what); process.exit(0); },
  (why) => { say(why instanceof Error ? { failed: why.message } : why); process.exit(0); },
);
