// Painting the tracks of the timeline: their events, the selected range, the event under the pointer and the selected
// one.

import { drawAxis } from "render/axis.js";
import { duration } from "render/format.js";
import { paintRow } from "render/rows.js";
import { eachStretch } from "render/hatch.js";
import { FONT } from "render/scene.js";
import { isOfDevice, rowOf } from "./tracks.js";

/**
 * @typedef {import("render/scene.js").Sheet} Sheet
 *
 * What is seen now. top: what is scrolled away, in pixels; hits: matches of the search summed up to each event.
 * @typedef {object} Scene
 * @property {import("./data.js").Timeline} timeline
 * @property {import("./tracks.js").Row[]} rows
 * @property {import("./tracks.js").Layout} placed
 * @property {Float64Array} sums
 * @property {import("render/rows.js").Look} look
 * @property {import("render/rows.js").NameWriter} write
 * @property {number} top
 * @property {Uint32Array | null} hits
 * @property {number} hovered -1 for none
 * @property {number} selected -1 for none
 * @property {[number, number] | null} range
 * @property {number | null} device that the report is of
 * @property {number} gap the selected gap, -1 for none
 */

/**
 * @param {Sheet} sheet
 * @param {Scene} scene
 */
export function paintTracks(sheet, scene) {
  const { timeline, placed, top, look, sums, hits, write, hovered, selected } = scene;
  const { context, view, width, height: visible } = sheet;
  const colors = { ...sheet.colors, muted: "transparent" };
  drawAxis(context, { view, left: 0, width, height: 6, bottom: visible, colors, font: FONT });
  for (const line of placed.lines) {
    if (line.y + line.height < top || line.y > top + visible) continue;
    const y = line.y - top + 1;
    const label = line.kind === "closed" ? null : write;
    if (isOfDevice(timeline, line, scene.device)) paintWaits(sheet, scene, y, line.height - 2);
    for (const row of line.rows) {
      paintRow(context, timeline, row, { view, width, y, height: line.height - 2, look, sums, hits, label });
    }
  }
  if (scene.range) paintRange(sheet, scene.range);
  outline(sheet, eventBox(sheet, scene, hovered), sheet.colors.text, 1.25);
  const to = eventBox(sheet, scene, selected);
  outline(sheet, to, sheet.colors.accent, 2.5);
  // The line from a kernel to its launch.
  const from = eventBox(sheet, scene, launchOf(timeline, selected));
  if (!from || !to) return;
  const below = from.y < to.y;
  const start = below ? from.y + from.h : from.y;
  const end = below ? to.y : to.y + to.h;
  sheet.curve(sheet.colors.accent, 1.5, [from.x + from.w / 2, start], [to.x, end], { dash: [5, 3] });
}

/**
 * On a stream of the device: hatched, where work ran that the file lacks; framed, the selected gap.
 * @param {Sheet} sheet
 * @param {Scene} scene
 * @param {number} y
 * @param {number} height
 */
function paintWaits(sheet, { timeline, gap }, y, height) {
  const { colors, view, width } = sheet;
  eachStretch(timeline.unrecorded, view, 0, width, (x, w) => {
    if (w >= 2) sheet.hatched(colors.unrecorded, colors.raised, 0.72, x, y, w, height);
  });
  if (gap < 0) return;
  const [from, to] = timeline.waits.flat.slice(2 * gap, 2 * gap + 2).map((ns) => sheet.x(ns));
  sheet.rect(colors.accent, from, y, to - from, height, 0.14);
  sheet.outline(colors.accent, 2, from, y, Math.max(2, to - from), height);
}

/**
 * The selected range, with its length.
 * @param {Sheet} sheet
 * @param {[number, number]} range
 */
function paintRange(sheet, range) {
  const { colors, height, width } = sheet;
  const [x0, x1] = range.map((ns) => sheet.x(ns));
  sheet.rect(colors.accent, x0, 0, x1 - x0, height, 0.14);
  for (const x of [x0, x1]) sheet.rect(colors.accent, x - 0.5, 0, 1.5, height);
  const text = duration(range[1] - range[0]);
  const half = sheet.widthOf(text, `600 ${FONT}`) / 2 + 6;
  sheet.bubble(colors.accent, colors.panel, text, (Math.max(0, x0) + Math.min(width, x1)) / 2, 4, half, 18);
}

/**
 * @param {Sheet} sheet
 * @param {ReturnType<typeof eventBox>} box
 * @param {string} color
 * @param {number} thick
 */
function outline(sheet, box, color, thick) {
  if (box) sheet.outline(color, thick, box.x - 0.5, box.y + 0.5, box.w + 0.5, box.h - 1);
}

/**
 * Where an event is on the canvas; null for none, and in a closed group.
 * @param {Sheet} sheet
 * @param {Scene} scene
 * @param {number} event
 */
function eventBox(sheet, { timeline, rows, placed, top }, event) {
  const line = event < 0 ? undefined : placed.yOf.get(rowOf(rows, event));
  if (!line) return null;
  const w = Math.max(2, timeline.dur[event] * sheet.scale);
  return { x: sheet.x(timeline.start[event]), y: line.y - top, w, h: line.height };
}

/**
 * The host call that launched a device event, or -1.
 * @param {import("./data.js").Timeline} timeline
 * @param {number} event
 */
function launchOf(timeline, event) {
  return event >= 0 && event < timeline.numDevice ? timeline.launch[event] - 1 : -1;
}
