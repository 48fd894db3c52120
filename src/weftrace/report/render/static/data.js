// The data blocks of the page, read once: the report document, and each rank's timeline as typed arrays.

import { readBlock } from "render/dom.js";
import { union } from "render/intervals.js";
import { rowsOf, unpacked } from "render/packed.js";
import { readGaps } from "./gaps.js";

/**
 * @typedef {import("render/packed.js").Numbers} Numbers
 * @typedef {{ compute: number[], communication: number[], memory: number[] }} Unions
 */

/**
 * A rank's timeline, a number for each event. Times count from the rank's start, in ns.
 * @typedef {object} Events
 * @property {number} num
 * @property {number} numDevice the first events are the device's
 * @property {Float64Array} start
 * @property {Numbers} dur
 * @property {Numbers} name position in `names`
 * @property {Numbers} kind position in `className`
 * @property {Numbers} launch 1 + the call that launched it, or 0
 * @property {string[]} className
 * @property {number} firstNs
 * @property {number} endNs
 * @property {(event: number) => Facts} factsOf what else is known of an event
 * @property {(event: number) => number | null} correlationOf of a device event
 * @property {import("./gaps.js").Gaps} waits the longest gaps of the device
 * @property {number[]} unrecorded stretches in which work ran that the file lacks, as a flat list
 *
 * @typedef {page.Timeline & Events} Timeline
 *
 * A row of a timeline's facts with its texts in place.
 * @typedef {"grid" | "block" | "operator" | "shapes" | "types" | "stack" | "collective" | "dtype" | "group" |
 *   "ranks"} TextFact
 * @typedef {"registers" | "shared_bytes" | "occupancy" | "sms" | "sms_exact" | "bytes" | "in_elems" | "out_elems" |
 *   "group_size" | "graph"} NumberFact
 * @typedef {Partial<Record<TextFact, string>> & Partial<Record<NumberFact, number>>} Facts
 */

/** @type {WeakMap<Timeline, Unions>} */
const unions = new WeakMap();

/** Fields of a row of facts that are positions in its texts. */
const TEXTS = new Set("grid block operator shapes types stack collective dtype group ranks".split(" "));

/**
 * Gives the ranks of a report what only their own tables and pictures show. It lies in a block per rank, which is read
 * when any of it is first asked for; copies of a rank do not have it. Returns the positions of the ranks read so far.
 * @param {page.ReportBlock} report
 * @returns {Set<number>}
 */
export function withDetails({ ranks, details: names }) {
  /** @type {Set<number>} */
  const read = new Set();
  ranks.forEach((rank, position) => {
    /** @type {page.RankBlock | null} */
    let held = null;
    const own = () => {
      held ??= /** @type {page.RankBlock} */ (rowsOf(readBlock(`weftrace-rank-${position}`)));
      read.add(position);
      return held;
    };
    later(rank, names.rank, () => own().rank);
    if (rank.idle_account) later(rank.idle_account, names.idle_account, () => own().idle_account);
    rank.lanes.forEach((lane, at) => later(lane, names.lane, () => own().lane[at]));
  });
  return read;
}

/**
 * @param {object} target
 * @param {string[]} names of fields
 * @param {() => Record<string, unknown>} source which has them
 */
function later(target, names, source) {
  for (const name of names) Object.defineProperty(target, name, { get: () => source()[name] });
}

/**
 * The timeline of the rank at a position in the report, or null where the page holds none.
 * @param {number} index
 * @returns {Timeline | null}
 */
export function readTimeline(index) {
  const id = `weftrace-timeline-${index}`;
  if (!document.getElementById(id)) return null;
  /** @type {page.Timeline} */
  const payload = readBlock(id);
  const columns = payload.columns;
  const start = unpacked(columns.start);
  // Times count from the rank's own start, as everywhere in the report: int64 on disk, exact in a float64 up to 2^53
  // ns.
  const origin = payload.first_ns + payload.shift_ns;
  const startNs = new Float64Array(start.length);
  for (let i = 0; i < start.length; i += 1) startNs[i] = start[i] + origin;
  const codes = unpacked(columns.facts);
  const correlations = unpacked(columns.correlation);
  const waits = readGaps(payload.gaps, payload.shift_ns);
  return {
    ...payload,
    num: payload.num_events,
    numDevice: payload.num_device,
    start: startNs,
    dur: unpacked(columns.dur),
    name: unpacked(columns.name),
    kind: unpacked(columns.class),
    launch: unpacked(columns.launch),
    className: payload.classes,
    firstNs: origin,
    endNs: payload.end_ns + payload.shift_ns,
    factsOf: (event) => factsAt(payload.facts, codes[event] - 1),
    waits,
    unrecorded: waits.unrecorded,
    correlationOf: (event) => (correlations[event] ? payload.first_correlation + correlations[event] - 1 : null),
  };
}

/**
 * @param {page.Timeline["facts"]} facts
 * @param {number} position
 * @returns {Facts}
 */
function factsAt({ texts, rows }, position) {
  const row = Object.entries(rows[position] ?? {});
  return Object.fromEntries(row.map(([key, value]) => [key, TEXTS.has(key) ? texts[value] : value]));
}

/**
 * Unions of a timeline's counted events by class, computed when first asked for: {compute, communication, memory}.
 * @param {Timeline} timeline
 * @returns {Unions}
 */
export function classUnions(timeline) {
  const known = unions.get(timeline);
  if (known) return known;
  /** @type {Record<string, [number, number][]>} */
  const pairs = { compute: [], communication: [], memory: [] };
  /** Fused kernels hold the SMs: they stand with compute.
   * @type {Record<string, string>} */
  const within = { barrier: "communication", fused: "compute" };
  const bin = timeline.className.map((name) => pairs[within[name] ?? name]);
  for (let i = 0; i < timeline.num; i += 1) {
    bin[timeline.kind[i]]?.push([timeline.start[i], timeline.start[i] + timeline.dur[i]]);
  }
  const found = {
    compute: union(pairs.compute),
    communication: union(pairs.communication),
    memory: union(pairs.memory),
  };
  unions.set(timeline, found);
  return found;
}
