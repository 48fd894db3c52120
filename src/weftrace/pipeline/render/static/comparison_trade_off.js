// Which schedule gives most for its memory? Each as a point: the best lie down and to the left.

import { grouped, tickLabel } from "render/format.js";
import {
  answering,
  drawnToWidth,
  fittedText,
  grid,
  gridAcross,
  pathOver,
  roundTicks,
  svg,
  svgLine,
  svgText,
  svgChart,
  textWidth,
} from "render/svg.js";
import { timeText } from "./schedule_text.js";

const LEFT = 46;
const RIGHT = 24;
const TOP = 14;
const BOTTOM = 38;
const HEIGHT = 340;
const LINE = 14;
const DESCENT = 3; // below a line of text
const AWAY = 11; // from a point to its name
const FONT = "12.5px";
const RADIUS = 6; // of a point
const FARTHER = [1, 2, 3, 4, 5, 6]; // lines, where a name has no room beside its point

/** @typedef {{ left: number, right: number, top: number, bottom: number }} Box */
/** @typedef {{ x: (value: number) => number, y: (value: number) => number, width: number }} Place */

/**
 * Draws the points into an element; returns a function that draws again. onRow(row): a point was chosen.
 * @param {HTMLElement} holder
 * @param {page.Comparison} block
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
export function tradeOff(holder, block, shown, onRow) {
  if (!block.rows.length) {
    holder.textContent = "No schedule is possible here.";
    return () => {};
  }
  const times = block.rows.map((row) => timeOf(block, row));
  const held = block.rows.map((row) => row.peak_activations);
  const [low, high] = [Math.min(...times), Math.max(...times)];
  const margin = (high - low || high || 1) * 0.06;
  const cap = block.memory_cap;
  const isCapDrawn = cap !== null && cap <= 2 * Math.max(...held); // far above the points it would press them together
  const most = Math.max(...held, isCapDrawn ? cap : 0) * 1.08;
  return drawnToWidth(holder, (width) => {
    /** @param {number} value */
    const x = (value) => LEFT + ((value - low + margin) / (high - low + 2 * margin)) * (width - LEFT - RIGHT);
    /** @param {number} value */
    const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
    const floor = HEIGHT - BOTTOM;
    const words = `step${block.equal === "devices" ? "" : " x devices"}${block.unit_ns ? ", in units" : ""} →`;
    const capText = cap === null ? "" : `room for ${grouped(cap)}${isCapDrawn ? "" : ", above this picture"}`;
    const capY = isCapDrawn ? y(cap) : TOP + LINE;
    /** @type {Box[]} */
    const capBox = capText
      ? [{ left: width - RIGHT - textWidth(capText, FONT), right: width - RIGHT, top: capY - LINE - 4, bottom: capY }]
      : [];
    const up = roundTicks(0, most, 6);
    const across = roundTicks(low - margin, high + margin, Math.min(8, width / 90));
    /** @param {number} value */
    const tick = (value) =>
      block.unit_ns ? timeText(block, value) : tickLabel(value, across.step, high - low + 2 * margin);
    return svgChart(
      width,
      HEIGHT,
      "Time against memory, a point a schedule",
      [
        grid({ ...up, y, left: LEFT, right: width - RIGHT }),
        gridAcross(across.values, x, TOP, floor, tick, width - 60),
        svgText("tick", width - RIGHT, HEIGHT - 6, words, "end"),
        svgText("tick", 2, TOP - 3, "activations held at most ↑"),
        isCapDrawn ? svgLine("cap", LEFT, capY, width - RIGHT, capY) : null,
        capText ? svgText("tick", width - RIGHT, capY - 4, capText, "end") : null,
        svg("path", { class: "frontier", d: pathOver(steps(block.front.map((at) => [x(times[at]), y(held[at])]))) }),
        points(block, { x, y, width }, capBox, shown, onRow),
      ],
      { role: "group" },
    );
  });
}

/**
 * The front as stairs: with less memory than a point has, the step is as long as that of the next.
 * @param {[number, number][]} front
 * @returns {[number, number][]}
 */
function steps(front) {
  return front.flatMap(([x, y], at) =>
    at
      ? [
          [x, front[at - 1][1]],
          [x, y],
        ]
      : [[x, y]],
  );
}

/**
 * How long a step is; of schedules on different numbers of devices, what it takes of all of them.
 * @param {page.Comparison} block
 * @param {page.Comparison["rows"][number]} row
 */
function timeOf(block, row) {
  return block.equal === "devices" ? row.step_ns : row.step_ns * row.num_devices;
}

/**
 * The points, those that share a place as one, and their names beside them. written: where no name may lie.
 * @param {page.Comparison} block
 * @param {Place} place
 * @param {Box[]} written
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
function points(block, { x, y, width }, written, shown, onRow) {
  /** @type {Map<string, number[]>} */
  const spots = new Map();
  block.rows.forEach((row, at) => {
    const key = `${Math.round(x(timeOf(block, row)))} ${Math.round(y(row.peak_activations))}`;
    spots.set(key, [...(spots.get(key) ?? []), at]);
  });
  /** Those that are drawn or on the front lie over others. @param {number[]} rows */
  const weight = (rows) => Math.max(...rows.map((at) => 2 * Number(shown.has(at)) + Number(block.front.includes(at))));
  const found = [...spots.values()]
    .sort((a, b) => weight(a) - weight(b))
    .map((rows) => {
      const first = block.rows[rows[0]];
      return { rows, cx: x(timeOf(block, first)), cy: y(first.peak_activations) };
    });
  /** What no name may lie over: the points, and the names before it. @type {Box[]} */
  const taken = found.map(({ cx, cy }) => ({ left: cx - 8, right: cx + 8, top: cy - 8, bottom: cy + 8 }));
  taken.push(...written);
  return found.map(({ rows, cx, cy }) => {
    const text = rows.map((at) => block.rows[at].title).join(", ");
    const point = dot(block, rows, cx, cy, text, shown, onRow);
    const words = rows.filter((at) => isNamed(block, at, shown)).map((at) => wordOf(block.rows[at]));
    if (!words.length) return [point];
    const shownText = fittedText(words.join(", "), FONT, width - LEFT);
    const box = freeBox(cx, cy, textWidth(shownText, FONT), width, taken);
    taken.push(box);
    const down = box.top > cy;
    const end = down ? box.top : box.bottom;
    return [
      point,
      Math.abs(end - cy) > LINE ? svgLine("leader", cx, cy + (down ? RADIUS : -RADIUS), cx, end) : null,
      svgText("point-word", box.left, box.bottom - DESCENT, shownText, "start"),
    ];
  });
}

/**
 * Whether a point has its name beside it: of schedules with other numbers of stages per device than their usual one,
 * those on the front and those that are drawn.
 * @param {page.Comparison} block
 * @param {number} at
 * @param {Set<number>} shown
 */
function isNamed(block, at, shown) {
  return !isVariant(block.rows[at]) || block.front.includes(at) || shown.has(at);
}

/**
 * What stands at a point: the title, or the shorter name of one with a number of stages per device.
 * @param {page.Comparison["rows"][number]} row
 */
function wordOf(row) {
  return isVariant(row) ? row.name : row.title;
}

/** @param {page.Comparison["rows"][number]} row */
function isVariant(row) {
  return row.name.includes(":");
}

/**
 * Where a name stands at its point: right of it, left, below or above, the first that lies over nothing else; where
 * none is free near it, some lines below or above, at the end of a line; else where it lies over least. A name below
 * or above is moved aside as far as the chart's edge asks.
 * @param {number} cx
 * @param {number} cy
 * @param {number} wide
 * @param {number} width of the chart
 * @param {Box[]} taken
 * @returns {Box}
 */
function freeBox(cx, cy, wide, width, taken) {
  const middle = Math.max(LEFT, Math.min(cx - wide / 2, width - wide));
  const places = [
    [cx + AWAY, cy - LINE / 2],
    [cx - AWAY - wide, cy - LINE / 2],
    [middle, cy + AWAY - 2],
    [middle, cy - AWAY - LINE + 2],
    ...[-1, 1].flatMap((side) => [cx + 6, cx - 6 - wide].map((left) => [left, cy + side * LINE - LINE / 2])),
    ...FARTHER.flatMap((lines) => [1, -1].map((side) => [middle, cy + side * (lines * LINE + AWAY) - LINE / 2])),
  ];
  const boxes = places
    .map(([left, top]) => ({ left, right: left + wide, top, bottom: top + LINE }))
    .filter(
      ({ left, right, top, bottom }) => left >= LEFT && right <= width + 0.5 && top >= 0 && bottom <= HEIGHT - BOTTOM,
    );
  /** @param {Box} box */
  const over = (box) => taken.reduce((sum, other) => sum + shared(box, other), 0);
  return boxes.reduce((best, box) => (over(box) < over(best) ? box : best));
}

/**
 * The area that two boxes share.
 * @param {Box} a
 * @param {Box} b
 */
function shared(a, b) {
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return Math.max(0, across) * Math.max(0, down);
}

/**
 * @param {page.Comparison} block
 * @param {number[]} rows
 * @param {number} cx
 * @param {number} cy
 * @param {string} name
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
function dot(block, rows, cx, cy, name, shown, onRow) {
  const row = block.rows[rows[0]];
  const on = rows.some((at) => shown.has(at));
  return answering(
    {
      class: `point ${on ? "on" : ""} ${row.fits ? "" : "over"}`,
      "aria-pressed": String(on),
      "aria-label": `${name}: step ${timeText(block, row.step_ns)}, ${row.peak_activations} activations`,
      data: { row: rows[0] },
    },
    () => [
      name,
      [
        ["step", timeText(block, row.step_ns)],
        ["bubble", timeText(block, row.bubble_ns)],
        ["activations", String(row.peak_activations)],
        ["devices", String(row.num_devices)],
      ],
    ],
    () => rows.forEach(onRow),
    svg("circle", { cx, cy, r: RADIUS }),
  );
}
