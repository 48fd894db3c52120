// The boxes of a rank's lanes, ready to draw: by row, in time order, each with its colour. Both pictures show them.

// A box's colour: by direction where the phases say one, else by micro-batch, else by name.
const DIRECTIONS = {
  F: ["forward", "forward"],
  B: ["backward", "backward"],
  I: ["backward", "input gradient"],
  W: ["weight", "weight gradient"],
};
const MICRO_BATCH = /(?:^|\D)([01])\)?$/; // ATTN0, DISPATCH1, attn(1): DeepSeek's names for two micro-batches

/** {lanes, boxes, byRow, hues} of a rank, of lanes that hold any box. A box also knows its row and its lane's name. */
export function laneBoxes(rank) {
  const lanes = rank.lanes.filter((lane) => lane.boxes.length);
  const byRow = lanes.map((lane, row) =>
    lane.boxes.map((box) => ({ ...box, row, lane: lane.lane })).sort((a, b) => a.start_ns - b.start_ns),
  );
  const boxes = byRow.flat();
  return { lanes, boxes, byRow, hues: huesFor(boxes) };
}

/** The phase that a box is a stretch of: same name and occurrence, around the box in time; undefined where it is none. */
export function phaseOf(rank, box) {
  return rank.phases.find(
    (phase) =>
      phase.name === box.name &&
      phase.index === box.index &&
      phase.start_ns <= box.start_ns &&
      box.end_ns <= phase.end_ns,
  );
}

/** Calls draw(box, x0, x1) for the boxes in view; of boxes thinner than a pixel, one a pixel. */
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

/** The box of a line at a time, give or take `slack` ns; null where there is none. */
export function boxAtTime(line, time, slack) {
  const box = line[firstVisible(line, time - slack)];
  return box && box.start_ns - slack <= time ? box : null;
}

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

/** {of(box) -> role in the palette, legend: [[role, label]]} for the boxes of one picture. */
function huesFor(boxes) {
  const legend = new Map();
  const undirected = boxes.filter((box) => !DIRECTIONS[box.direction]);
  const batches = new Set(undirected.map((box) => box.name.match(MICRO_BATCH)?.[1]));
  const byBatch = batches.has("0") && batches.has("1");
  const byName = new Map();
  const of = (box) => {
    if (DIRECTIONS[box.direction]) return DIRECTIONS[box.direction];
    const batch = byBatch ? box.name.match(MICRO_BATCH)?.[1] : undefined;
    if (batch !== undefined) return [batch === "0" ? "forward" : "backward", `micro-batch ${batch}`];
    if (!byName.has(box.name)) byName.set(box.name, [`hue${(byName.size % 8) + 1}`, box.name]);
    return byName.get(box.name);
  };
  for (const box of boxes) {
    const [role, label] = of(box);
    if (!legend.has(label)) legend.set(label, role);
  }
  return { of: (box) => of(box)[0], legend: [...legend].map(([label, role]) => [role, label]) };
}
