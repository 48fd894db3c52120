// Painting the lane picture: its bands of boxes, the strip between computation and communication, exposed and idle
// time.

import { clearLulls, DENSE, densityOf, eachBox, eachRun } from "./boxes.js";
import { duration, ofWhole, shortName } from "./format.js";
import { eachStretch, joined, paintFates } from "./hatch.js";
import { lengthWithin } from "./intervals.js";
import { FONT, Sheet } from "./scene.js";
import { inkOn, mix, SANS } from "./theme.js";

/**
 * @typedef {import("./boxes.js").Box} Box
 * @typedef {import("./boxes.js").Run} Run
 *
 * Where things are, in pixels from the picture's top.
 * @typedef {{ band: number, tops: number[], strip: number, height: number }} Geometry
 *
 * A rank's lanes, and what became of its communication.
 * @typedef {import("./boxes.js").LaneBoxes & import("./hatch.js").Fates & { rank: page.Lanes, at: Geometry }} Picture
 *
 * What is seen now. ranged: the selected range; marked: the timeline's window.
 * @typedef {object} Scene
 * @property {Picture} picture
 * @property {import("./axis.js").View} view
 * @property {number} width
 * @property {Box | null} hovered
 * @property {Box | null} focused
 * @property {[number, number] | null} ranged
 * @property {[number, number] | null} marked
 */

const AXIS = 24;
const CALLOUTS = 22;
const BAND = 92;
const LEAST_BAND = 44;
const FULL_BANDS = 3; // more bands than these share their height
const GAP = 5;
const FOOT = 8;
const NUM_CALLOUTS = 6;
const MOSTLY = 0.8; // of a stretch of the strip: only then does a word stand in it
const NAMED = 0.3; // a run that was busy for less of its time, and is not wide, has no name: it would hide what ran
const LEAST_ROOM = 80;
const MARK = 4; // half the width of the mark where messages are issued or received
const MARK_ROOM = 20; // pixels of width for each of them: nearer to each other, none is drawn
const ARROW_ROOM = 14; // likewise, for arrows
const WHOLE = 0.95; // a run that was busy for less of its time says so

export const STRIP = 22;

/**
 * Where the bands of `count` lanes are, and the strip below the band `between`.
 * @param {number} count
 * @param {number} between
 * @returns {Geometry}
 */
export function laneGeometry(count, between) {
  const band = count <= FULL_BANDS ? BAND : Math.max(LEAST_BAND, Math.floor((FULL_BANDS * BAND) / count));
  const tops = Array.from({ length: count }, (_, row) => {
    const strip = row > between ? GAP + STRIP : 0;
    return AXIS + CALLOUTS + row * (band + GAP) + strip;
  });
  const first = AXIS + CALLOUTS;
  return { band, tops, strip: (tops[between] ?? first) + band + GAP, height: (tops.at(-1) ?? first) + band + FOOT };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Scene} scene
 */
export function paintLanes(canvas, scene) {
  const { picture, view, width, hovered, focused, ranged, marked } = scene;
  const { tops, band, height } = picture.at;
  const sheet = new Sheet(canvas, view, width, height);
  const { colors } = sheet;
  sheet.axis(AXIS, height - FOOT);
  for (const top of tops) sheet.rect(colors.raised, 0, top, width, band);
  picture.byRow.forEach((line, row) => {
    paintBoxes(sheet, scene, line);
    const place = { width, y: tops[row], height: band, ground: colors.raised };
    clearLulls(sheet.context, picture.fills[row], view, place);
  });
  // The box under the pointer, and the one that the keys chose: from its first to its last event.
  for (const box of [hovered, focused]) {
    if (!box) continue;
    const x = sheet.x(box.start_ns);
    sheet.outline(colors.text, 2, x, tops[box.row], Math.max(2, sheet.x(box.end_ns) - x), band);
  }
  // Idle: nothing ran, so every band shows it, also inside the box of a phase that stood still.
  eachStretch(picture.idle, view, 0, width, (x, w) => {
    if (w >= 2) for (const top of tops) sheet.hatched(colors.idle, colors.raised, 0.72, x, top, w, band);
  });
  eachStretch(picture.unrecorded, view, 0, width, (x, w) => {
    if (w >= 2) for (const top of tops) sheet.hatched(colors.unrecorded, colors.raised, 0.72, x, top, w, band);
  });
  paintExposed(sheet, picture);
  for (const line of picture.byRow) paintParts(sheet, picture, line);
  for (const line of picture.byRow) paintNames(sheet, picture, line);
  paintStrip(sheet, picture);
  paintArrows(sheet, picture);
  if (ranged) {
    const [x0, x1] = ranged.map((ns) => sheet.x(ns));
    const high = height - AXIS - FOOT;
    sheet.rect(colors.accent, x0, AXIS, x1 - x0, high, 0.16);
    for (const x of [x0, x1]) sheet.rect(colors.accent, x - 0.5, AXIS, 1, high);
  }
  if (!marked) return;
  const [x0, x1] = [Math.max(0, sheet.x(marked[0])), Math.min(width, sheet.x(marked[1]))];
  if (x1 > x0) sheet.rect(colors.accent, x0, height - 4, Math.max(3, x1 - x0), 3); // the timeline's window
}

/**
 * @param {Sheet} sheet
 * @param {Scene} scene
 * @param {Box[]} line
 */
function paintBoxes(sheet, { picture, view, width, hovered }, line) {
  const { tops, band } = picture.at;
  /**
   * @param {Box} box
   * @param {number} x0
   * @param {number} x1
   */
  const paint = (box, x0, x1) => {
    const color = sheet.colors[picture.hues.of(box)];
    const w = Math.max(1, x1 - x0);
    sheet.rect(box === hovered ? mix(color, inkOn(color), 0.14) : color, x0, tops[box.row], w, band);
    // Its edge: an empty column would say that nothing ran.
    if (w > 4) sheet.rect(mix(color, sheet.colors.raised, 0.5), x0 + w - 1, tops[box.row], 1, band);
  };
  eachBox(line, view, width, paint);
  // Over them what goes by one name, in one piece: where it did not run is cleared from both.
  eachRun(line, view, width, (run, x0, x1) => run.end_ns > run.box.end_ns && paint(run.box, x0, x1));
  if (hovered && line[0]?.row === hovered.row) paint(hovered, sheet.x(hovered.start_ns), sheet.x(hovered.end_ns));
}

/**
 * @param {Sheet} sheet
 * @param {Picture} picture
 * @param {Box[]} line
 */
function paintNames(sheet, { at: { tops, band }, hues }, line) {
  const { colors, view, width } = sheet;
  /** @type {{ run: Run, x0: number, x1: number }[]} */
  const runs = [];
  eachRun(line, view, width, (run, x0, x1) => runs.push({ run, x0, x1 }));
  runs.forEach(({ run }, at) => {
    const [left, right] = widestSeen(runs, at, width);
    const room = right - left;
    const density = densityOf(run);
    if (room < 11 || (density < NAMED && room < LEAST_ROOM)) return;
    // Where the ground is thin, a rim keeps it legible.
    const [ink, rim] = density >= DENSE ? [inkOn(colors[hues.of(run.box)]), ""] : [colors.text, colors.raised];
    paintName(sheet, run, { middle: left + room / 2, room, y: tops[run.box.row] + band / 2, band, ink, rim });
  });
}

/**
 * Where most of a run is seen: those that start after it are painted over it.
 * @param {{ x0: number, x1: number }[]} runs
 * @param {number} at
 * @param {number} width
 * @returns {[left: number, right: number]}
 */
function widestSeen(runs, at, width) {
  const end = Math.min(width, runs[at].x1);
  let from = Math.max(0, runs[at].x0);
  /** @type {[left: number, right: number]} */
  let widest = [from, from];
  for (let i = at + 1; i <= runs.length && from < end; i += 1) {
    const next = i < runs.length ? Math.min(end, runs[i].x0) : end;
    if (next - from > widest[1] - widest[0]) widest = [from, next];
    if (next === end) break;
    from = Math.max(from, runs[i].x1);
  }
  return widest;
}

/**
 * How long a run took, and what of it the lane worked, where that is less.
 * @param {Run} run
 */
function timeOf(run) {
  const length = run.end_ns - run.start_ns;
  return densityOf(run) >= WHOLE ? duration(length) : `${ofWhole(run.busy_ns, length)} busy`;
}

/**
 * Kernels that issue and receive messages: thin bars, over what is told of the time, and a mark of one size at the edge
 * towards the messages. A bar thinner than a pixel is as faint as it is thin.
 * @param {Sheet} sheet
 * @param {Picture} picture
 * @param {Box[]} line
 */
function paintParts(sheet, { at: { tops, band }, hues }, line) {
  const { colors, view, scale } = sheet;
  const seen = line.filter(
    ({ part, start_ns, end_ns }) =>
      (part === "issue" || part === "receive") && end_ns >= view.start && start_ns <= view.end,
  );
  for (const box of seen) {
    const [x, w] = [sheet.x(box.start_ns), (box.end_ns - box.start_ns) * scale];
    const bottom = tops[box.row] + band;
    sheet.rect(colors[hues.of(box)], x, tops[box.row], Math.max(1, w), band, Math.min(1, w));
    if (w >= 3) sheet.outline(colors.text, 1, x + 0.5, tops[box.row] + 0.5, w - 1, band - 1);
    if (seen.length > sheet.width / MARK_ROOM) continue;
    const [tip, base] = box.part === "issue" ? [bottom + GAP, bottom] : [bottom, bottom + GAP];
    sheet.path(colors.text, 0, `M${x + w / 2} ${tip}L${x + w / 2 - MARK} ${base}h${2 * MARK}z`);
  }
}

/**
 * What waits for what, from the end of one to the start of the other; none where they would be a thicket.
 * @param {Sheet} sheet
 * @param {Picture} picture
 */
function paintArrows(sheet, { rank, at: { tops, band } }) {
  const { view, colors } = sheet;
  const seen = (rank.arrows ?? []).filter(({ from_ns, to_ns }) => to_ns >= view.start && from_ns <= view.end);
  if (seen.length > sheet.width / ARROW_ROOM) return;
  for (const { from_lane, from_ns, to_lane, to_ns, held } of seen) {
    const down = to_lane > from_lane;
    const [y0, y1] = down ? [tops[from_lane] + band, tops[to_lane]] : [tops[from_lane], tops[to_lane] + band];
    const alpha = held ? 0.85 : 0.4;
    sheet.curve(colors.text, held ? 1.4 : 1, [sheet.x(from_ns), y0], [sheet.x(to_ns), y1], { alpha });
    sheet.path(colors.text, 0, `M${sheet.x(to_ns)} ${y1}l-3 ${down ? -5 : 5}h6z`, { alpha });
  }
}

/**
 * A run's name: on one line, else broken before its bracket, else upright; with its time where there is room.
 * @param {Sheet} sheet
 * @param {Run} run
 * @param {{ middle: number, room: number, y: number, band: number, ink: string, rim: string }} place
 */
function paintName(sheet, run, { middle, room, y, band, ink, rim }) {
  const name = shortName(run.box.name);
  const cut = name.lastIndexOf("(");
  const broken = cut > 0 ? [name.slice(0, cut), name.slice(cut)] : [name];
  // One size where it fits, so that width says time and type says nothing.
  const fits = [
    { lines: [name], size: 12, edge: 6 },
    { lines: broken, size: 12, edge: 4 },
    { lines: broken, size: 11, edge: 4 },
  ].find(({ lines, size, edge }) => lines.every((text) => sheet.widthOf(text, bold(size)) <= room - edge));
  if (!fits) {
    const font = bold(room > 15 ? 12 : 9);
    const upright = fitting(name, sheet.widthOf(name, font), band - 8);
    sheet.context.save();
    sheet.context.translate(middle, y);
    sheet.context.rotate(-Math.PI / 2);
    sheet.text(ink, upright, 0, 0.5, { font, rim });
    sheet.context.restore();
    return;
  }
  const time = timeOf(run);
  const withTime = sheet.widthOf(time, FONT) <= room - 6;
  const step = fits.size + 3;
  const top = y - ((fits.lines.length - 1) * step + (withTime ? 17 : 0)) / 2;
  fits.lines.forEach((text, i) => sheet.text(ink, text, middle, top + i * step, { font: bold(fits.size), rim }));
  if (withTime) sheet.text(ink, time, middle, top + (fits.lines.length - 1) * step + 18, { rim, alpha: 0.85 });
}

/**
 * A text that fits into a width, its end cut off if it must be; "" where too little of it would be left.
 * @param {string} text
 * @param {number} whole its own width
 * @param {number} width
 */
function fitting(text, whole, width) {
  if (whole <= width) return text;
  const kept = Math.floor((text.length * width) / whole) - 2;
  return kept >= 4 ? `${text.slice(0, kept)}…` : "";
}

/** @param {number} size */
function bold(size) {
  return `600 ${size}px ${SANS}`;
}

/**
 * Exposed communication: a red hatch where the compute band stands still, and the cost written above the worst.
 * @param {Sheet} sheet
 * @param {Picture} picture
 */
function paintExposed(sheet, { exposed, computeRows, at: { tops, band } }) {
  const { colors, view, width } = sheet;
  const ground = mix(colors.raised, colors.exposed, 0.16);
  /** @type {[x: number, width: number][]} */
  const stretches = [];
  eachStretch(exposed, view, 0, width, (x, w) => {
    if (w < 1.5) return;
    for (const row of computeRows.length ? computeRows : [0]) {
      sheet.hatched(colors.exposed, ground, 0.9, x, tops[row], w, band);
      sheet.outline(colors.exposed, 1, x + 0.5, tops[row] + 0.5, Math.max(0.5, w - 1), band - 1);
    }
    stretches.push([x, w]);
  });
  const worst = stretches.sort((a, b) => b[1] - a[1]).filter(([, w]) => w >= 2);
  const told = worst.map(([x, w]) => ({ x: x + w / 2, text: `${duration(w / sheet.scale)} exposed` }));
  sheet.callouts(told.slice(0, NUM_CALLOUTS), AXIS + 1, colors.exposed);
}

/**
 * @param {Sheet} sheet
 * @param {Picture} picture
 */
function paintStrip(sheet, picture) {
  if (picture.lanes.length < 2) return;
  const { context, colors, view, width, scale } = sheet;
  const y = picture.at.strip;
  sheet.rect(colors.raised, 0, y, width, STRIP);
  paintFates(context, picture, view, width, y, STRIP, colors);
  // Words where a stretch is long: the strip explains itself.
  const font = `500 ${FONT}`;
  /** @type {[from: number, to: number][]} */
  const taken = [];
  for (const word of /** @type {const} */ (["exposed", "unrecorded", "idle", "hidden"])) {
    eachStretch(joined(picture[word], 2 / scale), view, 0, width, (x, w) => {
      const half = sheet.widthOf(word, font) / 2 + 6;
      const middle = x + w / 2;
      if (w < 2 * half || taken.some(([from, to]) => middle + half > from && middle - half < to)) return;
      const filled = lengthWithin(picture[word], view.start + x / scale, view.start + (x + w) / scale);
      if (filled < (MOSTLY * w) / scale) return; // a stretch of many short ones is not one of them
      taken.push([middle - half, middle + half]);
      sheet.text(inkOn(colors[word]), word, middle, y + STRIP / 2 + 0.5, { font });
    });
  }
}
