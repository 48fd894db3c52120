// What is pinned above the tracks of the timeline: the time axis, the lane picture in small, and what became of the
// communication.

import { boxAtTime, clearLulls, DENSE, densityOf, eachBox, eachRun, laneBoxes } from "render/boxes.js";
import { shortName } from "render/format.js";
import { paintFates } from "render/hatch.js";
import { difference } from "render/intervals.js";
import { FONT } from "render/scene.js";
import { inkOn } from "render/theme.js";
import { accounts } from "./account.js";

/**
 * @typedef {import("render/axis.js").View} View
 * @typedef {import("render/boxes.js").Box} Box
 *
 * A rank's lanes in small. rows: a lane's name and top; fatesTop: where its communication's fates stand.
 * @typedef {object} Pinned
 * @property {import("render/boxes.js").LaneBoxes} mini
 * @property {{ name: string, y: number }[]} rows
 * @property {import("render/hatch.js").Fates} fates
 * @property {number} fatesTop
 * @property {number} height of all that is pinned
 */

const AXIS = 24;
const STRIP = 9;

/** How high a lane is, in pixels. */
export const MINI = 17;

/**
 * @param {page.Rank} rank
 * @param {import("./data.js").Timeline} timeline
 * @returns {Pinned}
 */
export function pinnedOf(rank, timeline) {
  const of = accounts(timeline);
  const mini = laneBoxes(rank, timeline.left_out.device ? null : of);
  const rows = mini.lanes.map(({ lane: name }, row) => {
    const strip = row > mini.between ? STRIP : 0;
    return { name, y: AXIS + row * (MINI + 2) + strip };
  });
  const fatesTop = AXIS + (rows.length ? mini.between * (MINI + 2) + MINI + 1 : 0);
  return {
    mini,
    rows,
    fates: {
      hidden: of.hidden,
      exposed: of.exposed,
      idle: difference(difference([0, rank.span_ns], of.busy), timeline.unrecorded),
      unrecorded: timeline.unrecorded,
    },
    fatesTop,
    height: Math.max(fatesTop + STRIP + 2, ...rows.map(({ y }) => y + MINI + 2)),
  };
}

/**
 * The box at a pixel; null where there is none.
 * @param {Pinned} pinned
 * @param {View} view
 * @param {number} width
 * @param {number} x
 * @param {number} y
 */
export function pinnedBox({ mini, rows }, view, width, x, y) {
  const row = rows.findIndex((each) => y >= each.y && y < each.y + MINI);
  if (row < 0) return null;
  return boxAtTime(mini.byRow[row], view.start + (x / width) * view.length, view.length / width);
}

/**
 * Paints it at a zoom. range: the selected range, or null.
 * @param {import("render/scene.js").Sheet} sheet
 * @param {Pinned} pinned
 * @param {[number, number] | null} range
 */
export function paintPinned(sheet, { rows, mini, fates, fatesTop }, range) {
  const { context, colors, view, width } = sheet;
  sheet.axis(AXIS, AXIS);
  rows.forEach(({ y }, row) => {
    eachBox(mini.byRow[row], view, width, (box, x0, x1) => {
      sheet.rect(colors[mini.hues.of(box)], x0, y, Math.max(1, x1 - x0), MINI);
    });
    clearLulls(context, mini.fills[row], view, { width, y, height: MINI, ground: colors.panel });
    eachRun(mini.byRow[row], view, width, (run, x0, x1) => {
      const left = Math.max(0, x0);
      const room = Math.min(width, x1) - left - 6;
      const text = shortName(run.box.name);
      if (room < 18 || sheet.widthOf(text, FONT) > room) return;
      const ink = densityOf(run) >= DENSE ? inkOn(colors[mini.hues.of(run.box)]) : colors.text;
      sheet.text(ink, text, left + 4, y + MINI / 2 + 0.5, { align: "left" });
    });
  });
  paintFates(context, fates, view, width, fatesTop, STRIP, colors);
  if (range) sheet.rect(colors.accent, sheet.x(range[0]), 0, (range[1] - range[0]) * sheet.scale, 3);
}
