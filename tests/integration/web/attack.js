// SPDX-License-Identifier: Apache-2.0
// What a page of somebody else's can try against a server on this machine.  A route is
// [method, target, body or null]; what cannot be sent is "error".
"use strict";

const TIMEOUT_MS = 20000;

function within(ms, promise, late) {
	return Promise.race([promise, new Promise(done => setTimeout(done, ms, late))]);
}

// A few at a time: browsers have few connections to one server.
async function each(list, fn) {
	const out = [];

	for (let i = 0; i < list.length; i += 6)
		out.push(...await Promise.all(list.slice(i, i + 6).map(fn)));
	return out;
}

async function fetches({ base, routes, mode, headers }) {
	return each(routes, async ([method, target, body]) => {
		try {
			const r = await fetch(base + target, {
				method, mode, headers, credentials: "include",
				body: method === "GET" ? undefined : body,
				signal: AbortSignal.timeout(TIMEOUT_MS),
			});
			return r.type === "opaque" ? "opaque" : r.status;
		} catch (e) {
			return "error";
		}
	});
}

// GET and POST are all a form can; text/plain lets it spell any JSON.
async function forms({ base, routes, enctype }) {
	return each(routes, ([method, target, body]) => {
		const frame = document.createElement("iframe"), form = document.createElement("form");
		const field = document.createElement("textarea");

		frame.name = "frame" + Math.random();
		document.body.append(frame, form);
		form.target = frame.name;
		form.action = base + target;
		form.method = method === "GET" ? "get" : "post";
		form.enctype = enctype;
		field.name = body || "x";
		form.append(field);
		const loaded = new Promise(done => { frame.onload = () => done("loaded"); });
		form.submit();
		return within(TIMEOUT_MS, loaded, "error");
	});
}

async function tags({ base, routes }) {
	return each(routes.flatMap(r => ["img", "script", "link"].map(tag => [tag, r[1]])), ([tag, target]) => {
		const e = document.createElement(tag);
		const ended = new Promise(done => { e.onload = () => done("loaded"); e.onerror = () => done("error"); });

		if (tag === "link")
			e.rel = "stylesheet";
		e[tag === "link" ? "href" : "src"] = base + target;
		document.body.append(e);
		return within(TIMEOUT_MS, ended, "late");
	});
}

async function beacons({ base, routes }) {
	return routes.map(([, target, body]) => navigator.sendBeacon(base + target, body || ""));
}

async function sources({ base, routes }) {
	return each(routes, ([, target]) => {
		const s = new EventSource(base + target, { withCredentials: true });
		const ended = new Promise(done => { s.onopen = () => done("open"); s.onerror = () => done("error"); });

		return within(TIMEOUT_MS, ended, "late").then(said => { s.close(); return said; });
	});
}

async function sockets({ base, routes, protocols }) {
	return each(routes, ([, target]) => {
		const s = new WebSocket(base.replace("http", "ws") + target, protocols);
		const ended = new Promise(done => { s.onopen = () => done("open"); s.onerror = () => done("error"); });

		return within(TIMEOUT_MS, ended, "late").then(said => { s.close(); return said; });
	});
}

// The same as one of the above, by a document without an origin.
async function nobody({ name, args, by }) {
	const text = `<script>(async () => {
		${[within, each, fetches, forms].map(String).join("\n")}
		const TIMEOUT_MS = ${TIMEOUT_MS};
		parent.postMessage({ origin: self.origin, result: await ${name}(${JSON.stringify(args)}) }, "*");
	})()</script>`.replace("<script>", "<body><script>");
	const frame = document.createElement("iframe");

	frame.sandbox = "allow-scripts allow-forms";
	if (by === "data")
		frame.src = "data:text/html;base64," + btoa(text);
	else
		frame.srcdoc = text;
	document.body.append(frame);
	return new Promise(done => { onmessage = e => done(e.data); });
}

window.attacks = { fetches, forms, tags, beacons, sources, sockets, nobody };
