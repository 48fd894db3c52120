// A roofline to put points in: work done for each byte against work done in a second, both on scales of powers of ten,
// under the roofs of a device.

import { si } from "./format.js";
import { grid, svg, svgLine, svgText } from "./svg.js";

const LEFT = 62;
const RIGHT = 20;
const TOP = 14;
const BOTTOM = 44;
export const HEIGHT = 430;

/**
 * Memory's bandwidth, and name and rate of each peak, highest first.
 * @typedef {{ bytes_per_s: number, compute: [name: string, rate: number][] }} Roofs
 *
 * The picture's limits, and where values stand in it.
 * @typedef {object} Plot
 * @property {[low: number, high: number]} xs
 * @property {[low: number, high: number]} ys
 * @property {number} width
 * @property {(value: number) => number} x
 * @property {(value: number) => number} y
 */

/**
 * The grid, and the roofs where a device is named.
 * @param {Plot} plot
 * @param {Roofs | null} roofs
 */
export function roofline(plot, roofs) {
  return [gridLines(plot), roofs ? roofLines(roofs, plot) : null];
}

/**
 * Limits that hold all points, and the roofs with their ridge.
 * @param {{ x: number, y: number }[]} points
 * @param {Roofs | null} roofs
 * @param {number} width
 * @returns {Plot}
 */
export function plotOf(points, roofs, width) {
  const ridge = roofs ? roofs.compute[0][1] / roofs.bytes_per_s : 1;
  const tops = roofs ? roofs.compute.map(([, rate]) => rate) : [];
  const lowX = 10 ** Math.floor(Math.log10(Math.min(...points.map((p) => p.x))) - 0.1);
  const highX = 10 ** Math.ceil(Math.log10(Math.max(...points.map((p) => p.x), ridge)) + 0.25);
  const lowY = 10 ** Math.floor(Math.log10(Math.min(...points.map((p) => p.y))) - 0.1);
  const highY = 10 ** Math.ceil(Math.log10(Math.max(...points.map((p) => p.y), ...tops)) + 0.1);
  return {
    xs: [lowX, highX],
    ys: [lowY, highY],
    width,
    x: (value) => LEFT + (Math.log10(value / lowX) / Math.log10(highX / lowX)) * (width - LEFT - RIGHT),
    y: (value) => TOP + (1 - Math.log10(value / lowY) / Math.log10(highY / lowY)) * (HEIGHT - TOP - BOTTOM),
  };
}

/** @param {Plot} plot */
function gridLines({ xs, ys, width, x, y }) {
  return [
    powers(...xs, (width - LEFT - RIGHT) / 46).map((value) => [
      svgLine("grid", x(value), TOP, x(value), HEIGHT - BOTTOM),
      svgText("", x(value), HEIGHT - BOTTOM + 16, siTick(value), "middle"),
    ]),
    grid({ values: powers(...ys, 8), y, left: LEFT, right: width - RIGHT, text: siTick }),
    svgText("", width - RIGHT, HEIGHT - 8, "intensity: FLOP per byte moved →", "end"),
    svgText("", LEFT + 6, TOP + 10, "↑ FLOP per second"),
  ];
}

/**
 * @param {Roofs} roofs
 * @param {Plot} plot
 */
function roofLines({ bytes_per_s: memory, compute }, { xs: [lowX], ys: [lowY], width, x, y }) {
  const peak = compute[0][1]; // highest first
  const from = Math.max(lowX, lowY / memory);
  const ridge = peak / memory;
  const flat = compute.map(([, rate], at) =>
    svg("path", {
      class: "roof",
      "stroke-dasharray": at ? "5 4" : null,
      d: `M${x(Math.max(lowX, rate / memory))} ${y(rate)}H${width - RIGHT}`,
    }),
  );
  const names = compute.map(([name, rate], at) => {
    const crowded = at > 0 && Math.abs(y(rate) - y(compute[at - 1][1])) < 15;
    return svgText(
      "roof-word",
      width - RIGHT - 4,
      crowded ? y(rate) + 14 : y(rate) - 6,
      `${name}: ${si(rate, "FLOP/s")}`,
      "end",
    );
  });
  const slope = svg("path", { class: "roof memory", d: `M${x(from)} ${y(from * memory)}L${x(ridge)} ${y(peak)}` });
  const middle = Math.sqrt(from * ridge);
  const angle = (Math.atan2(y(peak) - y(from * memory), x(ridge) - x(from)) * 180) / Math.PI;
  const [wordX, wordY] = [x(middle), y(middle * memory) - 8];
  const word = svg("text", {
    class: "roof-word",
    x: wordX,
    y: wordY,
    "text-anchor": "middle",
    transform: `rotate(${angle.toFixed(1)} ${wordX.toFixed(1)} ${wordY.toFixed(1)})`,
    text: `memory: ${si(memory, "B/s")}`,
  });
  return [slope, flat, names, word];
}

/**
 * Powers of ten from low to high, so few that at most about `most` are written.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 */
function powers(low, high, most) {
  const from = Math.round(Math.log10(low));
  const to = Math.round(Math.log10(high));
  const step = Math.max(1, Math.ceil((to - from) / Math.max(2, most)));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => 10 ** (from + i * step));
}

/**
 * An axis value that is a power of ten: "0.1", "10 k", "1 T".
 * @param {number} value
 */
function siTick(value) {
  return value < 1 ? String(Number(value.toPrecision(2))) : si(value, "", 1);
}
