// SPDX-License-Identifier: Apache-2.0
// The screen of a sandbox, by noVNC.  What a viewer may do, cay-edge decides; this page only shows it.
import RFB from "/core/rfb.js";
import { controls } from "/viewer-role.js";

const RETRY_MS = [500, 1000, 2000, 5000];
const at = id => document.getElementById(id);
const url = location.origin.replace(/^http/, "ws") + "/vnc";
let rfb, tries = 0, controlling = false;

function show(state, text) {
	at("state").dataset.state = state;
	at("state").textContent = text;
}

function press(button, on) {
	at(button).setAttribute("aria-pressed", String(on));
}

function say() {
	show("connected", controlling ? "you control it" : "watching");
}

function apply() {
	rfb.viewOnly = !controlling;
	rfb.scaleViewport = true;
	rfb.resizeSession = controlling && at("fit").getAttribute("aria-pressed") === "true";
	press("control", controlling);
	at("control").textContent = controlling ? "Give it back" : "Take control";
	at("fit").hidden = at("clip").hidden = !controlling;
	at("clipboard").hidden = !controlling || at("clip").getAttribute("aria-pressed") !== "true";
	if (controlling)
		rfb.focus();
}

function connect() {
	rfb = new RFB(at("screen"), url, { shared: true, wsProtocols: ["binary"] });
	rfb.background = "transparent";
	apply();
	rfb.addEventListener("connect", () => {
		tries = 0;
		say();
	});
	rfb.addEventListener("clipboard", e => {
		at("text").value = e.detail.text; // shown, never put into the viewer's own clipboard
	});
	rfb.addEventListener("disconnect", () => {
		const wait = RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)];

		show("lost", "no connection: the sandbox may have ended, or this link");
		setTimeout(connect, wait);
	});
}

at("control").hidden = !controls;
at("control").addEventListener("click", () => {
	controlling = !controlling;
	apply();
	say();
});
for (const button of ["fit", "clip"])
	at(button).addEventListener("click", () => {
		press(button, at(button).getAttribute("aria-pressed") !== "true");
		apply();
	});
at("send").addEventListener("click", () => rfb.clipboardPasteFrom(at("text").value));
at("full").addEventListener("click", () => document.fullscreenElement ? document.exitFullscreen() : at("screen").requestFullscreen());
connect();
