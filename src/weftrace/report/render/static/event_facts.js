// What is known of one event, as lines of words. Each thing is said once, and with one precision.

import { bytes, duration, grouped, plural, shortName } from "render/format.js";
import { phaseAt } from "./around.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 * @typedef {import("./around.js").Around} Around
 * @typedef {[label: string, value: string]} Line
 */

/**
 * When it was, where, and in what.
 * @param {Timeline} timeline
 * @param {number} event
 * @param {Around} near
 * @param {page.Rank} rank
 * @returns {Line[]}
 */
export function placeLines(timeline, event, near, rank) {
  const { start, dur, names, name } = timeline;
  const track = trackOf(timeline, event);
  const phase = phaseAt(rank, timeline, event);
  const step = near.ranges.map((range) => /^ProfilerStep#(\d+)$/.exec(names[name[range]])?.[1]).find(Boolean);
  return present([
    ["starts", duration(start[event], 6)],
    ["takes", duration(dur[event])],
    ["ends", duration(start[event] + dur[event], 6)],
    track ? [track.kind === "thread" ? "thread" : "stream", track.label.replace(/^stream (?=\d)/, "")] : null,
    ["launch delay", near.launch < 0 ? null : duration(start[event] - start[near.launch])],
    ["phase", phase && `${shortName(phase.name)}, occurrence ${phase.index + 1}`],
    ["step", step ?? phase?.step],
    ["correlation", timeline.correlationOf(event)],
    ["CUDA graph", timeline.factsOf(event).graph],
  ]);
}

/**
 * How it ran on the device.
 * @param {import("./data.js").Facts} facts its own, and where it has none its launch's
 * @param {page.Rank} rank
 * @returns {Line[]}
 */
export function launchLines(facts, rank) {
  const blocks = product(facts.grid);
  const threads = product(facts.block);
  const sms = rank.num_sms;
  return present([
    ["grid", facts.grid && dims(facts.grid)],
    ["block", facts.block && `${dims(facts.block)}${threads === null ? "" : ` = ${plural(threads, "thread")}`}`],
    ["blocks", blocks === null ? null : grouped(blocks) + (sms ? ` on ${sms} ${rank.sm_unit}` : "")],
    [`${rank.sm_unit} held`, facts.sms === undefined ? null : `${facts.sms_exact ? "" : "at most "}${facts.sms}`],
    ["registers", facts.registers === undefined ? null : `${facts.registers} per thread`],
    ["shared memory", facts.shared_bytes ? `${bytes(facts.shared_bytes)} per block` : null],
    ["occupancy", facts.occupancy === undefined ? null : `${facts.occupancy} %, estimated`],
  ]);
}

/**
 * What moved: of a copy its bytes, of a collective its sizes and its group. algbw: bytes by time, in 10^9 bytes a
 * second.
 * @param {import("./data.js").Facts} facts its own, and where it has none its record's
 * @param {number} dur of the event; 0 on the host, where nothing moves
 * @returns {Line[]}
 */
export function movedLines(facts, dur) {
  const collective = facts.collective ?? null;
  const elements = facts.dtype ? ` ${facts.dtype}` : "";
  const rate = facts.bytes && dur ? `${grouped(facts.bytes / dur, facts.bytes / dur < 10 ? 3 : 1)} GB/s` : null;
  const group = [facts.group, facts.group_size === undefined ? null : plural(facts.group_size, "rank")];
  return present([
    ["collective", collective],
    [
      "bytes",
      facts.bytes === undefined
        ? null
        : `${bytes(facts.bytes)}${facts.bytes < 1024 ? "" : ` (${grouped(facts.bytes)})`}`,
    ],
    [collective ? "algbw" : "bandwidth", rate],
    ["in", facts.in_elems === undefined ? null : `${grouped(facts.in_elems)}${elements}`],
    ["out", facts.out_elems === undefined ? null : `${grouped(facts.out_elems)}${elements}`],
    ["process group", group.filter((part) => part !== null && part !== undefined).join(", ") || null],
    ["ranks", facts.ranks ? ranksInShort(facts.ranks) : null],
  ]);
}

/**
 * The arguments of an operator that have a shape or a type: "[1, 512] long int".
 * @param {import("./data.js").Facts} facts
 * @returns {string[]}
 */
export function argumentsOf({ shapes, types }) {
  const sizes = listIn(shapes);
  const kinds = listIn(types);
  if (!sizes) return [shapes, types].filter((text) => text !== undefined);
  return sizes
    .map((size, at) => {
      const kind = typeof kinds?.[at] === "string" ? kinds[at] : "";
      const shape = Array.isArray(size) && size.length ? JSON.stringify(size).replaceAll(",", ", ") : "";
      return [shape, kind].filter(Boolean).join(" ");
    })
    .filter(Boolean);
}

/**
 * The track that an event is drawn in.
 * @param {Timeline} timeline
 * @param {number} event
 */
function trackOf({ tracks }, event) {
  return tracks.find((track) => track.rows.some(([first, count]) => event >= first && event < first + count));
}

/**
 * @param {([label: string, value: string | number | null | undefined] | null)[]} lines
 * @returns {Line[]}
 */
function present(lines) {
  return lines.flatMap((line) =>
    line && line[1] !== null && line[1] !== undefined && line[1] !== "" ? [[line[0], String(line[1])]] : [],
  );
}

/**
 * @param {string | undefined} text
 * @returns {unknown[] | null}
 */
function listIn(text) {
  try {
    const value = JSON.parse(text ?? "");
    return Array.isArray(value) ? value : null;
  } catch {
    return null; // a text that was cut, or that never was a list
  }
}

/**
 * "[8,16,5]" as "8 × 16 × 5".
 * @param {string} text
 */
function dims(text) {
  return listIn(text)?.join(" × ") ?? text;
}

/** @param {string | undefined} text */
function product(text) {
  const list = listIn(text);
  return list?.length ? list.reduce((/** @type {number} */ all, each) => all * Number(each), 1) : null;
}

/**
 * "[0, 1, 2, 3, 8]" as "0–3, 8".
 * @param {string} text
 */
function ranksInShort(text) {
  const list = listIn(text);
  if (!list?.length || !list.every(Number.isInteger)) return text;
  const numbers = /** @type {number[]} */ (list);
  /** @type {[number, number][]} */
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
