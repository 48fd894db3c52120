// A critical path as a page holds it, its columns unpacked: all ops, the path's, and its parts that lie end to end.

import { fillOf } from "./fills.js";
import { unpacked } from "./packed.js";

/**
 * @typedef {import("./rows.js").Events} Events
 * @typedef {import("./fills.js").Fill} Fill
 * @typedef {import("./packed.js").Numbers} Numbers
 * @typedef {page.PathPicture} Block
 *
 * ops, path, parts: what rows are painted of. slack: of ops; cause, waitedFor, sure: of the path's, as in the block.
 * fills: of each class, when the path was in it.
 * @typedef {object} PathData
 * @property {Block} block
 * @property {Events} ops
 * @property {Events} path
 * @property {Events} parts
 * @property {Numbers} slack
 * @property {Numbers} cause
 * @property {Numbers} waitedFor
 * @property {Numbers} sure
 * @property {Fill[]} fills
 */

/**
 * @param {Block} block
 * @returns {PathData}
 */
export function readPath(block) {
  const parts = eventsOf(block, block.parts);
  return {
    block,
    ops: eventsOf(block, block.ops),
    path: eventsOf(block, block.path),
    parts,
    slack: unpacked(block.ops.slack),
    cause: unpacked(block.path.cause),
    waitedFor: unpacked(block.path.waited_for),
    sure: unpacked(block.path.sure),
    fills: fillsOf(parts, block.classes.length),
  };
}

/**
 * @param {Block} block
 * @param {Block["parts"]} columns
 * @returns {Events}
 */
function eventsOf({ names, roles }, columns) {
  const start = Float64Array.from(unpacked(columns.start));
  return {
    num: start.length,
    start,
    dur: unpacked(columns.dur),
    name: unpacked(columns.name),
    kind: unpacked(columns.class),
    names,
    className: roles,
  };
}

/**
 * @param {Events} parts
 * @param {number} count
 */
function fillsOf({ num, start, dur, kind }, count) {
  /** @type {number[][][]} */
  const stretches = Array.from({ length: count }, () => []);
  for (let i = 0; i < num; i += 1) stretches[kind[i]].push([start[i], start[i] + dur[i], dur[i]]);
  return stretches.map(fillOf);
}

/**
 * How long the path is in each class within a stretch of time; position in `classes` -> ns.
 * @param {PathData} data
 */
export function classTimes({ parts, block }) {
  const times = block.classes.map(() => 0);
  for (let i = 0; i < parts.num; i += 1) times[parts.kind[i]] += parts.dur[i];
  return times;
}
