// SPDX-License-Identifier: Apache-2.0
// node sdk.js LINE URL TOKEN CALLS - an official client lists tools and calls some; prints what came as JSON
"use strict";
const [line, url, token, calls] = process.argv.slice(2);
const at = "@modelcontextprotocol/";
const { Client, StreamableHTTPClientTransport } = line === "sdk"
  ? { ...require(at + "sdk/client/index.js"), ...require(at + "sdk/client/streamableHttp.js") }
  : require(at + "client");

(async () => {
  const options = line === "sdk" ? {} : { versionNegotiation: { mode: { pin: "2026-07-28" } } };
  const client = new Client({ name: "cay-test", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: "Bearer " + token } } }));
  const tools = (await client.listTools()).tools.map((t) => t.name);
  const results = [], progress = [], ids = {};
  for (const [name, args, , kept] of JSON.parse(calls)) {
    const given = Object.fromEntries(Object.entries(args).map(([k, v]) => [k, ids[v] ?? v]));
    results.push(await client.callTool({ name, arguments: given }));
    if (kept) ids[kept] = results.at(-1).structuredContent.id;
  }
  // of progress there is less and less: three by 0.7 s, where nothing is late
  const slow = { name: "exec", arguments: { command: "sleep 3" } }, more = { onprogress: (p) => progress.push(p.progress) };
  await (line === "sdk" ? client.callTool(slow, undefined, more) : client.callTool(slow, more));
  // who gives up is heard: the connection or the notification, whichever the line has
  const stop = new AbortController(), long = { name: "exec", arguments: { command: "sleep 1000" } };
  setTimeout(() => stop.abort("enough"), 300);
  const begun = Date.now();
  const given_up = await (line === "sdk" ? client.callTool(long, undefined, { signal: stop.signal }) : client.callTool(long, { signal: stop.signal }))
    .then(() => "no", (e) => String(e));
  console.log(JSON.stringify({ server: client.getServerVersion(), says: client.getInstructions(), tools, results, progress, given_up, took: Date.now() - begun }));
  await client.close();
})().catch((e) => { console.error(e); process.exit(1); });
