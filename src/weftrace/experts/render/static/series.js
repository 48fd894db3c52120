// How did it go, window by window? Balancedness of the chosen rows, their means with bands at the right; below, what
// moved.

import { smallPercent } from "render/format.js";
import { byId, fill, h } from "render/dom.js";
import {
  columnPicker,
  digitsFor,
  drawnToWidth,
  evenColumns,
  grid,
  roundTicks,
  svg,
  wholeStep,
  svgChart,
  pathOver,
  svgRect,
  svgText,
} from "render/svg.js";
import { balance } from "./words.js";
import { key } from "render/legends.js";
import { defined, tipRows } from "render/tooltip.js";

/**
 * @typedef {import("./replay_model.js").ReplayModel} ReplayModel
 * @typedef {(value: number) => number} Scale
 */

const LEFT = 50;
const TOP = 10;
const BOTTOM = 22;
const HEIGHT = 330;
const MOVED_HEIGHT = 150;
const MEAN_STEP = 20;
const MEAN_GAP = 18; // pixels: room for one mean and its band, and before the first

/**
 * The picture over time. shown: set of row numbers, changed by others. Returns a function that draws again.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 */
export function timeChart(model, shown) {
  return drawnToWidth(byId("series-chart"), (width) => {
    fill(byId("series-legend"), rowKeys(model, shown));
    return lines(model, ordered(model, shown), width);
  });
}

/**
 * What each re-plan moved, on the same time axis.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 */
export function movedChart(model, shown) {
  return drawnToWidth(byId("moved-chart"), (width) => moved(model, ordered(model, shown), width));
}

/**
 * The recommended row is drawn last: on top.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 */
function ordered(model, shown) {
  /** @param {number} row */
  const importance = (row) => {
    const at = model.parts.findIndex((part) => part.row === row);
    return at < 0 ? 99 : at;
  };
  return [...shown].filter((row) => model.seriesOf(row)).sort((a, b) => importance(b) - importance(a));
}

/**
 * A key for each row that has a colour of its own.
 * @param {ReplayModel} model
 * @param {Set<number>} shown
 */
export function rowKeys(model, shown) {
  return ordered(model, shown)
    .reverse()
    .map((row) => {
      const part = model.partOf(row);
      const word = part ? defined(part.definition, part.word) : null;
      return key({ class: `line-key look-${model.look(row)}` }, word, h("span", { text: model.name(row) }));
    });
}

/**
 * The axis of windows, the same in both pictures: how wide it and a window are, where a window's middle is, its column.
 * @param {ReplayModel} model
 * @param {number[]} rows
 * @param {number} width
 */
function windows(model, rows, width) {
  const count = model.document.num_windows;
  const wide = width - LEFT - MEAN_GAP - MEAN_STEP * Math.max(1, rows.length) - 6;
  const cell = wide / count;
  const columns = evenColumns(count, LEFT, cell);
  /** @type {Scale} */
  const x = (at) => LEFT + (at + 0.5) * cell;
  return { count, wide, cell, x, columns };
}

/**
 * @param {ReplayModel} model
 * @param {number[]} rows
 * @param {number} width
 */
function lines(model, rows, width) {
  const { count, wide, cell, x, columns } = windows(model, rows, width);
  const series = rows.map((row) => ({ row, values: model.seriesOf(row)?.balancedness ?? [] }));
  const scored = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const least = Math.max(0, Math.min(1, ...scored, ...rows.map((row) => model.rows[row].low)));
  const low = Math.floor((least - 0.005) * 50) / 50;
  const ticks = roundTicks(low, 1, 6);
  /** @param {number} value */
  const y = (value) => TOP + ((1 - value) / (1 - low)) * (HEIGHT - TOP - BOTTOM);
  const mark = svgRect("column", 0, TOP, 1, HEIGHT - TOP - BOTTOM);
  const drawn = svgChart(width, HEIGHT, "Balancedness by window; arrow keys move", [
    grid({ ...ticks, y, left: LEFT, right: LEFT + wide, least: 2 }),
    mark,
    series.map(({ row, values }) => {
      const points = values.map(
        (value, at) => /** @type {[number, number] | null} */ (value === null ? null : [x(at), y(value)]),
      );
      return svg("path", { class: `series look-${model.look(row)}`, d: pathOver(points), data: { row } });
    }),
    series.map(({ row, values }) => (cell < 14 ? null : dots(model, row, values, x, y, 2.6))),
    means(model, rows, { y, left: LEFT + wide + MEAN_GAP }),
    timeAxis(count, { cell, x, floor: HEIGHT - BOTTOM }),
    svgText("tick", LEFT + wide + MEAN_GAP - 4, HEIGHT - BOTTOM + 15, rows.length > 1 ? "means" : ""),
  ]);
  const tip = (/** @type {number} */ at) => windowTip(model, `Window ${at}`, series, at, balance, "not scored");
  columnPicker(drawn, { ...columns, mark, tip });
  return drawn;
}

/**
 * What each row has in a window; none: the word for a row without a value.
 * @param {ReplayModel} model
 * @param {string} title
 * @param {{ row: number, values: (number | null)[] }[]} series
 * @param {number} at
 * @param {(value: number) => string} text
 * @param {string} none
 */
function windowTip(model, title, series, at, text, none) {
  const rows = series.map(({ row, values }) => {
    const value = values[at] ?? null;
    return /** @type {[string, string]} */ ([model.wordOf(row), value === null ? none : text(value)]);
  });
  return tipRows(title, null, rows.reverse());
}

/**
 * A dot for each value that there is.
 * @param {ReplayModel} model
 * @param {number} row
 * @param {(number | null)[]} values
 * @param {Scale} x
 * @param {Scale} y
 * @param {number} r
 */
function dots(model, row, values, x, y, r) {
  const look = `dot-of look-${model.look(row)}`;
  return values.map((value, at) => value !== null && svg("circle", { class: look, cx: x(at), cy: y(value), r }));
}

/**
 * Means with their 95 % bands, on the axis of the picture.
 * @param {ReplayModel} model
 * @param {number[]} rows
 * @param {{ y: Scale, left: number }} place
 */
function means(model, rows, { y, left }) {
  return [...rows].reverse().map((row, at) => {
    const { balancedness, low, high } = model.rows[row];
    const x = left + (at + 0.5) * MEAN_STEP - 6;
    const band = `95 % between ${balance(low)} and ${balance(high)}`;
    const words = `${model.wordOf(row)}: mean ${balance(balancedness)}, ${band}`;
    return svg(
      "g",
      { class: `mean-of look-${model.look(row)}` },
      svg("title", { text: words }),
      svg("rect", { x: x - 5, y: y(high), width: 10, height: Math.max(2, y(low) - y(high)) }),
      svg("line", { x1: x - 8, x2: x + 8, y1: y(balancedness), y2: y(balancedness) }),
    );
  });
}

/**
 * @param {ReplayModel} model
 * @param {number[]} rows
 * @param {number} width
 */
function moved(model, rows, width) {
  const { count, wide, cell, x, columns } = windows(model, rows, width);
  const known = rows
    .map((row) => ({ row, values: model.seriesOf(row)?.moved_fraction ?? [] }))
    .filter(({ values }) => values.some((value) => value));
  const most = Math.max(0.01, 1.04 * Math.max(0, ...known.flatMap(({ values }) => values.map((value) => value ?? 0))));
  const ticks = roundTicks(0, most, 3);
  const floor = MOVED_HEIGHT - BOTTOM;
  /** @type {Scale} */
  const y = (value) => TOP + (1 - value / most) * (floor - TOP);
  const mark = svgRect("column", 0, TOP, 1, floor - TOP);
  const radius = Math.max(1.3, Math.min(3, cell * 0.4));
  const drawn = svgChart(width, MOVED_HEIGHT, "Share of the slots moved by each re-plan; arrow keys move", [
    grid({
      values: ticks.values,
      y,
      left: LEFT,
      right: LEFT + wide,
      text: (value) => (100 * value).toFixed(digitsFor(ticks.step * 100)),
      unit: " %",
    }),
    mark,
    known.map(({ row, values }) => dots(model, row, values, x, y, radius)),
    timeAxis(count, { cell, x, floor }),
  ]);
  const tip = (/** @type {number} */ at) =>
    windowTip(model, `Window ${at}: slots moved`, known, at, smallPercent, "no plan");
  columnPicker(drawn, { ...columns, mark, tip });
  return drawn;
}

/**
 * @param {number} count
 * @param {{ cell: number, x: Scale, floor: number }} place
 */
function timeAxis(count, { cell, x, floor }) {
  const every = wholeStep(Math.max(count / Math.max(2, Math.min(12, (cell * count) / 90)), 26 / cell));
  return [
    Array.from({ length: Math.ceil(count / every) }, (_, i) =>
      svgText("tick", x(i * every), floor + 15, String(i * every), "middle"),
    ),
    svgText("tick", LEFT - 6, floor + 15, "window", "end"),
  ];
}
