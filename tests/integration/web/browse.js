// SPDX-License-Identifier: Apache-2.0
// A browser that pytest drives: a line of JSON in, a line out.
//
//	{"page": URL}                        go there, and stay
//	{"read": URL, "width": N}            a page on a screen so wide: what it asked for, what went wrong, what is in it
//	{"attack": NAME, "args": ...}        what that page's attack.js can do; what came of it
"use strict";
const readline = require("node:readline");
const { chromium } = require("playwright-core");

const ARGS = ["--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"];

let browser, page;

async function go(url) {
	const context = await browser.newContext();

	if (page)
		await page.context().close();
	page = await context.newPage();
	await page.goto(url, { waitUntil: "load", timeout: 60000 });
	return { title: await page.title(), url: page.url(), text: await page.evaluate(() => document.body.innerText) };
}

async function read(url, width) {
	const context = await browser.newContext({ viewport: { width, height: 800 } });
	const p = await context.newPage();
	const asked = [], wrong = [];

	p.on("request", r => asked.push(r.url()));
	p.on("console", m => wrong.push(m.text()));
	p.on("pageerror", e => wrong.push(String(e)));
	await p.goto(url, { waitUntil: "load", timeout: 60000 }); // all of it, with its script
	await p.waitForLoadState("networkidle", { timeout: 60000 });
	const said = await p.evaluate(() => ({
		ids: [...document.querySelectorAll("[id]")].map(e => e.id),
		links: [...document.querySelectorAll("[href], [src]")].map(e => e.getAttribute("href") || e.getAttribute("src")),
		wide: document.documentElement.scrollWidth,
		shown: document.querySelector("label").offsetHeight > 0,
	}));
	await p.fill("#find", "grep");
	said.found = await p.evaluate(() => [...document.querySelectorAll("article")].filter(e => e.offsetHeight).map(e => e.id));
	await context.close();
	return { asked, wrong, ...said };
}

async function attack(name, args) {
	const result = await page.evaluate(([n, a]) => window.attacks[n](a), [name, args]);
	// what was begun and is not waited for by the page: beacons, frames
	await page.waitForLoadState("networkidle", { timeout: 60000 });
	return { result };
}

async function main() {
	browser = await chromium.launch({
		executablePath: process.env.CAY_CHROMIUM || "/usr/bin/chromium-headless-shell",
		chromiumSandbox: false,
		args: ARGS,
	});
	for await (const line of readline.createInterface({ input: process.stdin })) {
		const what = JSON.parse(line);
		let said;

		try {
			said = what.page ? await go(what.page) : what.read ? await read(what.read, what.width) : await attack(what.attack, what.args);
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
