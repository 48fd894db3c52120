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
  // After the first frame has been drawn and handed to the screen.
  requestAnimationFrame(() => setTimeout(() => performance.mark("weftrace-first-paint")));
}
