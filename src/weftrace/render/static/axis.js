// Time axes: round ticks, and labels that tell the ticks apart.

import { tickLabel } from "./format.js";

/**
 * @typedef {import("./theme.js").Palette} Palette
 * @typedef {{ start: number, end: number, length: number }} View
 *
 * @typedef {object} Axis
 * @property {View} view
 * @property {number} left
 * @property {number} width
 * @property {number} height
 * @property {number} bottom where its grid lines end
 * @property {Palette} colors
 * @property {string} font
 */

/**
 * Ticks of a window: {step, values}, about one every `spacing` pixels, at 1, 2 or 5 times a power of ten ns.
 * @param {number} start
 * @param {number} end
 * @param {number} width
 * @param {number} [spacing]
 */
export function ticks(start, end, width, spacing = 110) {
  const rough = ((end - start) / Math.max(width, 1)) * spacing;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? 10 * power;
  /** @type {number[]} */
  const values = [];
  for (let value = Math.ceil(start / step) * step; value <= end; value += step) values.push(value);
  return { step, values };
}

/**
 * Draws ticks and labels along the top of a canvas; grid lines down to `bottom`.
 * @param {CanvasRenderingContext2D} context
 * @param {Axis} axis
 */
export function drawAxis(context, { view, left, width, height, bottom, colors, font }) {
  const { step, values } = ticks(view.start, view.end, width);
  context.font = font;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const value of values) {
    const x = Math.round(left + ((value - view.start) / view.length) * width) + 0.5;
    context.strokeStyle = colors.line;
    context.beginPath();
    context.moveTo(x, height - 6);
    context.lineTo(x, bottom);
    context.stroke();
    const label = tickLabel(value, step, view.length);
    if (x + 4 + context.measureText(label).width > left + width) continue;
    context.fillStyle = colors.muted;
    context.fillText(label, x + 4, height / 2);
  }
}
