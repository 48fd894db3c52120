// Gaps of the device: which one is under the pointer, and what it waited for.

import { duration, percent, shortName, withoutFolders } from "render/format.js";
import { firstEndingAfter } from "render/intervals.js";
import { unpacked } from "render/packed.js";
import { tipRows, wordOf } from "render/tooltip.js";
import { IDLE_PARTS } from "./parts.js";

/**
 * @typedef {{ part: string, cause: string, ns: number, name: string }} Piece
 * @typedef {{ start: number, end: number, before: string, after: string, call: string, pieces: Piece[] }} Gap
 *
 * The longest gaps of a rank, in order. flat: their starts and ends; times count from the rank's start, in ns;
 * unrecorded: flat too, where work ran that the file lacks.
 * @typedef {object} Gaps
 * @property {number[]} flat
 * @property {number[]} unrecorded
 * @property {number} leftOut
 * @property {(at: number) => Gap} of
 */

/**
 * @param {page.Timeline["gaps"]} payload
 * @param {number} shift from the payload's zero to the rank's
 * @returns {Gaps}
 */
export function readGaps(payload, shift) {
  if (!payload) return { flat: [], unrecorded: [], leftOut: 0, of: () => missing() };
  const zero = payload.first_ns + shift;
  const start = unpacked(payload.start);
  const dur = unpacked(payload.dur);
  const [before, after, call] = [payload.before, payload.after, payload.call].map(unpacked);
  const [part, cause, ns, name] = [payload.part, payload.cause, payload.ns, payload.name].map(unpacked);
  const first = [0];
  for (const number of unpacked(payload.rows)) first.push(first[first.length - 1] + number);
  /** @param {number} code */
  const text = (code) => (code ? payload.names[code - 1] : "");
  return {
    flat: stretches(start, dur, zero),
    unrecorded: stretches(unpacked(payload.unrecorded_start), unpacked(payload.unrecorded_dur), zero),
    leftOut: payload.left_out,
    of: (at) => ({
      start: start[at] + zero,
      end: start[at] + dur[at] + zero,
      before: text(before[at]),
      after: text(after[at]),
      call: text(call[at]),
      pieces: Array.from({ length: first[at + 1] - first[at] }, (_, row) => first[at] + row).map((row) => ({
        part: payload.parts[part[row]],
        cause: payload.causes[cause[row]],
        ns: ns[row],
        name: text(name[row]),
      })),
    }),
  };
}

/** @returns {never} */
function missing() {
  throw new Error("there are no gaps");
}

/**
 * @param {import("render/packed.js").Numbers} start
 * @param {import("render/packed.js").Numbers} dur
 * @param {number} zero
 */
function stretches(start, dur, zero) {
  /** @type {number[]} */
  const flat = [];
  for (let at = 0; at < start.length; at += 1) flat.push(start[at] + zero, start[at] + dur[at] + zero);
  return flat;
}

/**
 * The gap at a time, as its number; -1 where there is none.
 * @param {Gaps} gaps
 * @param {number} time
 */
export function gapAt({ flat }, time) {
  const at = firstEndingAfter(flat, time);
  return at < flat.length && flat[at] <= time ? at / 2 : -1;
}

const UNRECORDED = ["unrecorded", "file_cut"];

/**
 * What a gap is charged to, most time first: each cause once, with where most of it lies.
 * @param {Gap} gap
 */
export function causesOf({ pieces }) {
  /** @type {Map<string, { cause: string, ns: number, name: string, most: number }>} */
  const found = new Map();
  for (const { cause, ns, name } of pieces) {
    const sum = found.get(cause) ?? { cause, ns: 0, name: "", most: 0 };
    const largest = ns > sum.most ? { name, most: ns } : { name: sum.name, most: sum.most };
    found.set(cause, { cause, ns: sum.ns + ns, ...largest });
  }
  return [...found.values()].sort((a, b) => b.ns - a.ns);
}

/**
 * The same as lines of words.
 * @param {Gap} gap
 * @returns {[label: string, value: string][]}
 */
export function causeLines(gap) {
  return causesOf(gap).map(({ cause, ns, name }) => [
    wordOf(`cause_${cause}`),
    `${duration(ns)} (${percent(ns / (gap.end - gap.start))})${name ? ` in ${withoutFolders(name)}` : ""}`,
  ]);
}

/**
 * Its parts, in the shape of `idle_account`.
 * @param {Gap} gap
 */
export function gapParts({ start, end, pieces }) {
  const of = /** @type {Record<`${import("./parts.js").IdlePart}_ns` | "span", number>} */ (
    Object.fromEntries(IDLE_PARTS.map(([key]) => [key, 0]))
  );
  for (const { part, cause, ns } of pieces) {
    const own = UNRECORDED.includes(cause) ? "unrecorded" : /** @type {import("./parts.js").IdlePart} */ (part);
    of[`${own}_ns`] += ns;
  }
  return { ...of, span: end - start };
}

/**
 * A gap is none of idle time, where most of it is unrecorded.
 * @param {Gap} gap
 */
export function gapTitle(gap) {
  const hidden = UNRECORDED.includes(causesOf(gap)[0].cause);
  return `${hidden ? "Unrecorded" : "The device waited"} ${duration(gap.end - gap.start)}`;
}

/**
 * @param {Gap} gap
 * @param {string} color
 */
export function gapTip(gap, color) {
  const lines = causeLines(gap).slice(0, 3);
  return tipRows(gapTitle(gap), color, [...lines, ["until", shortName(gap.after)], ["", "click for details"]]);
}
