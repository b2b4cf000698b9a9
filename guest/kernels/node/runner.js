// SPDX-License-Identifier: Apache-2.0
// Node kernel: runs the code that PID 1 of a sandbox sends, in V8's own REPL mode
//
// fd 1 and 2 are stdout and stderr as for any program.  Requests come on fd 3, events go out on
// fd 4; docs/adr/0102 has the frames.  PID 1 gives this text to node on fd 5: nothing of it is
// installed in an image.  It is the body of a function with the arguments require, module, process.
//
// A worker thread owns fd 3, so that an interrupt is read while the code loops; it stops the code
// by the inspector, and variables stay.  The two threads share a few numbers (`shared`).
'use strict';
if (!''.toWellFormed) {
  require('fs').writeSync(2, `cay: the node kernel needs Node 20 or later, this is ${process.version}: install it, or take the image \`node\`\n`);
  process.exit(3);
}
const fs = require('fs'), path = require('path'), vm = require('vm'), util = require('util');
const { Writable } = require('stream'), { Session } = require('inspector'), { Worker } = require('worker_threads');
const { createRequire } = require('module');
// what the runner needs whatever the code does to the modules
const { writeSync, fstatSync, openSync, mkdirSync, writeFileSync } = fs, { inspect } = util, { parse, stringify } = JSON;
const { load, store, compareExchange, wait } = Atomics, { isNativeError } = util.types;

const MAX_VALUE = 4 << 20, MAX_RESULTS = 8 << 20, MAX_TYPES = 32, MAX_TYPE = 128, MAX_EVENTS = 9998 /* and the error that ends the run, and a note */, MAX_DEPTH = 24;
const MAX_ERROR = 16 << 10, MAX_TRACEBACK = 64 << 10;
const BINARY = ['image/png', 'image/jpeg', 'application/pdf'];
const EXTENSIONS = { 'image/png': 'png', 'image/jpeg': 'jpg', 'application/pdf': 'pdf', 'image/svg+xml': 'svg', 'text/html': 'html' };

// ACKS: events that PID 1 has taken.  LOCK: held by a thread that sends a frame (1) or stops the
// code (2), so that no frame is cut.  RUNNING: a run is on.  SEEN: the last interrupt that the main
// thread has answered by itself.
const ACKS = 0, LOCK = 1, RUNNING = 2, SEEN = 3;
const shared = new Int32Array(new SharedArrayBuffer(16));

const READER = `
  const { parentPort, workerData: shared } = require('worker_threads'), { Session } = require('inspector');
  const ACKS = 0, LOCK = 1, RUNNING = 2, SEEN = 3;
  let buffer = Buffer.alloc(0), interrupts = 0, waiting = false;

  // The main thread answers an interrupt when it only waits (for a timer, a promise).  When it does
  // not within 100 ms, its code loops: stop that, but never in the middle of a frame.
  function interrupt() {
    if (!shared[RUNNING]) return;
    const mine = ++interrupts;
    waiting = true;
    parentPort.postMessage({ interrupt: mine });
    setTimeout(() => stop(mine), 100);
  }
  function stop(mine) {
    if (shared[SEEN] >= mine || !shared[RUNNING]) return;
    if (Atomics.compareExchange(shared, LOCK, 0, 2) !== 0) return void setTimeout(() => stop(mine), 5);
    const session = new Session();
    session.connectToMainThread();
    session.post('Runtime.terminateExecution', () => {});
    setTimeout(() => {
      session.disconnect();
      Atomics.compareExchange(shared, LOCK, 2, 0);
      setTimeout(() => stop(mine), 100);
    }, 20);
  }
  const input = new (require('net').Socket)({ fd: 3, readable: true, writable: false });
  input.on('data', (part) => {
    buffer = buffer.length ? Buffer.concat([buffer, part]) : part;
    while (buffer.length >= 5 && buffer.length >= 5 + buffer.readUInt32LE(0)) {
      const size = buffer.readUInt32LE(0), kind = String.fromCharCode(buffer[4]), payload = buffer.toString('utf8', 5, 5 + size);
      buffer = buffer.subarray(5 + size);
      if (kind === 'A') { Atomics.add(shared, ACKS, 1); Atomics.notify(shared, ACKS); }
      else if (kind === 'X') { Atomics.store(shared, RUNNING, 1); parentPort.postMessage({ run: payload }); }
      else if (kind === 'I') interrupt();
    }
  });
  input.on('close', () => { parentPort.postMessage({ end: true }); interrupt(); });
`;

// Well-formed UTF-8 without U+0000, whatever the code's strings are; a big integer as text.
const clean = (key, value) => typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : typeof value === 'bigint' ? String(value) : value;
const toJSON = (value) => Buffer.from(stringify(value, clean));

function writeAll(fd, data) {
  while (data.length) {
    try {
      data = data.subarray(writeSync(fd, data));
    } catch (e) {
      if (e.code !== 'EAGAIN') throw e;
      wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); // made non-blocking by a child: wait a millisecond
    }
  }
}

// stdout and stderr write at once, so that what is printed before an event is there before it.
class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: true });
    this.fd = this.kept = fd;
    this.isTTY = false;
    try { this.kept = openSync(`/proc/self/fd/${fd}`, 'w'); } catch { /* not ours to open: stays as it is */ }
    this.inode = fstatSync(fd).ino;
  }
  _write(chunk, encoding, done) { writeAll(this.kept, chunk); done(); }
  _destroy(error, done) { done(); }
  end() { return this; } // a cell may not end it for the next
  mend() { // a cell that closed fd 1 or 2
    try { if (fstatSync(this.fd).ino === this.inode) return; } catch { /* closed */ }
    try { openSync(`/proc/self/fd/${this.kept}`, 'w'); } catch { /* children of the code have no output then */ }
  }
}

// Send one event; with ask, wait until PID 1 has taken it.
function send(kind, payload, ask = true) {
  while (compareExchange(shared, LOCK, 0, 1) !== 0); // the worker is about to stop us right here
  const before = load(shared, ACKS), head = Buffer.alloc(5);
  head.writeUInt32LE(payload.length);
  head[4] = kind.charCodeAt(0);
  try {
    writeAll(4, Buffer.concat([head, payload]));
  } catch {
    process.reallyExit(1); // the code closed it, or PID 1 is gone
  }
  while (ask && load(shared, ACKS) === before) wait(shared, ACKS, before);
  store(shared, LOCK, 0);
}

function shortened(text, limit) {
  const data = Buffer.from(text.toWellFormed());
  if (data.length <= limit) return text;
  const start = Math.floor(limit * 2 / 3), end = Math.floor(limit / 4);
  return `${data.subarray(0, start)}\n… ${data.length - start - end} bytes left out …\n${data.subarray(-end)}`;
}

const depth = (value, n = 0) => n > MAX_DEPTH || value === null || typeof value !== 'object' ? n
  : Math.max(n, ...Object.values(value).slice(0, 10000).map((v) => depth(v, n + 1)));

const run = { on: false, silent: true, bytes: 0, events: 0, dropped: 0, failed: false, count: 0, files: 0 };

function event(kind, payload, last = false) {
  if (++run.events > MAX_EVENTS && !last) run.dropped++;
  else send(kind, payload);
}

// One value of a bundle as a JSON string, of JSON text for JSON types; null when it is too deep.  And what a file of it would hold.
function prepare(mime, value) {
  if (BINARY.includes(mime)) {
    const text = typeof value === 'string' ? value.replace(/\s/g, '') : Buffer.from(value).toString('base64');
    return [toJSON(text), () => Buffer.from(text, 'base64')];
  }
  if (mime.endsWith('json')) {
    const text = toJSON(value);
    return [depth(value) > MAX_DEPTH ? null : toJSON(text.toString()), () => text];
  }
  const text = typeof value === 'string' ? value : Buffer.isBuffer(value) ? value.toString() : inspect(value);
  return [toJSON(text), () => Buffer.from(text.toWellFormed())];
}

function save(mime, content) {
  const data = content();
  try {
    const folder = path.join(process.env.TMPDIR || '/tmp', 'cay-results');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const ending = EXTENSIONS[mime] || (mime.endsWith('json') ? 'json' : 'txt');
    const file = path.join(folder, `${process.pid}-${++run.files}.${ending}`);
    writeFileSync(file, data, { flag: 'wx', mode: 0o600 });
    return { mime, bytes: data.length, path: file };
  } catch {
    return { mime, bytes: data.length, path: '' };
  }
}

function show(main, data) {
  if (!run.on || run.silent) return;
  const told = [], cut = [];
  let size = 0;
  const types = Object.keys(data).filter((mime) => mime.length <= MAX_TYPE).sort((a, b) => (b === 'text/plain') - (a === 'text/plain'));
  for (const mime of types.slice(0, MAX_TYPES)) {
    const [text, content] = prepare(mime, data[mime]);
    if (!text || size + text.length > MAX_VALUE || run.bytes + size + text.length > MAX_RESULTS) {
      cut.push(save(mime, content));
    } else {
      told.push(Buffer.concat([toJSON(mime), Buffer.from(':'), text]));
      size += text.length;
    }
  }
  run.bytes += size;
  const rest = toJSON({ main, ...(cut.length ? { cut } : {}) });
  const parts = told.flatMap((t, i) => i ? [Buffer.from(','), t] : [t]);
  event('R', Buffer.concat([rest.subarray(0, -1), Buffer.from(',"data":{'), ...parts, Buffer.from('}}')]));
}

// An object may say how it is shown, by the method that Deno's notebooks call too.
function bundle(value) {
  const text = without_runner(inspect(value, { showProxy: true }));
  const method = value !== null && typeof value === 'object' && value[Symbol.for('Jupyter.display')];
  return typeof method === 'function' ? { 'text/plain': text, ...method.call(value) } : { 'text/plain': text };
}

function display(value) {
  const keys = value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype ? Object.keys(value) : [];
  show(false, keys.length && keys.every((k) => /^[\w.+-]+\/[\w.+-]+$/.test(k)) ? value : bundle(value));
}

// A stack without what is below the cell: from the inspector's call on it is the runner.
function without_runner(text) {
  let below = false;
  return text.split('\n').filter((line) => {
    below = /^\s+at /.test(line) && (below || /\(node:inspector:/.test(line));
    return !below;
  }).join('\n');
}

function fail(error, { late = false, last = false }) {
  run.failed = true;
  let name = 'Uncaught', value, lines;
  try {
    if (isNativeError(error) || error instanceof Error) {
      [name, value] = [String(error.name), String(error.message)];
      lines = without_runner(String(error.stack));
    } else {
      value = inspect(error);
    }
  } catch {
    value = 'an error that cannot be shown';
  }
  lines = shortened(lines || `${name} ${value}`, MAX_TRACEBACK).split('\n');
  event('E', toJSON({ name: shortened(name, 256), value: shortened(value, MAX_ERROR), traceback: lines, ...(late ? { late: true } : {}) }), last);
}

// import is for modules only; the same words work here as calls of a function.
let load_module;
function rewrite_imports(code) {
  let acorn;
  try { acorn = createRequire('/')('acorn'); } catch { // Node has one inside
    const made = { exports: {} };
    new Function('exports', 'module', process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'])(made.exports, made);
    acorn = made.exports;
  }
  const found = [], options = { ecmaVersion: 'latest', allowAwaitOutsideFunction: true, allowReturnOutsideFunction: false };
  let tree;
  try { tree = acorn.parse(code, { ...options, sourceType: 'module' }); } catch { tree = acorn.parse(code, options); }
  (function walk(node) {
    if (!node || typeof node !== 'object') return;
    if (/^Import(Declaration|Expression)$/.test(node.type) || (node.type === 'MetaProperty' && node.meta.name === 'import')) found.push(node);
    for (const inner of Object.values(node)) walk(inner);
  })(tree);
  for (const node of found.sort((a, b) => b.start - a.start)) {
    let text = '__cay_import', end = node.start + 6;
    if (node.type === 'MetaProperty') {
      [text, end] = ['__cay_import.meta', node.end];
    } else if (node.type === 'ImportDeclaration') {
      const names = node.specifiers.filter((s) => s.type !== 'ImportNamespaceSpecifier').map((s) =>
        `${s.type === 'ImportDefaultSpecifier' ? 'default' : s.imported.raw || s.imported.name}: ${s.local.name}`);
      const whole = node.specifiers.find((s) => s.type === 'ImportNamespaceSpecifier');
      const call = `await __cay_import(${node.source.raw})`;
      text = whole ? `const ${whole.local.name} = ${call}${names.length ? `, {${names}} = ${whole.local.name}` : ''};`
        : names.length ? `const {${names}} = ${call};` : `${call};`;
      end = node.end;
    }
    code = code.slice(0, node.start) + text + code.slice(end);
  }
  return code;
}

// `{a: 1}` is meant as an object, as in Node's own REPL.
function prepared(code) {
  if (/^\s*\{/.test(code) && !/;\s*$/.test(code)) {
    try { new vm.Script(`(${code}\n)`); return `(${code}\n)`; } catch { /* it is a block */ }
  }
  if (/\bimport\b/.test(code)) {
    try { return rewrite_imports(code); } catch { /* V8 says what is wrong */ }
  }
  return code;
}

const session = new Session();
session.connect();
let holder, taken; // the inspector gives a value itself by a call of the function that holder names
globalThis.__cay_take = (value) => { taken = value; };
session.post('Runtime.evaluate', { expression: 'globalThis.__cay_take' }, (error, reply) => { holder = reply.result.objectId; });
delete globalThis.__cay_take;

function value_of(remote) {
  if (!remote.objectId) return remote.unserializableValue ? vm.runInThisContext(remote.unserializableValue) : remote.value;
  session.post('Runtime.callFunctionOn', { functionDeclaration: 'function (value) { this(value); }', objectId: holder, arguments: [{ objectId: remote.objectId }] }, () => {});
  session.post('Runtime.releaseObject', { objectId: remote.objectId }, () => {});
  const value = taken;
  taken = undefined;
  return value;
}

const interrupted = () => { const e = new Error(''); e.name = 'KeyboardInterrupt'; e.stack = 'KeyboardInterrupt: the run was interrupted'; return e; };

function follow_directory() {
  const here = path.join(process.cwd(), 'cell.js');
  globalThis.require = createRequire(here);
  try {
    load_module = new vm.Script('(name, options) => import(name, options)', { filename: here,
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER }).runInThisContext();
  } catch { load_module = async (name) => globalThis.require(name); }
  const helper = (name, options) => load_module(name, options);
  helper.meta = { url: require('url').pathToFileURL(here).href, filename: here, dirname: process.cwd() };
  Object.defineProperty(globalThis, '__cay_import', { value: helper, configurable: true, enumerable: false });
}

let finish = () => {}; // ends the run that is on; an interrupt calls it before the code does

function evaluate(code) {
  return new Promise((resolve, reject) => {
    finish = (error) => reject(error);
    session.post('Runtime.evaluate', { expression: `${prepared(code)}\n//# sourceURL=cell_${run.count}`, replMode: true, includeCommandLineAPI: false },
      (error, reply) => {
        if (error) reject(interrupted());
        else if (reply.exceptionDetails) reject(value_of(reply.exceptionDetails.exception));
        else Promise.resolve(value_of(reply.result)).then(resolve, reject);
      });
  });
}

async function run_cell(request) {
  Object.assign(run, { on: true, silent: !!request.silent, bytes: 0, events: 0, dropped: 0, failed: false });
  for (const stream of [process.stdout, process.stderr]) stream.mend();
  send('C', toJSON({ execution_count: run.silent ? 0 : ++run.count }), false);
  const before = Object.keys(request.env || {}).map((name) => [name, process.env[name]]);
  try {
    Object.assign(process.env, request.env);
    if (request.cwd && request.cwd !== process.cwd()) {
      process.chdir(request.cwd);
      follow_directory();
    }
    const value = await evaluate(request.code);
    if (value !== undefined) show(true, bundle(value));
  } catch (e) {
    fail(e, { last: true });
  }
  await new Promise(setImmediate); // rejections that nothing handles are told in this turn
  for (const [name, value] of before) if (value === undefined) delete process.env[name]; else process.env[name] = value;
  run.on = false;
  if (run.dropped) send('R', toJSON({ main: false, data: { 'text/plain': `… ${run.dropped} results more were dropped` } }));
  let cwd = '';
  try { cwd = process.cwd(); } catch { /* removed */ }
  store(shared, RUNNING, 0);
  send('D', toJSON({ status: run.failed ? 'error' : 'ok', cwd }), false);
}

fs.closeSync(5);
for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
  Object.defineProperty(process, name, { value: new Output(fd), configurable: true, enumerable: true, writable: true });
}
process.execArgv = [];
process.on('uncaughtException', (e) => fail(e, { late: !run.on }));
process.on('unhandledRejection', (e) => fail(e, { late: !run.on }));
for (const name of ['module', 'exports', '__filename', '__dirname']) delete globalThis[name];
follow_directory();
globalThis.display = display;

const worker = new Worker(READER, { eval: true, workerData: shared, execArgv: [] });
worker.on('message', (message) => {
  if (message.end) process.reallyExit(0);
  if (message.run) run_cell(parse(message.run));
  if (message.interrupt) {
    store(shared, SEEN, message.interrupt);
    finish(interrupted());
  }
});
send('H', toJSON({ version: process.version.slice(1), implementation: `Node ${process.version}` }), false);
