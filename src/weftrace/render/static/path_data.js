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
 * fills: when the path was in each class; rows: of each row the same of all its ops, and of those on the path.
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
 * @property {{ ops: Fill[], path: Fill[] }[]} rows
 */

/**
 * @param {Block} block
 * @returns {PathData}
 */
export function readPath(block) {
  const parts = eventsOf(block, block.parts, endToEnd(unpacked(block.parts.dur)));
  const ops = eventsOf(block, block.ops, Float64Array.from(unpacked(block.ops.start)));
  const path = eventsOf(block, block.path, Float64Array.from(unpacked(block.path.start)));
  const count = block.classes.length;
  return {
    block,
    ops,
    path,
    parts,
    slack: unpacked(block.ops.slack),
    cause: unpacked(block.path.cause),
    waitedFor: unpacked(block.path.waited_for),
    sure: unpacked(block.path.sure),
    fills: fillsOf(parts, count, 0, parts.num),
    rows: block.rows.map((row) => ({
      ops: fillsOf(ops, count, row.first, row.first + row.count),
      path: fillsOf(path, count, row.path_first, row.path_first + row.path_count),
    })),
  };
}

/** @param {Numbers} lengths */
function endToEnd(lengths) {
  const start = new Float64Array(lengths.length);
  for (let i = 1; i < lengths.length; i += 1) start[i] = start[i - 1] + lengths[i - 1];
  return start;
}

/**
 * @param {Block} block
 * @param {Block["parts"]} columns
 * @param {Float64Array} start
 * @returns {Events}
 */
function eventsOf({ names, roles }, columns, start) {
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
 * @param {Events} events
 * @param {number} count of classes
 * @param {number} first
 * @param {number} last
 */
function fillsOf({ start, dur, kind }, count, first, last) {
  /** @type {number[][][]} */
  const stretches = Array.from({ length: count }, () => []);
  for (let i = first; i < last; i += 1) stretches[kind[i]].push([start[i], start[i] + dur[i], dur[i]]);
  return stretches.map(fillOf);
}

/**
 * How long the path is in each class; position in `classes` -> ns.
 * @param {PathData} data
 */
export function classTimes({ parts, block }) {
  const times = block.classes.map(() => 0);
  for (let i = 0; i < parts.num; i += 1) times[parts.kind[i]] += parts.dur[i];
  return times;
}
