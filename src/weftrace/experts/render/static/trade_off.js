// What does balance cost in moved weights? Every row as a point: the best ones lie up and to the left.

import { byId, fill } from "render/dom.js";
import { percent, smallPercent } from "render/format.js";
import {
  digitsFor,
  drawnToWidth,
  grid,
  roundTicks,
  svg,
  answering,
  gridAcross,
  pathOver,
  svgText,
  svgChart,
} from "render/svg.js";
import { rowKeys } from "./series.js";
import { balance } from "./words.js";
import { key } from "render/legends.js";

/**
 * @typedef {import("./replay_model.js").ReplayModel} ReplayModel
 * @typedef {(value: number) => number} Scale
 */

const LEFT = 56;
const RIGHT = 18;
const TOP = 12;
const BOTTOM = 38;
const HEIGHT = 330;

/**
 * Returns a function that draws again. onRow(row): a point was chosen.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
export function tradeOff(model, shown, onRow) {
  const plain = key({ class: "line-key look-plain" }, "every other row");
  return drawnToWidth(byId("trade-chart"), (width) => {
    const named = new Set([...shown, ...model.parts.map((part) => part.row)]);
    fill(byId("trade-legend"), rowKeys(model, named), plain);
    const most = Math.max(0.02, ...model.rows.map((row) => moves(row))) * 1.04;
    const low = Math.floor(50 * Math.min(...model.rows.map((row) => row.low)) - 0.2) / 50;
    /** @param {number} value */
    const x = (value) => LEFT + (value / most) * (width - LEFT - RIGHT);
    /** @param {number} value */
    const y = (value) => TOP + ((1 - value) / (1 - low)) * (HEIGHT - TOP - BOTTOM);
    const across = roundTicks(0, most, Math.min(8, width / 90));
    const up = roundTicks(low, 1, 6);
    const order = model.rows.map((_, row) => row).sort((a, b) => rank(a) - rank(b));
    return svgChart(
      width,
      HEIGHT,
      "Balancedness against slots moved a window, a point for each row",
      [
        grid({ ...up, y, left: LEFT, right: width - RIGHT, least: 2 }),
        gridAcross(across.values, x, TOP, HEIGHT - BOTTOM, (value) => percent(value, digitsFor(100 * across.step))),
        svgText("tick", width - RIGHT, HEIGHT - 6, "slots moved a window →", "end"),
        svg("path", {
          class: "frontier",
          d: pathOver(frontier(model).map((row) => [x(moves(row)), y(row.balancedness)])),
        }),
        order.map((row) => point(model, row, { x, y, width, on: shown.has(row) }, onRow)),
      ],
      { role: "group" },
    );
  });

  /** @param {number} row */
  function rank(row) {
    const at = model.parts.findIndex((part) => part.row === row);
    return at < 0 ? (shown.has(row) ? 0 : -1) : 10 - at;
  }
}

/**
 * Slots moved in a window on average: a re-plan's share, spread over the windows until the next.
 * @param {page.ReplayRow} row
 */
export function moves(row) {
  return row.interval === null ? 0 : row.moved_fraction / row.interval;
}

/**
 * @param {ReplayModel} model
 * @param {number} row
 * @param {{ x: Scale, y: Scale, width: number, on: boolean }} place
 * @param {(row: number) => void} onRow
 */
function point(model, row, { x, y, width, on }, onRow) {
  const entry = model.rows[row];
  const cx = x(moves(entry));
  const cy = y(entry.balancedness);
  const part = model.partOf(row);
  const dot = answering(
    {
      class: `point look-${part || on ? model.look(row) : "plain"} ${on ? "on" : ""}`,
      "aria-pressed": String(on),
      "aria-label": `${model.name(row)}: ${balance(entry.balancedness)}`,
      data: { point: row },
    },
    () => [
      model.name(row),
      [
        part ? ["part", part.word] : null,
        ["balancedness", `${balance(entry.balancedness)} (${balance(entry.low)} to ${balance(entry.high)})`],
        ["moved a re-plan", smallPercent(entry.moved_fraction)],
        ["moved a window", smallPercent(moves(entry))],
      ],
    ],
    () => onRow(row),
    svg("line", { x1: cx, x2: cx, y1: y(entry.low), y2: y(entry.high) }),
    svg("circle", { cx, cy, r: part ? 6.5 : 4.5 }),
  );
  if (!part) return dot;
  const left = cx > 0.7 * width;
  return [dot, svgText("point-word", cx + (left ? -11 : 11), cy + 4, part.word, left ? "end" : "start")];
}

/**
 * The rows that no other beats in both: from few moves to many. The ceiling is no choice.
 * @param {ReplayModel} model
 */
function frontier(model) {
  const rows = model.rows.filter((_, at) => at !== model.ceiling);
  rows.sort((a, b) => moves(a) - moves(b) || b.balancedness - a.balancedness);
  return rows.filter((row, at) => rows.slice(0, at).every((other) => other.balancedness < row.balancedness));
}
