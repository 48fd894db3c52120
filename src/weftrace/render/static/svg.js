// Small charts as SVG: elements, round ticks, redrawing when the width changes, and a column under the pointer or the keys.

import { fill } from "./dom.js";
import { hideTip, showTip } from "./tooltip.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

/** An SVG element; `text`, `data` and `on` as in dom.js, every other property is an attribute. Colours come from classes. */
export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "on")
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Fills `holder` with draw(width) now and whenever its width changes. Returns a function that draws again. */
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

/** About `count` round values from low to high: {step, values}. */
export function roundTicks(low, high, count = 5) {
  const rough = (high - low) / Math.max(1, count) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const values = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) values.push(n * step);
  return { step, values };
}

/** The smallest of 1, 2, 5, 10, 20 … that is not below `least`: a step of ticks on an axis that counts. */
export function wholeStep(least) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least * 0.999);
}

/** Digits after the point that tell the ticks of a step apart. */
export function digitsFor(step) {
  return Math.max(
    0,
    Math.min(
      6,
      Math.ceil(-Math.log10(step) - 1e-9) + (/^2\.?5/.test(String(step / 10 ** Math.floor(Math.log10(step)))) ? 1 : 0),
    ),
  );
}

/** Every how manyth of `count` labels, `space` pixels apart, can be written where each takes `needed`: 1, 2, 4, 8 … */
export function labelEvery(count, space, needed) {
  for (const step of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) if (space * step >= needed) return step;
  return count;
}

/** Horizontal grid lines with their values at the left. */
export function grid({ values, y, left, right, text, unit = "" }) {
  return values.map((value) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: Math.round(y(value)) + 0.5, y2: Math.round(y(value)) + 0.5 }),
    svg("text", {
      class: "tick",
      x: left - 6,
      y: y(value),
      "text-anchor": "end",
      "dominant-baseline": "central",
      text: `${text(value)}${unit}`,
    }),
  ]);
}

/**
 * Makes a chart of columns answer: pointing at it (or the arrow keys) chooses a column, marks it, and shows tip(i), a list
 * of nodes; clicking it (or Enter) calls onPick(i). chart: the <svg>; mark: an SVG element moved to [from(i), to(i)).
 */
export function columnPicker(chart, { count, indexAt, from, to, mark, tip, onPick }) {
  let current = -1;
  const set = (index, x, y) => {
    current = Math.max(0, Math.min(count - 1, index));
    mark.setAttribute("x", from(current));
    mark.setAttribute("width", Math.max(1, to(current) - from(current)));
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
