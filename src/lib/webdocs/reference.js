"use strict";
// Search.  The page is complete without it.
const box = document.getElementById("find");
const parts = [...document.querySelectorAll("[data-find]")];
const groups = [...document.querySelectorAll("[data-group]")];

function find() {
	const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);

	for (const p of parts)
		p.hidden = !words.every(w => p.dataset.find.includes(w));
	for (const g of groups)
		g.hidden = words.length > 0 && !g.querySelector("[data-find]:not([hidden])");
}

box.parentElement.hidden = false;
box.addEventListener("input", find);
document.addEventListener("keydown", e => {
	if (e.key === "/" && e.target !== box) {
		e.preventDefault();
		box.focus();
	} else if (e.key === "Escape" && e.target === box) {
		box.value = "";
		find();
	}
});
