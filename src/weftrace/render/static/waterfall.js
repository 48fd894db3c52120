// A waterfall: bars that lie one after the other and add up, each in its class's colour, with words beside it.

import { tickLabel } from "./format.js";
import { drawnToWidth, fittedText, roundTicks, svg, textWidth, svgLine, svgRect, svgText } from "./svg.js";

/**
 * A bar. from_ns, to_ns: where it begins and ends, either way round. role: its colour. saved_ns: the part of it that
 * would be saved alone, from its end on, hatched; null for none.
 * @typedef {object} Bar
 * @property {string} name
 * @property {string} role
 * @property {number} from_ns
 * @property {number} to_ns
 * @property {string} told words beside it
 * @property {number | null} saved_ns
 */

const ROW = 28;
const BAR = 18;
const TOP = 8;
const AXIS = 26;
const NAME = "12.5px";

/**
 * @param {HTMLElement} holder
 * @param {Bar[]} bars
 * @param {string} label what it shows, for readers of the screen
 * @param {number} [begin_ns] where its axis begins; bars that begin there are drawn torn
 */
export function waterfall(holder, bars, label, begin_ns = 0) {
  return drawnToWidth(holder, (width) => draw(bars, label, width, begin_ns));
}

/**
 * @param {Bar[]} bars
 * @param {string} label
 * @param {number} width
 * @param {number} begin_ns
 */
function draw(bars, label, width, begin_ns) {
  const narrow = width < 560;
  const names = bars.map((bar) => fittedText(bar.name, NAME, 0.4 * width));
  const left = 14 + Math.max(0, ...names.map((name) => textWidth(name, NAME)));
  const right = narrow ? 12 : 12 + Math.max(0, ...bars.map((bar) => textWidth(bar.told, "11.5px")));
  const row = narrow ? ROW + 16 : ROW;
  const height = TOP + row * bars.length + AXIS;
  const low = Math.min(begin_ns, ...bars.map((bar) => Math.min(bar.from_ns, bar.to_ns)));
  const high = Math.max(begin_ns + 1, ...bars.map((bar) => Math.max(bar.from_ns, bar.to_ns)));
  /** @param {number} ns */
  const x = (ns) => left + ((ns - low) / (high - low)) * (width - left - right);
  const { step, values } = roundTicks(low, high, Math.max(2, Math.floor((width - left - right) / 110)));
  return svg(
    "svg",
    { class: "chart waterfall", width, height, role: "img", "aria-label": label },
    values.map((value) => [
      svgLine("grid", x(value), TOP, x(value), height - AXIS),
      svgText("tick", x(value), height - 8, tickLabel(value, step, high - low), "middle"),
    ]),
    bars.map((bar, i) =>
      drawBar(bar, names[i], { x, y: TOP + row * i, left, narrow, next: bars[i + 1] ? TOP + row * (i + 1) : 0 }),
    ),
    begin_ns
      ? bars.map((bar, i) =>
          bar.from_ns === begin_ns ? svg("path", { class: "fall-torn", d: tear(left + 12, TOP + row * i) }) : null,
        )
      : [],
  );
}

/**
 * A zigzag across a bar: its beginning is not drawn.
 * @param {number} x
 * @param {number} y
 */
function tear(x, y) {
  const top = y + (ROW - BAR) / 2 - 1;
  const points = [0, 1, 2, 3, 4].map((at) => `${x + (at % 2 ? 4 : -4)} ${top + (at * (BAR + 2)) / 4}`);
  return `M${points.join("L")}`;
}

/**
 * @param {Bar} bar
 * @param {string} name as much of it as fits
 * @param {{ x: (ns: number) => number, y: number, left: number, narrow: boolean, next: number }} place
 */
function drawBar(bar, name, { x, y, left, narrow, next }) {
  const [from, to] = [Math.min(bar.from_ns, bar.to_ns), Math.max(bar.from_ns, bar.to_ns)];
  const top = y + (ROW - BAR) / 2;
  const middle = top + BAR / 2;
  const ends = x(bar.to_ns);
  const saved = bar.saved_ns ? Math.min(Math.abs(bar.saved_ns), to - from) : 0;
  return [
    svg(
      "text",
      { x: left - 10, y: middle, "text-anchor": "end", "dominant-baseline": "central", text: name },
      name === bar.name ? null : svg("title", { text: bar.name }),
    ),
    svg("rect", {
      class: `fall ${bar.role}`,
      x: x(from),
      y: top,
      width: x(to) - x(from),
      height: BAR,
      data: { ns: to - from },
    }),
    saved ? svgRect("fall-saved", x(to - saved), top + 3, x(to) - x(to - saved), BAR - 6) : null,
    next ? svgLine("fall-on", ends, top + BAR, ends, next + (ROW - BAR) / 2) : null,
    narrow
      ? svgText("fall-told", left, y + ROW + 6, bar.told)
      : svg("text", { class: "fall-told", x: x(to) + 8, y: middle, "dominant-baseline": "central", text: bar.told }),
  ];
}
