// Bars of shares, a line each: a name, a bar from zero to either side, and the number. And all of many, sorted, as one
// row of columns.

import { actionButton, h } from "./dom.js";
import { percent, plural, signed } from "./format.js";
import {
  barIn,
  columnPicker,
  digitsFor,
  drawnToWidth,
  evenColumns,
  roundTicks,
  svg,
  svgChart,
  svgLine,
  svgRect,
  svgText,
  textWidth,
} from "./svg.js";
import { tipRows } from "./tooltip.js";

/**
 * @typedef {object} ShareBar
 * @property {string} name
 * @property {number} value
 * @property {boolean} [isBound] it is at most so much
 * @property {string} note what stands beside it
 * @property {string} title
 * @property {(() => void) | null} [onPick]
 */

const HIGH = 92; // of all of many, pixels
const TOP = 6;
const FOOT = 18;
const LEAST = 0.0001; // of the scale, where all are nothing

/**
 * Bars, each on a line of its own, on one scale; the order is theirs.
 * @param {string} name of what they are, for tests
 * @param {ShareBar[]} bars
 */
export function shareBars(name, bars) {
  const low = Math.min(0, ...bars.map(({ value }) => value));
  const high = Math.max(LEAST, ...bars.map(({ value }) => value));
  /** @param {number} value */
  const place = (value) => (100 * (value - low)) / (high - low);
  return h(
    "div",
    { class: "share-bars", data: { bars: name } },
    bars.map(({ name: of, value, isBound, note, title, onPick }) =>
      h(
        "div",
        { class: "share-bar", title, data: { value } },
        onPick
          ? actionButton(of, onPick, { class: "link share-name", title: of })
          : h("span", { class: "share-name", text: of, title: of }),
        h(
          "span",
          { class: "share-room" },
          h("i", {
            class: `share-fill ${value < 0 ? "less" : ""} ${isBound ? "at-most" : ""}`,
            style: {
              left: `${place(Math.min(0, value))}%`,
              width: `${place(Math.max(0, value)) - place(Math.min(0, value))}%`,
            },
          }),
          h("i", { class: "share-zero", style: { left: `${place(0)}%` } }),
        ),
        h("b", { class: "share-value", text: `${isBound ? "≤ " : ""}${signed(value)}` }),
        h("span", { class: "share-note muted", text: note, title: note }),
      ),
    ),
  );
}

/**
 * All of many as columns, the largest first. Where there are more than pixels, several share a column, which shows the
 * largest of them.
 * @param {HTMLElement} holder
 * @param {ShareBar[]} bars the largest first
 * @param {string} what they are: "rank"
 */
export function sortedColumns(holder, bars, what) {
  drawnToWidth(holder, (width) => {
    const { step, values } = roundTicks(0, Math.max(LEAST, bars[0].value), 3);
    const digits = Math.max(0, digitsFor(step) - 2);
    const left = 12 + Math.max(...values.map((value) => textWidth(percent(value, digits), "11.5px")));
    const per = Math.ceil(bars.length / Math.max(1, width - left));
    const number = Math.ceil(bars.length / per);
    const cell = Math.min(28, (width - left) / number);
    const top = Math.max(bars[0].value, values.at(-1) ?? 0, LEAST);
    /** @param {number} value */
    const y = (value) => TOP + HIGH * (1 - Math.max(0, value) / top);
    const { thick, inset } = barIn(cell, 24);
    const mark = svgRect("column", left, TOP, cell, HIGH);
    const right = left + number * cell;
    const shared = per > 1 ? `, ${per} per column` : "";
    const chart = svgChart(width, TOP + HIGH + FOOT, `${plural(bars.length, what)}, the largest first`, [
      values.map((value) => [
        svgLine("grid", left, y(value), right, y(value)),
        svg("text", {
          class: "tick",
          x: left - 6,
          y: y(value),
          "text-anchor": "end",
          "dominant-baseline": "central",
          text: percent(value, digits),
        }),
      ]),
      mark,
      Array.from({ length: number }, (_, at) => {
        const { value, isBound } = bars[at * per];
        return svgRect(
          `share-column ${isBound ? "at-most" : ""}`,
          left + at * cell + inset,
          y(value),
          thick,
          Math.max(0, y(0) - y(value)),
        );
      }),
      svgText("tick", left, TOP + HIGH + 13, `all ${plural(bars.length, what)}, the largest first${shared}`, "start"),
    ]);
    columnPicker(chart, {
      ...evenColumns(number, left, cell),
      mark,
      tip: (at) => {
        const { name, value, isBound, note } = bars[at * per];
        return tipRows(name, null, [
          ["alone adds", `${isBound ? "at most " : ""}${signed(value, 2)}`],
          ["", note],
          per > 1 ? ["", `the largest of ${plural(Math.min(per, bars.length - at * per), what)}`] : null,
        ]);
      },
      onPick: (at) => bars[at * per].onPick?.(),
    });
    return chart;
  });
}
