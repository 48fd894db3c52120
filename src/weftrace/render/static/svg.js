// Small charts as SVG: elements, round ticks, redrawing when the width changes, and a column under the pointer or the
// keys.

import { equip, fill } from "./dom.js";
import { SANS } from "./theme.js";
import { hideTip, showTip, tipPlace, tipRows } from "./tooltip.js";

/**
 * @typedef {import("./dom.js").Child} Child
 * @typedef {import("./dom.js").Properties} Properties
 */

/**
 * What an element is filled with, in lists of lists; false leaves nothing, as null does.
 * @typedef {Child | false | Nodes[]} Nodes
 *
 * Grid lines: where they are, and what is written at them.
 * @typedef {object} Grid
 * @property {number[]} values
 * @property {(value: number) => number} y
 * @property {number} left
 * @property {number} right
 * @property {(value: number) => string} [text]
 * @property {number} [step] between the values
 * @property {number} [least] digits after the point
 * @property {string} [unit]
 *
 * The columns of a chart that answers.
 * @typedef {object} Columns
 * @property {number} count
 * @property {(x: number) => number} indexAt
 * @property {(index: number) => number} from
 * @property {(index: number) => number} to
 * @property {SVGElement} mark moved to the column
 * @property {(index: number) => Child[]} tip
 * @property {(index: number) => void} [onPick]
 */

const NAMESPACE = "http://www.w3.org/2000/svg";
const pencil = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/**
 * How many pixels wide a text is in the font that this browser has.
 * @param {string} text
 * @param {string} look weight and size: "600 12px"
 */
export function textWidth(text, look) {
  pencil.font = `${look} ${SANS}`;
  return pencil.measureText(text).width;
}

/**
 * As much of a text as fits a width: it, or its beginning.
 * @param {string} text
 * @param {string} look as of `textWidth`
 * @param {number} room
 */
export function fittedText(text, look, room) {
  const whole = textWidth(text, look);
  if (whole <= room) return text;
  let kept = Math.max(0, Math.floor((text.length * room) / whole));
  while (kept > 0 && textWidth(`${text.slice(0, kept)}…`, look) > room) kept--;
  return `${text.slice(0, kept)}…`;
}

/**
 * An SVG element; `text`, `data` and `on` as in dom.js, every other property is an attribute. Colours come from
 * classes.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Nodes} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, properties = {}, ...children) {
  const { text, data, on, ...attributes } = properties;
  const element = document.createElementNS(NAMESPACE, tag);
  if (text !== null && text !== undefined) element.textContent = String(text);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, String(typeof value === "number" ? Math.round(value * 100) / 100 : value));
  }
  equip(element, data, on);
  element.append(...present(children));
  return element;
}

/**
 * @param {string} look
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {"start" | "middle" | "end"} [anchor]
 */
export function svgText(look, x, y, text, anchor) {
  return svg("text", { class: look, x, y, "text-anchor": anchor, text });
}

/**
 * @param {string} look
 * @param {number} x1
 * @param {number} y1
 * @param {number} x2
 * @param {number} y2
 */
export function svgLine(look, x1, y1, x2, y2) {
  return svg("line", { class: look, x1, x2, y1, y2 });
}

/**
 * @param {string} look
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
export function svgRect(look, x, y, width, height) {
  return svg("rect", { class: look, x, y, width, height });
}

/**
 * A chart of so many pixels.
 * @param {number} width
 * @param {number} height
 * @param {string} label what it shows, for readers of the screen
 * @param {Nodes[]} parts
 * @param {Properties} [more]
 */
export function svgChart(width, height, label, parts, more = {}) {
  return svg("svg", { class: "chart", width, height, role: "img", "aria-label": label, ...more }, parts);
}

/**
 * A line over points, broken where there is none.
 * @param {([x: number, y: number] | null)[]} points
 */
export function pathOver(points) {
  const steps = points.map(
    (point, i) => point && `${points[i - 1] ? "L" : "M"}${point.map((n) => n.toFixed(1)).join(" ")}`,
  );
  return steps.filter(Boolean).join("");
}

/**
 * Vertical grid lines with their values below.
 * @param {number[]} values
 * @param {(value: number) => number} x
 * @param {number} top
 * @param {number} floor
 * @param {(value: number) => string} text
 * @param {number} [right] beyond it a value would not fit
 */
export function gridAcross(values, x, top, floor, text, right = Number.POSITIVE_INFINITY) {
  return values.map((value) => [
    svgLine("grid", x(value), top, x(value), floor),
    svgText("tick", x(value), floor + 15, text(value), x(value) > right ? "end" : "middle"),
  ]);
}

/**
 * A shape that tells what it is to the pointer and to the focus, and answers to a click, or Enter, where it can.
 * @param {Properties} properties
 * @param {(event: Event) => [string, (import("./tooltip.js").TipRow | null)[]]} told its title, and what it says
 * @param {(() => void) | null} act
 * @param {...Nodes} children
 */
export function answering(properties, told, act, ...children) {
  /** @param {Event} event */
  const tell = (event) => {
    const box = g.getBoundingClientRect();
    const [title, rows] = told(event);
    showTip(...tipPlace(event, box.right, box.top), ...tipRows(title, null, rows));
  };
  const on = {
    pointermove: tell,
    pointerleave: hideTip,
    focus: tell,
    blur: hideTip,
    click: () => act?.(),
    /** @param {KeyboardEvent} event */
    keydown: (event) => {
      if (event.key === "Enter") act?.();
    },
  };
  const g = svg("g", { tabindex: "0", role: act ? "button" : "img", ...properties, on }, ...children);
  return g;
}

/**
 * @param {Nodes[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  return children.flatMap((child) => {
    if (Array.isArray(child)) return present(child);
    return child === null || child === undefined || child === false ? [] : [child];
  });
}

/**
 * Fills `holder` with draw(width) now and whenever its width changes. Returns a function that draws again.
 * @param {HTMLElement} holder
 * @param {(width: number) => Element} draw
 */
export function drawnToWidth(holder, draw) {
  let width = 0;
  const again = () => {
    width = holder.clientWidth;
    if (width > 0) fill(holder, draw(width));
  };
  new ResizeObserver(() => {
    if (holder.clientWidth !== width) again();
  }).observe(holder);
  again();
  return again;
}

/**
 * About `count` round values from low to high: {step, values}.
 * @param {number} low
 * @param {number} high
 * @param {number} [count]
 */
export function roundTicks(low, high, count = 5) {
  const rough = (high - low) / Math.max(1, count) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  /** @type {number[]} */
  const values = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) values.push(n * step);
  return { step, values };
}

/**
 * The smallest of 1, 2, 5, 10, 20 … that is not below `least`: a step of ticks on an axis that counts.
 * @param {number} least
 */
export function wholeStep(least) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least * 0.999) ?? 10 * power;
}

/**
 * Digits after the point that tell the ticks of a step apart.
 * @param {number} step
 */
export function digitsFor(step) {
  return Math.max(
    0,
    Math.min(
      6,
      Math.ceil(-Math.log10(step) - 1e-9) + (/^2\.?5/.test(String(step / 10 ** Math.floor(Math.log10(step)))) ? 1 : 0),
    ),
  );
}

/**
 * Every how manyth of `count` labels, `space` pixels apart, can be written where each takes `needed`: 1, 2, 4, 8 …
 * @param {number} count
 * @param {number} space
 * @param {number} needed
 */
export function labelEvery(count, space, needed) {
  for (const step of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) if (space * step >= needed) return step;
  return count;
}

/**
 * Horizontal grid lines with their values at the left, of so many digits as tell them apart.
 * @param {Grid} lines
 */
export function grid({ values, step = 1, least = 0, y, left, right, text, unit = "" }) {
  const digits = Math.max(least, digitsFor(step));
  return values.map((value) => {
    const at = { class: "tick", x: left - 6, y: y(value), "text-anchor": "end", "dominant-baseline": "central" };
    return [
      svgLine("grid", left, Math.round(y(value)) + 0.5, right, Math.round(y(value)) + 0.5),
      svg("text", { ...at, text: `${text ? text(value) : value.toFixed(digits)}${unit}` }),
    ];
  });
}

/**
 * The names of as many columns as have room, and what they are.
 * @param {{ count: number, cell: number, x: (at: number) => number, floor: number, left: number }} place
 * @param {string} what
 * @param {(at: number) => string | number} [name]
 */
export function columnNames({ count, cell, x, floor, left }, what, name = String) {
  const every = labelEvery(count, cell, 26);
  const shown = Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
  return [
    shown.map((at) => svgText("tick", x(at) + cell / 2, floor + 15, String(name(at)), "middle")),
    svgText("tick", left - 6, floor + 15, what, "end"),
  ];
}

/**
 * Where columns of one width are, from `left` on: what `columnPicker` asks for.
 * @param {number} count
 * @param {number} left
 * @param {number} cell
 */
export function evenColumns(count, left, cell) {
  return {
    count,
    indexAt: (/** @type {number} */ at) => Math.floor((at - left) / cell),
    from: (/** @type {number} */ at) => left + at * cell,
    to: (/** @type {number} */ at) => left + (at + 1) * cell,
  };
}

/**
 * How thick the bar of a column is, and how far from its column's edge.
 * @param {number} cell
 * @param {number} most
 */
export function barIn(cell, most) {
  const thick = Math.max(0.7, Math.min(cell - (cell > 4 ? 2 : 0.4), most));
  return { thick, inset: (cell - thick) / 2 };
}

/**
 * Makes a chart of columns answer: pointing at it (or the arrow keys) chooses a column, marks it, and shows tip(i), a
 * list of nodes; clicking it (or Enter) calls onPick(i). chart: the <svg>; mark: an SVG element moved to [from(i),
 * to(i)).
 * @param {SVGElement} chart
 * @param {Columns} columns
 */
export function columnPicker(chart, { count, indexAt, from, to, mark, tip, onPick }) {
  let current = -1;
  /**
   * @param {number} index
   * @param {number} [x]
   * @param {number} [y]
   */
  const set = (index, x, y) => {
    current = Math.max(0, Math.min(count - 1, index));
    mark.setAttribute("x", String(from(current)));
    mark.setAttribute("width", String(Math.max(1, to(current) - from(current))));
    mark.classList.add("on");
    const box = chart.getBoundingClientRect();
    showTip(x ?? box.left + to(current), y ?? box.top + 30, ...tip(current));
  };
  const leave = () => {
    mark.classList.remove("on");
    hideTip();
  };
  chart.setAttribute("tabindex", "0");
  chart.addEventListener("pointermove", (event) =>
    set(indexAt(event.clientX - chart.getBoundingClientRect().left), event.clientX, event.clientY),
  );
  chart.addEventListener("pointerleave", leave);
  chart.addEventListener("blur", leave);
  chart.addEventListener("click", () => {
    if (current >= 0) onPick?.(current);
  });
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    if (step) {
      set(current + step);
      event.preventDefault();
    } else if (event.key === "Enter" && current >= 0) onPick?.(current);
  });
}
