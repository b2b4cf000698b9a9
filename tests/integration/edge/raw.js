// SPDX-License-Identifier: Apache-2.0
// node raw.js PORT PATH TOKEN - npm's ws on the bare bytes of `cat`; prints what happened as JSON
"use strict";
const WebSocket = require("ws");
const [port, path, token] = process.argv.slice(2);
const bytes = Buffer.alloc(8 << 20).map((_, i) => (i * 31 + (i >> 8)) & 255);
const got = [], said = {};
const c = new WebSocket(`ws://127.0.0.1:${port}${path}`, ["cay.raw.v1", `cay.token.${token}`]);
c.on("open", () => {
  said.protocol = c.protocol;
  c.send(bytes);
  c.send("");
});
c.on("message", (data, binary) => {
  if (!binary) throw Error("not binary");
  got.push(data);
});
c.on("unexpected-response", (_, r) => { console.log(JSON.stringify({ status: r.statusCode })); process.exit(1); });
c.on("close", (code, reason) => {
  console.log(JSON.stringify({ ...said, same: Buffer.compare(Buffer.concat(got), bytes) === 0, code, reason: reason.toString() }));
});
