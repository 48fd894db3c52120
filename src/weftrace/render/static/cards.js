// The cards of a page's first screen: a number, what it is called, and what it says.

import { h } from "./dom.js";
import { defined } from "./tooltip.js";

/**
 * A card.
 * @param {string} key key of its definition
 * @param {string} label
 * @param {string} value
 * @param {string} note
 * @param {string} [role] its look
 */
export function card(key, label, value, note, role = "") {
  return h(
    "div",
    { class: `card ${role}`, data: { card: key } },
    h("div", { class: "card-label" }, defined(key, label)),
    h("div", { class: "card-value", text: value }),
    h("div", { class: "card-note", text: note }),
  );
}
