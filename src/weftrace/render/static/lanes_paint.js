// Painting the lane picture: its bands of boxes, the strip between computation and communication, exposed and idle
// time.

import { drawAxis } from "./axis.js";
import { clearLulls, DENSE, densityOf, eachBox, eachRun } from "./boxes.js";
import { sizedContext } from "./dom.js";
import { duration, ofWhole, shortName } from "./format.js";
import { eachStretch, hatch, joined, paintFates } from "./hatch.js";
import { lengthWithin } from "./intervals.js";
import { inkOn, mix, palette, SANS } from "./theme.js";

/**
 * @typedef {import("./boxes.js").Box} Box
 * @typedef {import("./boxes.js").Run} Run
 * @typedef {import("./theme.js").Palette} Palette
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
  const { picture, view, width } = scene;
  const { tops, band, height } = picture.at;
  const colors = palette();
  const context = sizedContext(canvas, width, height);
  context.clearRect(0, 0, width, height);
  drawAxis(context, { view, left: 0, width, height: AXIS, bottom: height - FOOT, colors, font: `11px ${SANS}` });
  for (const top of tops) {
    context.fillStyle = colors.raised;
    context.fillRect(0, top, width, band);
  }
  picture.byRow.forEach((line, row) => {
    paintBoxes(context, scene, line, colors);
    const place = { width, y: tops[row], height: band, ground: colors.raised };
    clearLulls(context, picture.fills[row], view, place);
  });
  for (const line of picture.byRow) paintChosen(context, scene, line, colors);
  paintStops(context, scene, colors);
  paintExposed(context, scene, colors);
  for (const line of picture.byRow) paintParts(context, scene, line, colors);
  for (const line of picture.byRow) paintNames(context, scene, line, colors);
  paintStrip(context, scene, colors);
  paintArrows(context, scene, colors);
  paintRanged(context, scene, colors);
  paintMarked(context, scene, colors);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Box[]} line
 * @param {Palette} colors
 */
function paintBoxes(context, { picture, view, width, hovered }, line, colors) {
  /**
   * @param {Box} box
   * @param {number} x0
   * @param {number} x1
   */
  const paint = (box, x0, x1) => {
    const color = colors[picture.hues.of(box)];
    const y = picture.at.tops[box.row];
    const w = Math.max(1, x1 - x0);
    context.fillStyle = box === hovered ? mix(color, inkOn(color), 0.14) : color;
    context.fillRect(x0, y, w, picture.at.band);
    if (w <= 4) return;
    context.fillStyle = mix(color, colors.raised, 0.5); // its edge: an empty column would say that nothing ran
    context.fillRect(x0 + w - 1, y, 1, picture.at.band);
  };
  eachBox(line, view, width, paint);
  // Over them what goes by one name, in one piece: where it did not run is cleared from both.
  eachRun(line, view, width, (run, x0, x1) => run.end_ns > run.box.end_ns && paint(run.box, x0, x1));
  if (hovered && line[0]?.row === hovered.row) {
    const [x0, x1] = [hovered.start_ns, hovered.end_ns].map((ns) => ((ns - view.start) / view.length) * width);
    paint(hovered, x0, x1);
  }
}

/**
 * An outline around the box under the pointer, and the one that the keys chose: from its first to its last event.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Box[]} line
 * @param {Palette} colors
 */
function paintChosen(context, { picture, view, width, hovered, focused }, line, colors) {
  const { tops, band } = picture.at;
  for (const box of [hovered, focused]) {
    if (!box || line[0]?.row !== box.row) continue;
    const [x0, x1] = [box.start_ns, box.end_ns].map((ns) => ((ns - view.start) / view.length) * width);
    context.strokeStyle = colors.text;
    context.lineWidth = 2;
    context.strokeRect(x0, tops[box.row], Math.max(2, x1 - x0), band);
    context.lineWidth = 1;
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Box[]} line
 * @param {Palette} colors
 */
function paintNames(context, { picture, view, width }, line, colors) {
  const { tops, band } = picture.at;
  /** @type {{ run: Run, x0: number, x1: number }[]} */
  const runs = [];
  eachRun(line, view, width, (run, x0, x1) => runs.push({ run, x0, x1 }));
  runs.forEach(({ run }, at) => {
    const [left, right] = widestSeen(runs, at, width);
    const room = right - left;
    if (room < 11) return;
    const density = densityOf(run);
    if (density < NAMED && room < LEAST_ROOM) return;
    const dense = density >= DENSE;
    context.fillStyle = dense ? inkOn(colors[picture.hues.of(run.box)]) : colors.text;
    context.strokeStyle = dense ? "transparent" : colors.raised; // where the ground is thin, a rim keeps it legible
    context.textAlign = "center";
    context.textBaseline = "middle";
    paintName(context, run, { middle: left + room / 2, room, y: tops[run.box.row] + band / 2, band });
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
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 */
function rimmed(context, text, x, y) {
  context.lineWidth = 3;
  context.lineJoin = "round";
  if (context.strokeStyle !== "rgba(0, 0, 0, 0)") context.strokeText(text, x, y);
  context.fillText(text, x, y);
  context.lineWidth = 1;
}

/**
 * Kernels that issue and receive messages: thin bars, over what is told of the time, and a mark of one size at the edge
 * towards the messages. A bar thinner than a pixel is as faint as it is thin.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Box[]} line
 * @param {Palette} colors
 */
function paintParts(context, { picture, view, width }, line, colors) {
  const { tops, band } = picture.at;
  const scale = width / view.length;
  const seen = line.filter(
    ({ part, start_ns, end_ns }) =>
      (part === "issue" || part === "receive") && end_ns >= view.start && start_ns <= view.end,
  );
  for (const box of seen) {
    const x = (box.start_ns - view.start) * scale;
    const w = (box.end_ns - box.start_ns) * scale;
    const bottom = tops[box.row] + band;
    context.fillStyle = colors[picture.hues.of(box)];
    context.globalAlpha = Math.min(1, w);
    context.fillRect(x, tops[box.row], Math.max(1, w), band);
    context.globalAlpha = 1;
    context.strokeStyle = colors.text;
    if (w >= 3) context.strokeRect(x + 0.5, tops[box.row] + 0.5, w - 1, band - 1);
    if (seen.length > width / MARK_ROOM) continue;
    const [tip, base] = box.part === "issue" ? [bottom + GAP, bottom] : [bottom, bottom + GAP];
    context.fillStyle = colors.text;
    context.beginPath();
    context.moveTo(x + w / 2, tip);
    context.lineTo(x + w / 2 - MARK, base);
    context.lineTo(x + w / 2 + MARK, base);
    context.fill();
  }
}

/**
 * What waits for what, from the end of one to the start of the other; none where they would be a thicket.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintArrows(context, { picture, view, width }, colors) {
  const { tops, band } = picture.at;
  const seen = (picture.rank.arrows ?? []).filter(({ from_ns, to_ns }) => to_ns >= view.start && from_ns <= view.end);
  if (seen.length > width / ARROW_ROOM) return;
  const scale = width / view.length;
  for (const { from_lane, from_ns, to_lane, to_ns, held } of seen) {
    const down = to_lane > from_lane;
    const [y0, y1] = down ? [tops[from_lane] + band, tops[to_lane]] : [tops[from_lane], tops[to_lane] + band];
    const [x0, x1] = [from_ns, to_ns].map((ns) => (ns - view.start) * scale);
    context.globalAlpha = held ? 0.85 : 0.4;
    context.strokeStyle = colors.text;
    context.lineWidth = held ? 1.4 : 1;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, y0 + (y1 - y0) * 0.5, x1, y0 + (y1 - y0) * 0.5, x1, y1);
    context.stroke();
    const back = down ? -5 : 5;
    context.fillStyle = colors.text;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 3, y1 + back);
    context.lineTo(x1 + 3, y1 + back);
    context.fill();
  }
  context.globalAlpha = 1;
  context.lineWidth = 1;
}

/**
 * A run's name: on one line, else broken before its bracket, else upright; with its time where there is room.
 * @param {CanvasRenderingContext2D} context
 * @param {Run} run
 * @param {{ middle: number, room: number, y: number, band: number }} place
 */
function paintName(context, run, { middle, room, y, band }) {
  const name = shortName(run.box.name);
  const cut = name.lastIndexOf("(");
  const broken = cut > 0 ? [name.slice(0, cut), name.slice(cut)] : [name];
  /**
   * @param {string[]} lines
   * @param {number} size
   */
  const widest = (lines, size) => {
    context.font = bold(size);
    return Math.max(...lines.map((text) => context.measureText(text).width));
  };
  // One size where it fits, so that width says time and type says nothing.
  const fits = [
    { lines: [name], size: 12, edge: 6 },
    { lines: broken, size: 12, edge: 4 },
    { lines: broken, size: 11, edge: 4 },
  ].find(({ lines, size, edge }) => widest(lines, size) <= room - edge);
  if (fits) {
    writeLines(context, fits.lines, fits.size, timeOf(run), { middle, room, y });
    return;
  }
  context.font = bold(room > 15 ? 12 : 9);
  const upright = fitting(context, name, band - 8);
  if (!upright) return;
  context.save();
  context.translate(middle, y);
  context.rotate(-Math.PI / 2);
  rimmed(context, upright, 0, 0.5);
  context.restore();
}

/**
 * A text that fits into a width, its end cut off if it must be; "" where too little of it would be left.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} width
 */
function fitting(context, text, width) {
  const whole = context.measureText(text).width;
  if (whole <= width) return text;
  const kept = Math.floor((text.length * width) / whole) - 2;
  return kept >= 4 ? `${text.slice(0, kept)}…` : "";
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string[]} lines
 * @param {number} size
 * @param {string} time
 * @param {{ middle: number, room: number, y: number }} place
 */
function writeLines(context, lines, size, time, { middle, room, y }) {
  context.font = `400 11px ${SANS}`;
  const withTime = context.measureText(time).width <= room - 6;
  const step = size + 3;
  const top = y - ((lines.length - 1) * step + (withTime ? 17 : 0)) / 2;
  context.font = bold(size);
  lines.forEach((text, i) => rimmed(context, text, middle, top + i * step));
  if (!withTime) return;
  context.font = `400 11px ${SANS}`;
  context.globalAlpha = 0.85;
  rimmed(context, time, middle, top + (lines.length - 1) * step + 18);
  context.globalAlpha = 1;
}

/** @param {number} size */
function bold(size) {
  return `600 ${size}px ${SANS}`;
}

/**
 * Idle: nothing ran, so every band shows it, also inside the box of a phase that stood still.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintStops(context, { picture, view, width }, colors) {
  const { tops, band } = picture.at;
  const pattern = hatch(context, colors.idle);
  eachStretch(picture.idle, view, 0, width, (x, w) => {
    if (w < 2) return;
    for (const top of tops) {
      context.globalAlpha = 0.72;
      context.fillStyle = colors.raised;
      context.fillRect(x, top, w, band);
      context.globalAlpha = 1;
      context.fillStyle = pattern;
      context.fillRect(x, top, w, band);
    }
  });
}

/**
 * Exposed communication: a red hatch where the compute band stands still, and the cost written above the worst.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintExposed(context, { picture, view, width }, colors) {
  const { tops, band } = picture.at;
  const pattern = hatch(context, colors.exposed);
  const rows = picture.computeRows.length ? picture.computeRows : [0];
  /** @type {[x: number, width: number][]} */
  const stretches = [];
  eachStretch(picture.exposed, view, 0, width, (x, w) => {
    if (w < 1.5) return;
    for (const row of rows) {
      context.fillStyle = mix(colors.raised, colors.exposed, 0.16);
      context.globalAlpha = 0.9;
      context.fillRect(x, tops[row], w, band);
      context.globalAlpha = 1;
      context.fillStyle = pattern;
      context.fillRect(x, tops[row], w, band);
      context.strokeStyle = colors.exposed;
      context.strokeRect(x + 0.5, tops[row] + 0.5, Math.max(0.5, w - 1), band - 1);
    }
    stretches.push([x, w]);
  });
  const worst = stretches.sort((a, b) => b[1] - a[1]).filter(([, w]) => w >= 2);
  const nsOfPixel = view.length / width;
  paintCallouts(
    context,
    worst.slice(0, NUM_CALLOUTS).map(([x, w]) => ({ x: x + w / 2, text: `${duration(w * nsOfPixel)} exposed` })),
    { left: 0, right: width, top: AXIS + 1, color: colors.exposed },
  );
}

/**
 * Words in bubbles above what they tell of: the first come first, and none over another.
 * @param {CanvasRenderingContext2D} context
 * @param {{ x: number, text: string }[]} callouts
 * @param {{ left: number, right: number, top: number, color: string }} place
 */
export function paintCallouts(context, callouts, { left, right, top, color }) {
  /** @type {[from: number, to: number][]} */
  const taken = [];
  for (const { x, text } of callouts) {
    context.font = `600 11px ${SANS}`;
    const half = context.measureText(text).width / 2 + 7;
    if (2 * half > right - left) continue;
    const middle = Math.min(Math.max(x, left + half), right - half);
    if (taken.some(([from, to]) => middle + half > from && middle - half < to)) continue;
    taken.push([middle - half - 4, middle + half + 4]);
    context.fillStyle = color;
    context.beginPath();
    context.roundRect(middle - half, top, 2 * half, 16, 8);
    context.fill();
    context.fillRect(x - 0.75, top + 15, 1.5, 6);
    context.fillStyle = inkOn(color);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, middle, top + 8.5);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintStrip(context, { picture, view, width }, colors) {
  if (picture.lanes.length < 2) return;
  const y = picture.at.strip;
  context.fillStyle = colors.raised;
  context.fillRect(0, y, width, STRIP);
  paintFates(context, picture, view, width, y, STRIP, colors);
  // Words where a stretch is long: the strip explains itself.
  context.font = `500 11px ${SANS}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  /** @type {[from: number, to: number][]} */
  const taken = [];
  for (const word of /** @type {const} */ (["exposed", "idle", "hidden"])) {
    eachStretch(joined(picture[word], (2 * view.length) / width), view, 0, width, (x, w) => {
      const half = context.measureText(word).width / 2 + 6;
      const middle = x + w / 2;
      if (w < 2 * half || taken.some(([from, to]) => middle + half > from && middle - half < to)) return;
      const filled = lengthWithin(picture[word], timeOfPixel(view, width, x), timeOfPixel(view, width, x + w));
      if (filled < (MOSTLY * w * view.length) / width) return; // a stretch of many short ones is not one of them
      taken.push([middle - half, middle + half]);
      context.fillStyle = inkOn(colors[word]);
      context.fillText(word, middle, y + STRIP / 2 + 0.5);
    });
  }
}

/**
 * @param {import("./axis.js").View} view
 * @param {number} width
 * @param {number} x
 */
function timeOfPixel(view, width, x) {
  return view.start + (x / width) * view.length;
}

/**
 * The selected range.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintRanged(context, { picture, view, width, ranged }, colors) {
  if (!ranged) return;
  const [x0, x1] = ranged.map((ns) => ((ns - view.start) / view.length) * width);
  const high = picture.at.height - AXIS - FOOT;
  context.globalAlpha = 0.16;
  context.fillStyle = colors.accent;
  context.fillRect(x0, AXIS, x1 - x0, high);
  context.globalAlpha = 1;
  context.fillRect(x0 - 0.5, AXIS, 1, high);
  context.fillRect(x1 - 0.5, AXIS, 1, high);
}

/**
 * The timeline's window, as a bar at the foot.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 * @param {Palette} colors
 */
function paintMarked(context, { picture, view, width, marked }, colors) {
  if (!marked) return;
  const [from, to] = marked.map((ns) => ((ns - view.start) / view.length) * width);
  const x0 = Math.max(0, from);
  const x1 = Math.min(width, to);
  if (x1 <= x0) return;
  context.fillStyle = colors.accent;
  context.fillRect(x0, picture.at.height - 4, Math.max(3, x1 - x0), 3);
}
