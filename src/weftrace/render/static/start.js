// How every page starts: its data, its terms, the theme; then what it draws, and the mark of the first frame.

import { byId, fill, h, readBlock } from "./dom.js";
import { rowsOf } from "./packed.js";
import { startTheme } from "./theme.js";
import { startTooltips } from "./tooltip.js";

/**
 * Starts the page whose data stands in the block `id`. draw(data) draws it and returns what people at the console, and
 * tests, find in `window.weftrace`.
 * @template Data
 * @param {string} id
 * @param {(data: Data) => object} draw
 */
export function startPage(id, draw) {
  /** @type {Terms} */
  const terms = readBlock("weftrace-terms");
  startTooltips(terms);
  startTheme(byId("theme"));
  const listed = Object.entries(terms).map(([key, [term, text]]) =>
    h("div", { id: `def-${key}` }, h("dt", { text: term }), h("dd", { text })),
  );
  fill(byId("definition-list"), listed);
  window.weftrace = draw(rowsOf(readBlock(id)));
  showTargets();
  // After the first frame has been drawn and handed to the screen.
  requestAnimationFrame(() => setTimeout(() => performance.mark("weftrace-first-paint")));
}

/** Links to sections are shown as long as what they lead to is. */
function showTargets() {
  const links = [...document.querySelectorAll("nav a")].filter((link) => link instanceof HTMLAnchorElement);
  const show = () => {
    for (const link of links) link.hidden = !document.getElementById(link.hash.slice(1))?.checkVisibility();
  };
  show();
  // Of the sections alone: what `show` itself hides lies outside.
  for (const main of document.querySelectorAll("main"))
    new MutationObserver(show).observe(main, { subtree: true, attributeFilter: ["hidden"] });
}
