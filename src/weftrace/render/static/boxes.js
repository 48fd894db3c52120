// The boxes of a rank's lanes, ready to draw: by row, in time order, each with its colour. Both pictures show them.

import { huesFor } from "./hues.js";

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
