// SPDX-License-Identifier: Apache-2.0
// node attach.js PORT PATH TOKEN - npm's ws attached to `cat`; prints what happened as JSON
"use strict";
const WebSocket = require("ws");
const [port, path, token] = process.argv.slice(2);
const DATA = 1, END = 3, TAKEN = 5, EOF = 6, PIECE = 65536;

function frame(type, stream, offset, content = Buffer.alloc(0)) {
  const head = Buffer.alloc(16);
  head.writeUInt8(type, 0);
  head.writeUInt8(stream, 1);
  head.writeUInt32LE(content.length, 4);
  head.writeBigUInt64LE(BigInt(offset), 8);
  return Buffer.concat([head, content]);
}

const bytes = Buffer.alloc(1 << 20).map((_, i) => (i * 31 + (i >> 8)) & 255);
const got = [], said = {};
// as a page has it: no header of its own, so the token goes beside the protocol
const c = new WebSocket(`ws://127.0.0.1:${port}${path}`, ["cay.frames.v1", `cay.token.${token}`]);
c.on("open", () => {
  said.protocol = c.protocol;
  c.ping("there?");
});
c.on("pong", (data) => (said.pong = data.toString()));
c.on("message", (data, binary) => {
  if (!binary) throw Error("not binary");
  const type = data.readUInt8(0), stream = data.readUInt8(1), content = data.subarray(16);
  if (type === TAKEN && data.readBigUInt64LE(8) === 0n) {
    for (let i = 0; i < bytes.length; i += PIECE) c.send(frame(DATA, 0, i, bytes.subarray(i, i + PIECE)));
    c.send(frame(EOF, 0, bytes.length));
  }
  if (type === DATA && stream === 1) got.push(content);
  if (type === END) said.end = JSON.parse(content.toString());
});
c.on("unexpected-response", (_, r) => { console.log(JSON.stringify({ status: r.statusCode })); process.exit(1); });
c.on("close", (code) => {
  console.log(JSON.stringify({ ...said, same: Buffer.compare(Buffer.concat(got), bytes) === 0, code }));
});
