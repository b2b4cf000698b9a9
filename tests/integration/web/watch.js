// SPDX-License-Identifier: Apache-2.0
// Viewers of a screen that pytest drives: a line of JSON in, a line out.
//
//	{"open": NAME, "url": URL}       a viewer with cookies of its own opens the page of a screen
//	{"on": NAME, "do": [...]}        ["click", SELECTOR], ["mouse", X, Y] in pixels of the screen, ["keys", TEXT],
//	                                 ["fill", SELECTOR, TEXT]
//	{"on": NAME, "look": true}       what it shows: words, what is wrong, and the pixels of the screen
//	{"on": NAME, "shot": FILE}       a picture of the page
//	{"on": NAME, "speak": [BYTES]}   a WebSocket of its own with the page's cookie: RFB by hand; what came back
//	{"close": NAME}
"use strict";
const readline = require("node:readline");
const { chromium } = require("playwright-core");

const viewers = {};
let browser;

async function open(name, url) {
	const context = await browser.newContext({ viewport: { width: 1000, height: 760 } });
	const page = await context.newPage(), v = viewers[name] = { context, page, wrong: [], asked: [] };

	page.on("console", m => m.type() === "error" && v.wrong.push(m.text()));
	page.on("pageerror", e => v.wrong.push(String(e)));
	page.on("request", r => v.asked.push(r.url()));
	page.on("websocket", s => v.asked.push(s.url()));
	const reply = await page.goto(url, { waitUntil: "load", timeout: 30000 });
	return { status: reply.status(), url: page.url(), headers: reply.headers(), text: (await page.evaluate(() => document.body.innerText)).slice(0, 2000) };
}

async function act(v, [what, ...args]) {
	if (what === "click")
		return v.page.click(args[0], { timeout: 5000 });
	if (what === "fill")
		return v.page.fill(...args);
	if (what === "keys")
		return v.page.keyboard.type(args[0], { delay: 10 });
	const at = await v.page.evaluate(([x, y]) => {
		const c = document.querySelector("#screen canvas"), r = c.getBoundingClientRect();

		return [r.left + (x + 0.5) * r.width / c.width, r.top + (y + 0.5) * r.height / c.height];
	}, args);
	await v.page.mouse.move(...at);
	return v.page.mouse.click(...at);
}

async function look(v) {
	const said = await v.page.evaluate(() => {
		const c = document.querySelector("#screen canvas");
		const shown = id => !document.getElementById(id).hidden;
		const pixels = c && c.width && c.height && c.width * c.height < 4e6 && c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let text = "";

		for (let i = 0; pixels && i < pixels.length; i += 32768)
			text += String.fromCharCode(...pixels.subarray(i, i + 32768));
		return { state: document.getElementById("state").textContent, control: shown("control"), clip: document.getElementById("text").value,
			size: c ? [c.width, c.height] : null, rgba: btoa(text), title: document.title };
	});

	return { ...said, wrong: v.wrong, asked: v.asked };
}

async function speak(v, pieces) {
	return v.page.evaluate(all => new Promise(done => {
		const s = new WebSocket(location.origin.replace("http", "ws") + "/vnc", ["binary"]);
		const said = { bytes: 0, first: "", code: 0 };
		let next = 0;

		s.binaryType = "arraybuffer";
		s.onmessage = m => {
			said.first ||= new TextDecoder("latin1").decode(m.data).slice(0, 12);
			said.bytes += m.data.byteLength;
			if (next < all.length)
				s.send(Uint8Array.from(atob(all[next++]), c => c.charCodeAt(0)));
		};
		s.onclose = e => {
			said.code = e.code;
			said.reason = e.reason;
			done(said);
		};
		setTimeout(() => s.close(1000), 1500);
	}), pieces);
}

async function answer(what) {
	const v = viewers[what.on];

	if (what.open)
		return open(what.open, what.url);
	if (what.do)
		for (const step of what.do)
			await act(v, step);
	if (what.shot)
		await v.page.screenshot({ path: what.shot });
	if (what.close)
		await viewers[what.close].context.close();
	return what.look ? look(v) : what.speak ? speak(v, what.speak) : {};
}

async function main() {
	browser = await chromium.launch({
		executablePath: process.env.CAY_CHROMIUM || "/usr/bin/chromium-headless-shell",
		chromiumSandbox: false,
		args: ["--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"],
	});
	for await (const line of readline.createInterface({ input: process.stdin })) {
		let said;

		try {
			said = await answer(JSON.parse(line));
		} catch (e) {
			said = { error: String(e.stack || e) };
		}
		process.stdout.write(JSON.stringify(said) + "\n");
	}
	await browser.close();
}

main().catch(e => {
	process.stderr.write(String(e.stack || e) + "\n");
	process.exit(1);
});
