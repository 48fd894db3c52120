// Legends: a swatch, or a sign, and what it means.

import { h } from "./dom.js";

/**
 * @typedef {import("./dom.js").Child} Child
 * @typedef {import("./dom.js").Properties} Properties
 */

/**
 * @param {Properties} swatch how it looks
 * @param {...Child} words
 */
export function key(swatch, ...words) {
  return h("span", { class: "key" }, h("i", swatch), ...words);
}

/**
 * @param {string} color
 * @param {...Child} words
 */
export function colorKey(color, ...words) {
  return key({ class: "swatch", style: { background: color } }, ...words);
}

/**
 * @param {string} sign
 * @param {string} words
 */
export function signKey(sign, words) {
  return h("span", { class: "key" }, h("b", { text: sign }), words);
}
