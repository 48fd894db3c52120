// Painting the tracks of the timeline: their events, the selected range, the event under the pointer and the selected
// one.

import { drawAxis } from "render/axis.js";
import { duration } from "render/format.js";
import { palette, SANS } from "render/theme.js";
import { paintRow } from "render/rows.js";
import { rowOf } from "./tracks.js";

/**
 * @typedef {import("render/theme.js").Palette} Palette
 *
 * What is seen now. top: what is scrolled away, in pixels; hits: matches of the search summed up to each event.
 * @typedef {object} Scene
 * @property {import("./data.js").Timeline} timeline
 * @property {import("./tracks.js").Row[]} rows
 * @property {import("./tracks.js").Layout} placed
 * @property {Float64Array} sums
 * @property {import("render/rows.js").Look} look
 * @property {import("render/rows.js").NameWriter} write
 * @property {import("render/axis.js").View} view
 * @property {number} width
 * @property {number} top
 * @property {number} visible height in pixels
 * @property {Uint32Array | null} hits
 * @property {number} hovered -1 for none
 * @property {number} selected -1 for none
 * @property {[number, number] | null} range
 */

export const FONT = `11px ${SANS}`;

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 */
export function paintTracks(context, scene) {
  const { timeline, placed, view, width, top, visible, look, sums, hits, write } = scene;
  const colors = palette();
  context.clearRect(0, 0, width, visible);
  const lines = { ...colors, muted: "transparent" };
  drawAxis(context, { view, left: 0, width, height: 6, bottom: visible, colors: lines, font: FONT });
  for (const line of placed.lines) {
    if (line.y + line.height < top || line.y > top + visible) continue;
    const y = line.y - top + 1;
    const label = line.kind === "closed" ? null : write;
    for (const row of line.rows) {
      paintRow(context, timeline, row, { view, width, y, height: line.height - 2, look, sums, hits, label });
    }
  }
  paintRange(context, scene, colors);
  paintPicked(context, scene, colors);
}

/**
 * The selected range, with its length.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintRange(context, { view, width, visible, range }, colors) {
  if (!range) return;
  const [x0, x1] = range.map((ns) => ((ns - view.start) / view.length) * width);
  context.fillStyle = colors.accent;
  context.globalAlpha = 0.14;
  context.fillRect(x0, 0, x1 - x0, visible);
  context.globalAlpha = 1;
  context.fillRect(x0 - 0.5, 0, 1.5, visible);
  context.fillRect(x1 - 0.5, 0, 1.5, visible);
  const text = duration(range[1] - range[0]);
  context.font = `600 ${FONT}`;
  const w = context.measureText(text).width + 12;
  const middle = (Math.max(0, x0) + Math.min(width, x1)) / 2;
  context.beginPath();
  context.roundRect(middle - w / 2, 4, w, 18, 9);
  context.fill();
  context.fillStyle = colors.panel;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, middle, 13.5);
}

/**
 * Outlines of the hovered and the selected event, and the line from a kernel to its launch.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintPicked(context, scene, colors) {
  outline(context, eventBox(scene, scene.hovered), colors.text, 1.25);
  outline(context, eventBox(scene, scene.selected), colors.accent, 2.5);
  context.lineWidth = 1;
  const from = eventBox(scene, launchOf(scene.timeline, scene.selected));
  const to = from ? eventBox(scene, scene.selected) : null;
  if (!from || !to) return;
  const x0 = from.x + from.w / 2;
  const y0 = from.y < to.y ? from.y + from.h : from.y;
  const y1 = from.y < to.y ? to.y : to.y + to.h;
  context.strokeStyle = colors.accent;
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0, (y0 + y1) / 2, to.x, (y0 + y1) / 2, to.x, y1);
  context.stroke();
  context.setLineDash([]);
  context.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {{ x: number, y: number, w: number, h: number } | null} box
 * @param {string} color
 * @param {number} thick
 */
function outline(context, box, color, thick) {
  if (!box) return;
  context.strokeStyle = color;
  context.lineWidth = thick;
  context.strokeRect(box.x - 0.5, box.y + 0.5, box.w + 0.5, box.h - 1);
}

/**
 * Where an event is on the canvas; null for none, and in a closed group.
 * @param {Scene} scene
 * @param {number} event
 */
function eventBox({ timeline, rows, placed, view, width, top }, event) {
  const line = event < 0 ? undefined : placed.yOf.get(rowOf(rows, event));
  if (!line) return null;
  const x = ((timeline.start[event] - view.start) / view.length) * width;
  return { x, y: line.y - top, w: Math.max(2, (timeline.dur[event] / view.length) * width), h: line.height };
}

/**
 * The host call that launched a device event, or -1.
 * @param {import("./data.js").Timeline} timeline
 * @param {number} event
 */
function launchOf(timeline, event) {
  return event >= 0 && event < timeline.numDevice ? timeline.launch[event] - 1 : -1;
}
