// SPDX-License-Identifier: Apache-2.0
// Stock Playwright or Puppeteer, driving the browser of a sandbox: drive.js playwright|puppeteer WEBSOCKET TOKEN HOME
//
// It knows nothing of Cay but a URL and a header.  Each step is a call of its public API; the last line is
// JSON: the names of the calls that did what they should, and what went wrong.
"use strict";
const assert = require("node:assert");
const [, , kind, url, token, home] = process.argv;
const headers = { Authorization: `Bearer ${token}` };
const done = [], wrong = [];

async function step(name, run) {
	try {
		await run();
		done.push(name);
	} catch (e) {
		wrong.push(`${name}: ${String(e && e.message || e).slice(0, 300)}`);
	}
}

async function playwright() {
	const { chromium } = require("playwright-core");
	const browser = await chromium.connectOverCDP(url, { headers, timeout: 20000 });
	await step("browser.isConnected", () => assert(browser.isConnected()));
	await step("browser.version", () => assert.match(browser.version(), /^\d+\./));
	let context = browser.contexts()[0], page;
	await step("browser.contexts", () => assert(context));
	await step("context.pages", () => assert(context.pages().length >= 1));
	await step("browser.newContext", async () => { context = await browser.newContext({ viewport: { width: 900, height: 700 }, acceptDownloads: true }); });
	await step("context.newPage", async () => { page = await context.newPage(); });
	const messages = [];
	page.on("console", m => messages.push(m.text()));
	await step("page.goto", async () => assert.equal((await page.goto(home + "/")).status(), 200));
	await step("page.title", async () => assert.equal(await page.title(), "Form & more"));
	await step("page.url", () => assert.equal(page.url(), home + "/"));
	await step("page.content", async () => assert.match(await page.content(), /Order <em>form/));
	await step("page.evaluate", async () => assert.equal(await page.evaluate(n => n * 2, 21), 42));
	await step("page.evaluateHandle", async () => assert.equal(await (await page.evaluateHandle(() => document)).evaluate(d => d.title), "Form & more"));
	await step("page.locator", async () => assert.equal(await page.locator("h1").count(), 1));
	await step("locator.textContent", async () => assert.equal(await page.locator("h1").textContent(), "Order form"));
	await step("locator.innerText", async () => assert.equal(await page.locator("h1").innerText(), "Order form"));
	await step("page.getByRole", async () => assert(await page.getByRole("button", { name: "Send" }).isVisible()));
	await step("page.getByLabel", async () => page.getByLabel("Name").fill("Ada"));
	await step("page.getByPlaceholder", async () => page.getByPlaceholder("you@example.com").fill("ada@example.com"));
	await step("page.getByText", async () => assert.equal(await page.getByText("Plain box").count(), 1));
	await step("locator.inputValue", async () => assert.equal(await page.getByLabel("Name").inputValue(), "Ada"));
	await step("locator.pressSequentially", async () => { await page.getByLabel("Notes").pressSequentially("x"); });
	await step("locator.clear", async () => { await page.getByLabel("Notes").clear(); assert.equal(await page.getByLabel("Notes").inputValue(), ""); });
	await step("locator.selectOption", async () => assert.deepEqual(await page.getByLabel("Size").selectOption({ label: "Large one" }), ["l"]));
	await step("locator.check", async () => page.getByLabel("A gift").check());
	await step("locator.isChecked", async () => assert(await page.getByLabel("A gift").isChecked()));
	await step("locator.uncheck", async () => page.getByLabel("A gift").uncheck());
	await step("locator.isDisabled", async () => assert(await page.getByRole("button", { name: "Not now" }).isDisabled()));
	await step("locator.setInputFiles", async () => {
		await page.getByLabel("File").setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("hello from afar") });
		assert.equal(await page.evaluate(() => document.querySelector("[name=file]").files[0].text()), "hello from afar");
	});
	await step("locator.getAttribute", async () => assert.equal(await page.locator("#next").getAttribute("href"), "/second"));
	await step("locator.hover", async () => page.locator("#press").hover());
	await step("locator.click", async () => page.locator("#press").click());
	await step("locator.dblclick", async () => page.locator("#press").dblclick());
	await step("locator.focus", async () => page.getByLabel("Name").focus());
	await step("page.keyboard.type", async () => page.keyboard.type(" Lovelace é"));
	await step("page.keyboard.press", async () => { await page.keyboard.press("End"); await page.keyboard.press("Backspace"); assert.equal(await page.getByLabel("Name").inputValue(), "Ada Lovelace "); });
	await step("page.mouse.move", async () => page.mouse.move(10, 10));
	await step("page.mouse.wheel", async () => page.mouse.wheel(0, 100));
	await step("page.mouse.click", async () => page.mouse.click(10, 10));
	await step("locator.scrollIntoViewIfNeeded", async () => page.locator("#far").scrollIntoViewIfNeeded());
	await step("locator.boundingBox", async () => assert((await page.locator("#far").boundingBox()).width > 0));
	await step("page.frameLocator", async () => page.frameLocator("iframe").getByText("Inside").click());
	await step("page.frames", () => assert.equal(page.frames().length, 2));
	await step("page.screenshot", async () => assert((await page.screenshot()).subarray(1, 4).equals(Buffer.from("PNG"))));
	await step("page.screenshot fullPage", async () => assert((await page.screenshot({ fullPage: true })).length > 1000));
	await step("locator.screenshot", async () => assert((await page.locator("#press").screenshot()).length > 100));
	await step("locator.ariaSnapshot", async () => assert.match(await page.locator("body").ariaSnapshot(), /button "Send"/));
	await step("page.waitForResponse", async () => { const [r] = await Promise.all([page.waitForResponse(r => r.url().endsWith("/second")), page.click("#next")]); assert.equal(r.status(), 200); });
	await step("page.waitForURL", async () => page.waitForURL("**/second"));
	await step("page.goBack", async () => { await page.goBack(); assert.equal(await page.title(), "Form & more"); });
	await step("page.goForward", async () => { await page.goForward(); assert.equal(await page.title(), "Second"); });
	await step("page.reload", async () => page.reload());
	await step("page.waitForSelector", async () => { await page.goto(home + "/late"); await page.waitForSelector("text=it is here"); });
	await step("page.waitForFunction", async () => page.waitForFunction(() => document.title === "Late"));
	await step("page.route", async () => { await page.route("**/made", r => r.fulfill({ body: "<title>Made</title>", contentType: "text/html" })); await page.goto(home + "/made"); assert.equal(await page.title(), "Made"); });
	await step("page.on dialog", async () => { await page.goto(home + "/dialogs"); let n = 0; page.on("dialog", d => { n++; d.dismiss(); }); await page.click("button"); assert.equal(n, 4); });
	await step("page.on popup", async () => { await page.goto(home + "/popup"); const [p] = await Promise.all([page.waitForEvent("popup"), page.click("a")]); await p.waitForLoadState(); assert.equal(await p.title(), "Second"); await p.close(); });
	await step("page.exposeFunction", async () => { await page.exposeFunction("twice", n => n * 2); assert.equal(await page.evaluate(() => twice(4)), 8); });
	await step("page.addInitScript", async () => { await page.addInitScript(() => { globalThis.added = 7; }); await page.goto(home + "/second"); assert.equal(await page.evaluate(() => added), 7); });
	await step("page.setContent", async () => { await page.setContent("<b>own</b>"); assert.equal(await page.innerText("b"), "own"); });
	await step("page.setViewportSize", async () => { await page.setViewportSize({ width: 640, height: 480 }); assert.equal(await page.evaluate(() => innerWidth), 640); });
	await step("page.on console", async () => { await page.evaluate(() => console.log("said")); assert(messages.includes("said")); });
	await step("context.addCookies", async () => context.addCookies([{ name: "a", value: "1", url: home }]));
	await step("context.cookies", async () => assert.equal((await context.cookies(home))[0].value, "1"));
	await step("context.storageState", async () => assert.equal((await context.storageState()).cookies.length, 1));
	await step("context.newCDPSession", async () => { const s = await context.newCDPSession(page); assert((await s.send("Browser.getVersion")).product); });
	await step("page.on download", async () => { await page.goto(home + "/download"); const [d] = await Promise.all([page.waitForEvent("download"), page.click("a")]); assert.equal(d.suggestedFilename(), "data.bin"); });
	await step("page.close", async () => page.close());
	await step("context.close", async () => context.close());
	await step("browser.close", async () => browser.close());
}

async function puppeteer() {
	const p = require("puppeteer-core");
	const browser = await p.connect({ browserWSEndpoint: url, headers, defaultViewport: { width: 900, height: 700 } });
	let page;
	await step("browser.version", async () => assert.match(await browser.version(), /Chrome/));
	await step("browser.newPage", async () => { page = await browser.newPage(); });
	await step("browser.pages", async () => assert((await browser.pages()).length >= 2));
	await step("page.goto", async () => assert.equal((await page.goto(home + "/")).status(), 200));
	await step("page.title", async () => assert.equal(await page.title(), "Form & more"));
	await step("page.content", async () => assert.match(await page.content(), /Order <em>form/));
	await step("page.$", async () => assert(await page.$("#press")));
	await step("page.$$", async () => assert((await page.$$("button")).length > 3));
	await step("page.$eval", async () => assert.equal(await page.$eval("h1", e => e.textContent), "Order form"));
	await step("page.$$eval", async () => assert(await page.$$eval("button", e => e.length) > 3));
	await step("page.evaluate", async () => assert.equal(await page.evaluate(n => n + 1, 1), 2));
	await step("page.type", async () => { await page.type("[name=name]", "Grace"); assert.equal(await page.$eval("[name=name]", e => e.value), "Grace"); });
	await step("page.select", async () => assert.deepEqual(await page.select("select", "s"), ["s"]));
	await step("page.click", async () => page.click("#press"));
	await step("page.hover", async () => page.hover("#press"));
	await step("page.focus", async () => page.focus("#mail"));
	await step("page.keyboard.type", async () => page.keyboard.type("g@example.com"));
	await step("page.keyboard.press", async () => page.keyboard.press("Tab"));
	await step("page.mouse.click", async () => page.mouse.click(5, 5));
	await step("page.mouse.wheel", async () => page.mouse.wheel({ deltaY: 100 }));
	await step("page.locator", async () => page.locator("#far").click());
	await step("elementHandle.boundingBox", async () => assert((await (await page.$("#far")).boundingBox()).width > 0));
	await step("page.screenshot", async () => assert((await page.screenshot()).length > 1000));
	await step("page.screenshot fullPage", async () => assert((await page.screenshot({ fullPage: true })).length > 1000));
	await step("page.accessibility.snapshot", async () => assert(JSON.stringify(await page.accessibility.snapshot()).includes("Send")));
	await step("page.waitForNavigation", async () => { await Promise.all([page.waitForNavigation(), page.click("#next")]); assert.equal(await page.title(), "Second"); });
	await step("page.goBack", async () => { await page.goBack(); });
	await step("page.goForward", async () => { await page.goForward(); });
	await step("page.reload", async () => { await page.reload(); });
	await step("page.waitForSelector", async () => { await page.goto(home + "/"); await page.waitForSelector("#press"); });
	await step("page.waitForFunction", async () => page.waitForFunction(() => document.title));
	await step("page.setRequestInterception", async () => { const answer = r => r.url().endsWith("/made") ? r.respond({ body: "<title>Made</title>", contentType: "text/html" }) : r.continue(); await page.setRequestInterception(true); page.on("request", answer); await page.goto(home + "/made"); assert.equal(await page.title(), "Made"); page.off("request", answer); await page.setRequestInterception(false); });
	await step("page.setContent", async () => { await page.setContent("<b>own</b>"); });
	await step("page.setViewport", async () => { await page.setViewport({ width: 640, height: 480 }); assert.equal(await page.evaluate(() => innerWidth), 640); });
	await step("page.exposeFunction", async () => { await page.exposeFunction("thrice", n => n * 3); assert.equal(await page.evaluate(() => thrice(2)), 6); });
	await step("page.evaluateOnNewDocument", async () => { await page.evaluateOnNewDocument(() => { globalThis.added = 7; }); await page.goto(home + "/second"); assert.equal(await page.evaluate(() => added), 7); });
	await step("browser.setCookie", async () => { await browser.setCookie({ name: "p", value: "2", domain: "127.0.0.1", path: "/" }); assert((await browser.cookies()).some(c => c.name === "p")); });
	await step("page.metrics", async () => assert((await page.metrics()).Nodes > 0));
	await step("page.createCDPSession", async () => { const s = await page.createCDPSession(); assert((await s.send("Browser.getVersion")).product); });
	await step("browser.createBrowserContext", async () => { const c = await browser.createBrowserContext(); const q = await c.newPage(); await q.goto(home + "/second"); await c.close(); });
	await step("page.close", async () => page.close());
	await step("browser.disconnect", async () => browser.disconnect());
}

(kind === "playwright" ? playwright : puppeteer)().catch(e => wrong.push(`connect: ${e && e.stack || e}`)).finally(() => {
	console.log(JSON.stringify({ done, wrong }));
	process.exit(0);
});
