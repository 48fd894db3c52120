// One tooltip for the whole page: definitions (hover, focus or tap) and what lies under the pointer on a canvas.

import { h, fill } from "./dom.js";

/**
 * @typedef {import("./dom.js").Child} Child
 * @typedef {[label: string, text: string | number]} TipRow
 */

const box = h("div", { class: "tooltip", role: "tooltip", id: "tooltip", hidden: true });
/** @type {HTMLElement | null} */
let owner = null;
/** Where the page was scrolled to when the tip came. */
let shownAt = [0, 0];
/** @type {Terms} */
let definitions = {}; // key -> [term, text]

/**
 * Shows nodes near a point of the window; keeps them inside it.
 * @param {number} x
 * @param {number} y
 * @param {...Child} nodes
 */
export function showTip(x, y, ...nodes) {
  fill(box, ...nodes);
  box.hidden = false;
  shownAt = [scrollX, scrollY];
  const { width, height } = box.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  const top = y + 18 + height > innerHeight ? y - 12 - height : y + 18;
  box.style.setProperty("left", `${Math.max(6, left)}px`);
  box.style.setProperty("top", `${Math.max(6, top)}px`);
}

export function hideTip() {
  box.hidden = true;
  if (owner) owner.removeAttribute("aria-describedby");
  owner = null;
}

/**
 * Where a tip goes: to the pointer, or to (x, y) for the focus, which has no place of its own.
 * @param {Event} event
 * @param {number} x
 * @param {number} y
 * @returns {[number, number]}
 */
export function tipPlace(event, x, y) {
  return event instanceof MouseEvent ? [event.clientX || x, event.clientY || y] : [x, y];
}

/**
 * Title, then rows of [label, text]: the content of a canvas tooltip.
 * @param {string} title
 * @param {string | null | undefined} color
 * @param {(TipRow | null)[]} rows
 */
export function tipRows(title, color, rows) {
  const head = h(
    "div",
    { class: "tip-title" },
    color ? h("i", { class: "swatch", style: { background: color } }) : null,
    h("span", { text: title }),
  );
  return [
    head,
    h(
      "dl",
      {},
      rows.filter((row) => row !== null).flatMap(([label, text]) => [h("dt", { text: label }), h("dd", { text })]),
    ),
  ];
}

/**
 * A term and its meaning; of a cause that only a later version knows, its name.
 * @param {string} key
 * @returns {[string, string]}
 */
function termOf(key) {
  if (isDefined(key)) return definitions[key];
  return [key.replace("cause_", "").replaceAll("_", " "), "This version does not know it."];
}

/**
 * A word that carries its definition: focusable, with a dotted underline.
 * @param {string} key
 * @param {string} [text]
 */
export function defined(key, text = termOf(key)[0]) {
  return h("button", { class: "defined", type: "button", text, data: { def: key } });
}

/**
 * What a term is called.
 * @param {string} key
 */
export function wordOf(key) {
  return termOf(key)[0];
}

/**
 * Whether the page has a definition of it.
 * @param {string} key
 */
export function isDefined(key) {
  return Object.hasOwn(definitions, key);
}

/**
 * A question mark that carries a definition, for table heads, where the word itself sorts.
 * @param {string} key
 */
export function explained(key) {
  return h("button", {
    class: "explained",
    type: "button",
    text: "?",
    "aria-label": `What is ${termOf(key)[0]}?`,
    data: { def: key },
  });
}

/**
 * Before anything is drawn: the terms that `defined` and `explained` may name, {key: [term, text]}.
 * @param {Terms} known
 */
export function startTooltips(known) {
  definitions = known;
  document.body.append(box);
  /** @param {HTMLElement} target */
  const open = (target) => {
    const [title, text] = termOf(target.dataset.def ?? "");
    const at = target.getBoundingClientRect();
    showTip(at.left, at.bottom - 10, h("div", { class: "tip-title", text: title }), h("p", { text }));
    owner = target;
    owner.setAttribute("aria-describedby", "tooltip");
  };
  /**
   * @param {Event} event
   * @returns {HTMLElement | null}
   */
  const term = (event) => (event.target instanceof Element ? event.target.closest("[data-def]") : null);
  document.addEventListener("pointerover", (event) => {
    const t = term(event);
    if (t) open(t);
    else if (owner) hideTip();
  });
  for (const kind of ["focusin", "click"]) {
    document.addEventListener(kind, (event) => {
      const t = term(event);
      if (t) open(t);
    });
  }
  document.addEventListener("focusout", (event) => {
    if (term(event)) hideTip();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  // Scrolled boxes too: the event is caught on its way down. One of a scroll that was over before the tip came is late.
  window.addEventListener(
    "scroll",
    (event) => {
      if (event.target !== document || scrollX !== shownAt[0] || scrollY !== shownAt[1]) hideTip();
    },
    { passive: true, capture: true },
  );
  window.addEventListener("blur", hideTip);
  window.addEventListener("resize", hideTip);
}
