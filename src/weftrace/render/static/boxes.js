// The boxes of a rank's lanes, ready to draw: by row, in time order, each with its colour; and how busy the lane was,
// for a box says who ran and not that it ran all the time. Both pictures show them.

import { busyUntil, fillOf } from "./fills.js";
import { bisect } from "./intervals.js";
import { NUM_SHADES } from "./theme.js";

/**
 * @typedef {import("./axis.js").View} View
 * @typedef {import("./fills.js").Fill} Fill
 * @typedef {page.LaneBox & { row: number, lane: string }} Box
 * @typedef {{ of: (box: Box) => string, legend: [role: string, label: string][] }} Hues
 *
 * The lanes of a rank, in its order. computeRows: the rows of computation; between: the row under which stands the
 * strip that says what became of the communication.
 * @typedef {object} LaneBoxes
 * @property {page.Lane[]} lanes
 * @property {Box[]} boxes
 * @property {Box[][]} byRow
 * @property {Fill[]} fills a row
 * @property {Hues} hues
 * @property {number[]} computeRows
 * @property {number} between
 */

// A box's colour: by direction where the phases say one, else by micro-batch, else by name within its lane's class.
// Letters and names are those of weftrace.alphabet; a test compares them.
/** @type {Record<string, [role: string, label: string]>} */
const DIRECTIONS = {
  F: ["forward", "forward"],
  B: ["backward", "backward"],
  I: ["backward", "input gradient"],
  W: ["weight", "weight gradient"],
};
const SHADED = new Set(["compute", "communication"]); // lanes of one class: names have shades of its colour
const NUM_HUES = 8;
const SHADE = /^(?:compute|communication|hue)-?\d$/;
const BATCH_ROLES = ["batch0", "batch1", "hue3", "hue6"]; // of as many micro-batches as there are
const NO_BATCH = /layer|stage|block|rank|step|expert|chunk/i; // what else people number from 0
const NEAR = 12; // pixels: boxes of one phase that are nearer share a name
/** A run that was busy for less of its time has its name in the page's ink: most of its ground is cleared. */
export const DENSE = 0.6;
const TRIFLE = 0.1; // of a run's busy time: what takes less does not part it
const MICRO_BATCH = /(?:^|\D)([01])\)?$/; // ATTN0, DISPATCH1, attn(1): DeepSeek's names for two micro-batches

/**
 * The lanes of a rank, or of a plan, that hold any box. A box also knows its row and its lane's name.
 * @param {page.Lanes} rank
 * @param {Record<"compute" | "communication", number[]> | null} unions of all its events, where the page has them
 * @param {page.Lane[]} [beside] lanes of another picture, which has the same colours
 * @returns {LaneBoxes}
 */
export function laneBoxes(rank, unions, beside = []) {
  const lanes = rank.lanes.filter((lane) => lane.boxes.length);
  const byRow = lanes.map((lane, row) =>
    lane.boxes.map((box) => ({ ...box, row, lane: lane.lane })).sort((a, b) => a.start_ns - b.start_ns),
  );
  const boxes = byRow.flat();
  const others = beside.flatMap((lane) => lane.boxes.map((box) => ({ ...box, row: 0, lane: lane.lane })));
  const computeRows = lanes.flatMap((lane, row) => (classOf(lane.lane) === "compute" ? [row] : []));
  const between = Math.max(0, Math.min(computeRows.at(-1) ?? -1, lanes.length - 2));
  return {
    lanes,
    boxes,
    byRow,
    fills: lanes.map((lane) => fillOf(exact(lane, unions) ?? lane.busy)),
    hues: huesFor([...boxes, ...others]),
    computeRows,
    between,
  };
}

/**
 * The class of a lane: "compute" also of "compute 1", a micro-batch's own lane.
 * @param {string} lane
 */
export function classOf(lane) {
  return lane.split(" ")[0];
}

/**
 * Where the report had too much to list and merged neighbours, the lane's own events.
 * @param {page.Lane} lane
 * @param {Record<"compute" | "communication", number[]> | null} unions
 */
function exact(lane, unions) {
  const merged = lane.busy.some(([start, end, busy]) => busy < end - start);
  if (!merged || !unions || (lane.lane !== "compute" && lane.lane !== "communication")) return null;
  const flat = unions[lane.lane];
  return Array.from({ length: flat.length / 2 }, (_, i) => {
    const [start, end] = [flat[2 * i], flat[2 * i + 1]];
    return [start, end, end - start];
  });
}

/**
 * Takes away what is painted of a lane where it did not run: of each pixel's column, the part that it was not busy,
 * from above. What is left is as much as the lane worked, at every zoom.
 * @param {CanvasRenderingContext2D} context
 * @param {Fill} fill
 * @param {View} view
 * @param {{ width: number, y: number, height: number, ground: string }} place
 */
export function clearLulls(context, fill, view, { width, y, height, ground }) {
  const pixels = window.devicePixelRatio || 1;
  const columns = Math.ceil(width * pixels);
  const ns = view.length / (width * pixels);
  context.fillStyle = ground;
  let from = 0;
  let lull = 0;
  let busy = busyUntil(fill, view.start);
  for (let column = 0; column <= columns; column += 1) {
    const until = busyUntil(fill, view.start + (column + 1) * ns);
    const now = column < columns ? 1 - (until - busy) / ns : 0;
    busy = until;
    if (Math.abs(now - lull) < 1e-6) continue;
    if (lull > 1e-6) context.fillRect(from / pixels, y, (column - from) / pixels, lull * height);
    from = column;
    lull = now;
  }
}

/**
 * What is drawn under one name: boxes of one phase (outside phases, of one name) that hardly a pixel parts.
 * @typedef {{ box: Box, start_ns: number, end_ns: number, busy_ns: number }} Run
 */

/**
 * The part of a run in which its phase ran.
 * @param {Run} run
 */
export function densityOf({ start_ns, end_ns, busy_ns }) {
  return busy_ns / (end_ns - start_ns);
}

/**
 * Calls draw(run, x0, x1) for the runs of boxes in view.
 * @param {Box[]} line
 * @param {View} view
 * @param {number} width
 * @param {(run: Run, x0: number, x1: number) => void} draw
 */
export function eachRun(line, view, width, draw) {
  const scale = width / view.length;
  /** @type {Run | null} */
  let run = null;
  const flush = () => {
    if (run) draw(run, (run.start_ns - view.start) * scale, (run.end_ns - view.start) * scale);
  };
  for (let i = firstVisible(line, view.start); i < line.length && line[i].start_ns < view.end; i += 1) {
    const box = line[i];
    const near = run !== null && (box.start_ns - run.end_ns) * scale < NEAR;
    if (run && near && box.name === run.box.name && box.phase === run.box.phase) {
      run.end_ns = Math.max(run.end_ns, box.end_ns);
      run.busy_ns += box.busy_ns;
    } else if (!run || !near || box.busy_ns > TRIFLE * run.busy_ns) {
      flush();
      run = { box, start_ns: box.start_ns, end_ns: box.end_ns, busy_ns: box.busy_ns };
    }
  }
  flush();
}

/**
 * The phase that a box is a stretch of: same name and occurrence, around the box in time; undefined where it is none.
 * @param {page.Lanes} rank
 * @param {Box} box
 */
export function phaseOf(rank, box) {
  return rank.phases?.find(
    (phase) =>
      phase.name === box.name &&
      phase.index === box.index &&
      phase.start_ns <= box.start_ns &&
      box.end_ns <= phase.end_ns,
  );
}

/**
 * Calls draw(box, x0, x1) for the boxes in view; of boxes thinner than a pixel, one a pixel.
 * @param {Box[]} line
 * @param {View} view
 * @param {number} width
 * @param {(box: Box, x0: number, x1: number) => void} draw
 */
export function eachBox(line, view, width, draw) {
  const scale = width / view.length;
  let last = -Infinity;
  for (let i = firstVisible(line, view.start); i < line.length && line[i].start_ns < view.end; i += 1) {
    const x0 = Math.max(-8, (line[i].start_ns - view.start) * scale);
    const x1 = Math.min(width + 8, (line[i].end_ns - view.start) * scale);
    if (x1 - x0 < 1 && x1 - last < 0.5) continue; // this pixel is taken
    last = Math.max(x1, x0 + 1);
    draw(line[i], x0, x1);
  }
}

/**
 * The box of a line at a time, give or take `slack` ns; null where there is none.
 * @param {Box[]} line
 * @param {number} time
 * @param {number} slack
 * @returns {Box | null}
 */
export function boxAtTime(line, time, slack) {
  const box = line[firstVisible(line, time - slack)];
  return box && box.start_ns - slack <= time ? box : null;
}

/**
 * @param {Box[]} line
 * @param {number} time
 */
function firstVisible(line, time) {
  return bisect(0, line.length, (at) => line[at].end_ns > time);
}

/**
 * The role and the name of a box's direction; undefined where its phase says none.
 * @param {Box} box
 * @returns {[role: string, label: string] | undefined}
 */
export function directionOf(box) {
  return DIRECTIONS[box.direction ?? ""];
}

/**
 * What tells a box's micro-batch, where phases without directions take turns between several: the plan or the range
 * that they were launched in, else names as DeepSeek gives them. Undefined for boxes of none.
 * @param {Box[]} boxes
 * @returns {(box: Box) => number | undefined}
 */
function batchesOf(boxes) {
  const phases = boxes.filter((box) => !directionOf(box) && box.phase !== null);
  const told = new Set(phases.map((box) => box.micro_batch));
  if (told.size > 1 && [...told].every((batch) => batch !== null && batch < BATCH_ROLES.length)) {
    return (box) => box.micro_batch ?? undefined;
  }
  const named = new Set(phases.map((box) => (NO_BATCH.test(box.name) ? null : box.name.match(MICRO_BATCH)?.[1])));
  if (named.size !== 2 || !named.has("0") || !named.has("1")) return () => undefined;
  return (box) => {
    const batch = box.phase === null ? undefined : box.name.match(MICRO_BATCH)?.[1];
    return batch === undefined ? undefined : Number(batch);
  };
}

/**
 * {of(box) -> role in the palette, legend: [[role, label]]} for the boxes of one picture. No role has two labels.
 * @param {Box[]} boxes
 * @returns {Hues}
 */
function huesFor(boxes) {
  const batchOf = batchesOf(boxes);
  const named = namedHues(boxes.filter((box) => !directionOf(box) && batchOf(box) === undefined));
  /**
   * @param {Box} box
   * @returns {[role: string, label: string]}
   */
  const of = (box) => {
    const batch = batchOf(box);
    return directionOf(box) ?? (batch === undefined ? named(box) : [BATCH_ROLES[batch], `micro-batch ${batch}`]);
  };
  /** @type {Map<string, [role: string, label: string]>} */
  const legend = new Map();
  for (const box of boxes) {
    const [role, label] = of(box);
    // Input gradients are drawn as backward is: one key for both.
    const both = legend.get(role)?.[1] ?? label;
    legend.set(role, [role, both === label || both.includes(label) ? both : `${both}, ${label}`]);
  }
  // Names stand in the order of their shades, most time first.
  const keys = [...legend.values()].sort(([a], [b]) => Number(SHADE.test(a)) - Number(SHADE.test(b)) || order(a, b));
  return { of: (box) => of(box)[0], legend: keys };
}

/**
 * @param {string} a
 * @param {string} b
 */
function order(a, b) {
  const ranked = SHADE.test(a) || (BATCH_ROLES.includes(a) && BATCH_ROLES.includes(b));
  return ranked ? BATCH_ROLES.indexOf(a) - BATCH_ROLES.indexOf(b) || a.localeCompare(b, "en") : 0;
}

/**
 * Colours by name: shades of the lane's class, most time first; in lanes that are no class, hues of no other meaning.
 * What comes after the last of them shares one, under a label that says so.
 * @param {Box[]} boxes
 * @returns {(box: Box) => [role: string, label: string]}
 */
function namedHues(boxes) {
  /** @type {Map<string, Map<string, number>>} */
  const time = new Map();
  for (const box of boxes) {
    const names = time.get(groupOf(box)) ?? new Map();
    names.set(box.name, (names.get(box.name) ?? 0) + box.busy_ns);
    time.set(groupOf(box), names);
  }
  /** @type {Map<string, [role: string, label: string]>} */
  const roles = new Map();
  for (const [group, names] of time) {
    const ranked = [...names].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const [stem, room] = SHADED.has(group) ? [`${group}-`, NUM_SHADES] : ["hue", NUM_HUES];
    const others = `${ranked.length - room + 1} other names${SHADED.has(group) ? ` of ${group}` : ""}`;
    ranked.forEach((name, at) => {
      const last = ranked.length > room && at >= room - 1;
      const twice = [...time.values()].filter((of) => of.has(name)).length > 1; // it has a shade in each lane's class
      const label = last ? others : twice && group ? `${name}, ${group}` : name;
      roles.set(`${group}\n${name}`, [`${stem}${Math.min(at, room - 1) + 1}`, label]);
    });
  }
  return (box) => roles.get(`${groupOf(box)}\n${box.name}`) ?? ["other", box.name];
}

/** @param {Box} box */
function groupOf(box) {
  return SHADED.has(classOf(box.lane)) ? classOf(box.lane) : "";
}
