// SPDX-License-Identifier: Apache-2.0
// Playwright, timed: playwright-side.js URL KEY snapshot PAGE ROUNDS | steps
"use strict";
const { chromium } = require("playwright-core");
const [, , url, key, what, ...words] = process.argv;
const now = () => Number(process.hrtime.bigint());

async function snapshot(page) {
	const ns = [];
	let text = "";

	await page.goto(`http://127.0.0.1:8000/${words[0]}`, { timeout: 100000 });
	for (let i = 0; i < Number(words[1]); i++) {
		const begun = now();

		text = await page.locator("body").ariaSnapshot({ mode: "ai" });
		ns.push(now() - begun);
	}
	return { ns, chars: text.length };
}

async function steps(page) {
	const begun = now();

	await page.goto("http://127.0.0.1:8000/form.html");
	for (let i = 0; i < 6; i++) {
		await page.locator("input").nth(i).fill(`value ${i}`);
		if (await page.locator("input").nth(i).inputValue() !== `value ${i}`)
			throw new Error("it was not filled in");
	}
	await page.locator("input").first().click();
	await page.keyboard.press("End");
	await page.keyboard.type("more");
	await page.title();
	await page.evaluate(() => document.querySelectorAll("input").length);
	await page.screenshot();
	await page.goto("http://127.0.0.1:8000/news.html");
	await page.locator("h2").count();
	return { ns: [now() - begun] };
}

(async () => {
	const browser = await chromium.connectOverCDP(url, { headers: { Authorization: `Bearer ${key}` } });
	const page = await (await browser.newContext()).newPage();

	console.log(JSON.stringify(await (what === "steps" ? steps : snapshot)(page)));
	process.exit(0);
})().catch(e => { console.error(e); process.exit(1); });
