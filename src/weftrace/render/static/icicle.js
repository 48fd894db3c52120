// A tree as an icicle: a node's width is its part, its children lie under it; a click goes into it.

import { actionButton, fill, h } from "./dom.js";
import { percent } from "./format.js";
import { key } from "./legends.js";
import { answering, drawnToWidth, fittedText, svg, textWidth } from "./svg.js";
import { hideTip } from "./tooltip.js";

const ROW = 30;
const MOST_ROWS = 9;
const MOST_ABOVE = 6; // of those above the node that fills the width, the nearest: a call stack can be a hundred deep
const FONT = "600 12px"; // as icicle.css has it

/**
 * What is drawn. A node is any object; widths show `of`, what it has with all below it, and `own`, without.
 * @template Node
 * @typedef {object} Picture
 * @property {string} label what the widths show
 * @property {string} all what the whole is called in the way back
 * @property {Node[]} roots
 * @property {(node: Node) => Node[]} children
 * @property {(node: Node) => Node | null} parent
 * @property {(node: Node) => number} of
 * @property {(node: Node) => number} own
 * @property {(value: number) => string} text
 * @property {(node: Node) => string} title what stands in its rectangle
 * @property {(node: Node) => string} name its whole name
 * @property {(node: Node) => number} color number of its colour, 0 to 7
 * @property {(node: Node, value: number, share: string) => ([string, string] | null)[]} facts told under the pointer
 */

/**
 * A rectangle, in rows and pixels: a node, what it has itself, or one above the node that fills the width.
 * @template Node
 * @typedef {{ node: Node, row: number, x: number, w: number, look: "" | "own" | "above" }} Box
 */

/**
 * Draws into `chart`, with the way back in `steps`. picture: asked for at every drawing, so that it may change. Returns
 * what draws again, and what goes into a node, or out of all with null.
 * @template {object} Node
 * @param {HTMLElement} chart
 * @param {HTMLElement} steps
 * @param {() => Picture<Node>} picture
 */
export function icicle(chart, steps, picture) {
  /** @type {Node | null} The node that fills the width; null for all. */
  let at = null;
  const redraw = drawnToWidth(chart, draw);
  trail();
  return { again, go };

  function again() {
    trail();
    redraw();
  }

  /** @param {Node | null} node */
  function go(node) {
    at = node;
    hideTip();
    again();
  }

  function trail() {
    const shown = picture();
    const whole = pathTo(shown, at);
    const near = whole.slice(-MOST_ABOVE - 1);
    const path = near.flatMap((node) => [
      " › ",
      node === at ? h("b", { text: shown.title(node) }) : actionButton(shown.title(node), () => go(node)),
    ]);
    const all = actionButton(shown.all, () => go(null));
    fill(steps, at ? [all, near.length < whole.length ? " › …" : null, ...path] : []);
  }

  /** @param {number} width */
  function draw(width) {
    const shown = picture();
    const whole = total(at ? [at] : shown.roots, shown.of);
    const boxes = placed(shown, at, width);
    if (!boxes.length) return h("p", { class: "notice", text: "Nothing to draw: the value is 0 in every module." });
    const rows = 1 + boxes.reduce((deepest, box) => Math.max(deepest, box.row), 0);
    return svg(
      "svg",
      { class: "icicle", width, height: rows * ROW, role: "group", "aria-label": shown.label },
      boxes.map((box) => drawn(shown, box, whole)),
    );
  }

  /**
   * @param {Picture<Node>} shown
   * @param {Box<Node>} box
   * @param {number} whole
   */
  function drawn(shown, { node, row, x, w, look }, whole) {
    const value = look === "own" ? shown.own(node) : shown.of(node);
    const share = whole > 0 ? value / whole : 0;
    const text = fitting(look === "own" ? "own" : shown.title(node), look === "above" ? "" : ` · ${percent(share)}`, w);
    const name = shown.name(node);
    const part = look === "above" ? "" : `, ${percent(share)}${at ? ` of ${shown.title(at)}` : ""}`;
    const onlyRoot = !shown.parent(node) && shown.roots.length === 1;
    return answering(
      { class: look, "aria-label": `${name}: ${shown.text(value)}` },
      () => [look === "own" ? `${name}, own` : name, shown.facts(node, value, part)],
      () => go(onlyRoot ? null : at === node ? shown.parent(node) : node),
      svg("rect", { class: `c${shown.color(node)}`, x, y: row * ROW, width: Math.max(w, 1), height: ROW - 2, rx: 2 }),
      text
        ? svg("text", {
            class: `c${shown.color(node)}`,
            x: x + 6,
            y: row * ROW + ROW / 2,
            "dominant-baseline": "central",
            text,
          })
        : null,
    );
  }
}

/**
 * The classes with most of something get a colour each; the rest share the last one. Returns their legend too.
 * @param {Map<string, number>} weight of each class; "" is what has none
 * @param {number[]} colors numbers of the colours that classes get
 * @param {string} outside what has no class is called
 */
export function classColors(weight, colors, outside) {
  const ranked = [...weight]
    .filter(([name]) => name)
    .sort((a, b) => b[1] - a[1])
    .map(([name]) => name);
  /** @type {[name: string, color: number][]} */
  const legend = ranked.slice(0, colors.length).map((name, at) => [name, colors[at]]);
  const known = new Map(legend);
  const left = ranked.length - legend.length;
  const others = left > 0 ? [left === 1 ? "1 other class" : `${left} other classes`] : [];
  if (weight.has("")) others.push(outside);
  if (others.length) legend.push([others.join(", "), 7]);
  return { of: (/** @type {string} */ name) => known.get(name) ?? 7, legend };
}

/** @param {[name: string, color: number][]} legend */
export function legendKeys(legend) {
  return legend.map(([word, color]) => key({ class: `swatch c${color}` }, word));
}

/**
 * A node and all above it, from the root down.
 * @template Node
 * @param {Picture<Node>} picture
 * @param {Node | null} node
 */
function pathTo(picture, node) {
  /** @type {Node[]} */
  const path = [];
  for (let at = node; at; at = picture.parent(at)) path.unshift(at);
  return path;
}

/**
 * @template Node
 * @param {Node[]} nodes
 * @param {(node: Node) => number} value
 */
function total(nodes, value) {
  return nodes.reduce((sum, node) => sum + value(node), 0);
}

/**
 * As much of a name as fits a width: with its part, without it, cut, or nothing. Without a part it is never cut.
 * @param {string} word
 * @param {string} part
 * @param {number} width
 */
function fitting(word, part, width) {
  if (!part) return word;
  const room = width - 10; // 6 before it, 4 after
  if (textWidth(word + part, FONT) <= room) return word + part;
  const shown = fittedText(word, FONT, room);
  return shown === word || shown.length > 4 ? shown : "";
}

/**
 * Where every node stands: what is above `at`, then it (or every root) with all below it.
 * @template Node
 * @param {Picture<Node>} picture
 * @param {Node | null} at
 * @param {number} width
 */
function placed(picture, at, width) {
  const { roots, of, own } = picture;
  const above = at ? pathTo(picture, picture.parent(at)).slice(-MOST_ABOVE) : [];
  /** @type {Box<Node>[]} */
  const boxes = above.map((node, row) => ({ node, row, x: 0, w: width, look: "above" }));
  const first = at ? [at] : roots;
  const whole = total(first, of);
  const scale = width / whole;
  /**
   * @param {Node} node
   * @param {number} x
   * @param {number} row
   */
  const place = (node, x, row) => {
    const w = of(node) * scale;
    if (w < 0.7 || row > above.length + MOST_ROWS) return w;
    boxes.push({ node, row, x, w, look: "" });
    let left = x;
    const children = picture.children(node);
    for (const child of children) left += place(child, left, row + 1);
    const rest = own(node) * scale;
    if (children.length && rest >= 2 && rest < w) boxes.push({ node, row: row + 1, x: left, w: rest, look: "own" });
    return w;
  };
  let x = 0;
  if (whole > 0) for (const node of first) x += place(node, x, above.length);
  return boxes;
}
