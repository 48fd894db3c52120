// The boxes of a rank's lanes, ready to draw: by row, in time order, each with its colour. Both pictures show them.

/**
 * @typedef {import("./axis.js").View} View
 * @typedef {page.LaneBox & { row: number, lane: string }} Box
 * @typedef {{ of: (box: Box) => string, legend: [role: string, label: string][] }} Hues
 *
 * The lanes of a rank, in its order. computeRow: the row of computation, -1 for none; between: the row under which the
 * strip stands that says what became of the communication.
 * @typedef {object} LaneBoxes
 * @property {page.Lane[]} lanes
 * @property {Box[]} boxes
 * @property {Box[][]} byRow
 * @property {Hues} hues
 * @property {number} computeRow
 * @property {number} between
 */

// A box's colour: by direction where the phases say one, else by micro-batch, else by name. Letters and names are those
// of weftrace.alphabet; a test compares them.
/** @type {Record<string, [role: string, label: string]>} */
const DIRECTIONS = {
  F: ["forward", "forward"],
  B: ["backward", "backward"],
  I: ["backward", "input gradient"],
  W: ["weight", "weight gradient"],
};
const MICRO_BATCH = /(?:^|\D)([01])\)?$/; // ATTN0, DISPATCH1, attn(1): DeepSeek's names for two micro-batches

/**
 * The lanes of a rank that hold any box. A box also knows its row and its lane's name.
 * @param {page.Rank} rank
 * @returns {LaneBoxes}
 */
export function laneBoxes(rank) {
  const lanes = rank.lanes.filter((lane) => lane.boxes.length);
  const byRow = lanes.map((lane, row) =>
    lane.boxes.map((box) => ({ ...box, row, lane: lane.lane })).sort((a, b) => a.start_ns - b.start_ns),
  );
  const boxes = byRow.flat();
  const computeRow = lanes.findIndex((lane) => lane.lane === "compute");
  const between = Math.max(0, Math.min(computeRow, lanes.length - 2));
  return { lanes, boxes, byRow, hues: huesFor(boxes), computeRow, between };
}

/**
 * The phase that a box is a stretch of: same name and occurrence, around the box in time; undefined where it is none.
 * @param {page.Rank} rank
 * @param {Box} box
 */
export function phaseOf(rank, box) {
  return rank.phases.find(
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
  let low = 0;
  let high = line.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line[middle].end_ns > time) high = middle;
    else low = middle + 1;
  }
  return low;
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
 * {of(box) -> role in the palette, legend: [[role, label]]} for the boxes of one picture.
 * @param {Box[]} boxes
 * @returns {Hues}
 */
function huesFor(boxes) {
  /** @type {Map<string, string>} */
  const legend = new Map();
  const undirected = boxes.filter((box) => !directionOf(box));
  const batches = new Set(undirected.map((box) => box.name.match(MICRO_BATCH)?.[1]));
  const byBatch = batches.has("0") && batches.has("1");
  /** @type {Map<string, [string, string]>} */
  const byName = new Map();
  /**
   * @param {Box} box
   * @returns {[role: string, label: string]}
   */
  const of = (box) => {
    const known = directionOf(box);
    if (known) return known;
    const batch = byBatch ? box.name.match(MICRO_BATCH)?.[1] : undefined;
    if (batch !== undefined) return [batch === "0" ? "forward" : "backward", `micro-batch ${batch}`];
    const named = byName.get(box.name) ?? [`hue${(byName.size % 8) + 1}`, box.name];
    byName.set(box.name, named);
    return named;
  };
  for (const box of boxes) {
    const [role, label] = of(box);
    if (!legend.has(label)) legend.set(label, role);
  }
  return { of: (box) => of(box)[0], legend: [...legend].map(([label, role]) => [role, label]) };
}
