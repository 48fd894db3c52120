// Curves over a number, or bars over words: each value stands for a simulation, and lines only lead the eye.

import { percent } from "./format.js";
import {
  columnPicker,
  digitsFor,
  drawnToWidth,
  grid,
  roundTicks,
  svg,
  svgChart,
  svgLine,
  svgRect,
  svgText,
} from "./svg.js";
import { tipRows } from "./tooltip.js";

const TOP = 26;
const BOTTOM = 40;
const LEFT = 58;
const HEIGHT = 320;
const NAME = 7.2; // pixels of a letter of a curve's name
const LINE = 15;
const NUM_COLOURS = 6;
const MANY = 12; // more places than this are not all labelled

/**
 * Curves over the same places. xs: numbers, on a scale of their logarithms where they reach far; null where places are
 * words. base: the curve that the others are held against, drawn dashed.
 * @typedef {{ name: string, values: (number | null)[], base?: boolean, from?: number }} Curve
 *
 * @typedef {object} Chart
 * @property {number[] | null} xs
 * @property {string[]} labels of the places, as they are told
 * @property {Curve[]} curves
 * @property {string} across what the places are
 * @property {string} up what the values are
 * @property {(value: number) => string} text of a value
 * @property {(value: number, step: number) => string} [tick] of a value at a grid line; text unless given
 * @property {boolean} [fromZero]
 * @property {boolean} [joined] whether a line passes over places at which its curve has no value
 */

/**
 * Draws a chart into an element and again where its width changes.
 * @param {HTMLElement} holder
 * @param {Chart} chart
 */
export function curves(holder, chart) {
  return drawnToWidth(holder, (width) => draw(chart, width));
}

/**
 * A part as per cent, with the digits that tell grid lines apart.
 * @param {number} value
 * @param {number} step
 */
export function percentTick(value, step) {
  return percent(value, digitsFor(100 * step));
}

/**
 * @param {Chart} chart
 * @param {number} width
 */
function draw(chart, width) {
  const longest = Math.max(...chart.curves.map(({ name }) => name.length), 0);
  const right = Math.min(longest * NAME + 16, width * 0.34);
  const places = placesOf(chart, LEFT + 8, Math.max(LEFT + 40, width - right));
  const values = chart.curves.flatMap((curve) => curve.values.filter((value) => value !== null));
  const [low, high] = [Math.min(...values, chart.fromZero ? 0 : Infinity), Math.max(...values, 0)];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  const [from, to] = [low === 0 ? 0 : low - room, high + room];
  /** @param {number} value */
  const y = (value) => TOP + (1 - (value - from) / (to - from)) * (HEIGHT - TOP - BOTTOM);
  const ticks = roundTicks(from, to, 5);
  const mark = svgRect("column", 0, TOP, 1, HEIGHT - TOP - BOTTOM);
  const element = svgChart(
    width,
    HEIGHT,
    `${chart.up} by ${chart.across}`,
    [
      grid({
        ...ticks,
        y,
        left: LEFT,
        right: places.end,
        text: (value) => (chart.tick ?? chart.text)(value, ticks.step),
      }),
      from < 0 ? svgLine("mean", LEFT, y(0), places.end, y(0)) : null,
      across(chart, places),
      svgText("tick", 2, 12, `${chart.up} ↑`),
      svgText("tick", places.end, HEIGHT - 5, `${chart.across} →`, "end"),
      mark,
      chart.curves.map((curve, at) => lineOf(chart, curve, at, places, y)),
      names(chart, places, y, right),
    ],
    { role: "group" },
  );
  if (!chart.labels.length) return element;
  const gaps = places.x.map((x, i) => (i ? (x - places.x[i - 1]) / 2 : 0));
  columnPicker(element, {
    count: chart.labels.length,
    indexAt: (x) => nearest(places.x, x),
    from: (i) => places.x[i] - Math.max(2, gaps[i]),
    to: (i) => places.x[i] + Math.max(2, gaps[i + 1] ?? gaps[i]),
    mark,
    tip: (i) => tipRows(`${chart.labels[i]} ${chart.xs ? chart.across : ""}`.trim(), null, told(chart, i)),
  });
  return element;
}

/**
 * Where the places are.
 * @param {Chart} chart
 * @param {number} start
 * @param {number} end
 */
function placesOf({ xs, labels }, start, end) {
  const steps = xs ?? labels.map((_, i) => i);
  const far = xs !== null && xs[0] > 0 && xs[xs.length - 1] / xs[0] > 8;
  /** @param {number} value */
  const scaled = (value) => (far ? Math.log(value) : value);
  const [low, high] = [scaled(Math.min(...steps)), scaled(Math.max(...steps))];
  const edge = xs ? 0 : (end - start) / (2 * Math.max(1, labels.length)); // half a place of a word
  const length = end - start - 2 * edge;
  return { x: steps.map((value) => start + edge + ((scaled(value) - low) / (high - low || 1)) * length), end };
}

/**
 * A text that fits into so many pixels, cut in the middle if it must be.
 * @param {string} text
 * @param {number} room
 */
export function fitted(text, room) {
  const most = Math.max(4, Math.floor(room / NAME));
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}

/**
 * Labels of as many places as have room; of many numbers the round ones.
 * @param {Chart} chart
 * @param {{ x: number[], end: number }} places
 */
function across({ labels, xs }, { x, end }) {
  const round = xs ? roundOnes(xs) : null;
  let free = -Infinity;
  return labels.map((label, i) => {
    if (xs && round && !round.has(xs[i])) return null;
    const text = xs ? label : fitted(label, Math.max(50, (end - LEFT) / labels.length - 8));
    const half = (text.length * NAME) / 2 + 4;
    if (x[i] - half < free) return null;
    free = x[i] + half;
    return svgText("tick", x[i], HEIGHT - BOTTOM + 16, text, "middle");
  });
}

/**
 * Of many numbers powers of two, as batches are chosen, or such as 30 and 400; null where all may be labelled.
 * @param {number[]} xs
 */
function roundOnes(xs) {
  if (xs.length <= MANY) return null;
  const powers = xs.filter((value) => Number.isInteger(Math.log2(value)));
  const tens = xs.filter((value) => /^[1-9]0*$/.test(String(value)));
  const found = powers.length > 2 ? powers : tens;
  return found.length > 2 ? new Set(found) : null;
}

/**
 * @param {Chart} chart
 * @param {Curve} curve
 * @param {number} at
 * @param {{ x: number[], end: number }} places
 * @param {(value: number) => number} y
 */
function lineOf({ xs, curves: all, labels, joined }, curve, at, { x, end }, y) {
  const look = `curve ${curve.base ? "base" : `c${at % NUM_COLOURS}`}`;
  if (!xs) {
    const wide = Math.min(40, (0.8 * (end - LEFT)) / (labels.length * all.length));
    return curve.values.map((value, i) =>
      value === null
        ? null
        : svgRect(
            `${look} block`,
            x[i] + wide * (at - all.length / 2),
            Math.min(y(0), y(value)),
            wide - 1,
            Math.abs(y(value) - y(0)),
          ),
    );
  }
  const known = curve.values.flatMap((value, i) => (value === null ? [] : [{ i, value }]));
  const path = known
    .map(
      ({ i, value }, n) =>
        `${n && (joined || curve.values[i - 1] !== null) ? "L" : "M"}${x[i].toFixed(1)} ${y(value).toFixed(1)}`,
    )
    .join("");
  const few = known.length <= 40;
  return [
    svg("path", { class: look, d: path }),
    few ? known.map(({ i, value }) => svg("circle", { class: `${look} dot`, cx: x[i], cy: y(value), r: 3.2 })) : null,
    known
      .filter(({ i }) => i === curve.from)
      .map(({ i, value }) => svg("circle", { class: `${look} ring`, cx: x[i], cy: y(value), r: 7 })),
  ];
}

/**
 * Names at the ends of the curves, moved apart.
 * @param {Chart} chart
 * @param {{ x: number[], end: number }} places
 * @param {(value: number) => number} y
 * @param {number} right room beside the chart
 */
function names({ curves: all }, { end }, y, right) {
  const ends = all
    .map((curve, at) => ({ curve, at, value: curve.values.findLast((value) => value !== null) ?? null }))
    .flatMap(({ curve, at, value }) => (value === null ? [] : [{ curve, at, down: y(value) }]))
    .sort((a, b) => a.down - b.down);
  ends.forEach((each, i) => {
    each.down = i ? Math.max(each.down, ends[i - 1].down + LINE) : each.down;
  });
  const over = Math.max(0, (ends.at(-1)?.down ?? 0) - (HEIGHT - BOTTOM));
  return ends.map(({ curve, at, down }) =>
    svgText(
      `curve-name ${curve.base ? "base" : `c${at % NUM_COLOURS}`}`,
      end + 8,
      down - over + 4,
      fitted(curve.name, right - 12),
    ),
  );
}

/**
 * What is told at a place: every curve, the highest first.
 * @param {Chart} chart
 * @param {number} i
 * @returns {[string, string][]}
 */
function told(chart, i) {
  return chart.curves
    .map(({ name, values }) => ({ name, value: values[i] }))
    .sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity))
    .map(({ name, value }) => [name, value === null ? "impossible" : chart.text(value)]);
}

/**
 * @param {number[]} xs
 * @param {number} x
 */
function nearest(xs, x) {
  return xs.reduce((best, each, i) => (Math.abs(each - x) < Math.abs(xs[best] - x) ? i : best), 0);
}
