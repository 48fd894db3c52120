// Names that begin alike are cut in the middle where there is no room for them, so that what differs stays in sight.

import { fill, h } from "./dom.js";

const LEAST = 6; // letters in common, from which on names are cut in the middle
const MOST_BACK = 12; // letters, to where the word begins in which they differ

/**
 * Parts each name before the word in which it differs from the others; the style sheet (`.parted`) cuts both parts.
 * @param {Iterable<HTMLElement>} elements that hold a name each, and nothing else
 */
export function tellApart(elements) {
  const named = [...elements].filter(({ childElementCount }) => !childElementCount);
  const sorted = [...new Set(named.map(({ textContent }) => textContent))].sort();
  const common = new Map(
    sorted.map((name, at) => [name, Math.max(...[-1, 1].map((to) => alike(name, sorted[at + to])))]),
  );
  for (const element of named) {
    const name = element.textContent;
    const shared = common.get(name) ?? 0;
    if (shared < LEAST) continue;
    const word = /\w*$/.exec(name.slice(Math.max(0, shared - MOST_BACK), shared))?.[0].length ?? 0;
    const [head, tail] = [name.slice(0, shared - word), name.slice(shared - word)];
    element.classList.add("parted");
    fill(element, part(head, tail.length), part(tail, head.length));
  }
}

/**
 * @param {string} text
 * @param {number} rest letters of the other part
 */
function part(text, rest) {
  return h("span", { text, style: { "--rest": rest } });
}

/**
 * How many letters two names begin with alike.
 * @param {string} name
 * @param {string | undefined} other
 */
function alike(name, other = "") {
  let at = 0;
  while (at < name.length && name[at] === other[at]) at += 1;
  return at;
}
