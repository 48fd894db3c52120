// What the prices of simulations assume: of all of them, or of which.

import { byId, fact, fill } from "render/dom.js";

const MOST_NAMES = 3;

/**
 * Each assumption once, beside those that rest on it; nothing where none is made.
 * @param {{ name: string, assumed: readonly string[] }[]} priced
 */
export function showAssumed(priced) {
  /** @type {Map<string, string[]>} */
  const namesOf = new Map();
  for (const { name, assumed } of priced)
    for (const text of assumed) namesOf.set(text, [...(namesOf.get(text) ?? []), name]);
  /** @type {Map<string, string[]>} */
  const textsOf = new Map();
  for (const [text, names] of namesOf) {
    const whose = names.length === priced.length ? "all" : shortened(names);
    textsOf.set(whose, [...(textsOf.get(whose) ?? []), text.replace(/^assumed: /, "")]);
  }
  byId("assumed-box").hidden = textsOf.size === 0;
  fill(
    byId("assumed"),
    [...textsOf].map(([whose, texts]) => fact(whose, texts.join("; "))),
  );
}

/** @param {string[]} names */
function shortened(names) {
  const more = names.length - MOST_NAMES;
  return names.slice(0, MOST_NAMES).join("; ") + (more > 0 ? ` and ${more} more` : "");
}
