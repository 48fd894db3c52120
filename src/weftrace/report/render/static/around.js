// What is around an event: the operators and ranges that were open when it began, its launch, what it launched. Found
// by time in the rows of its thread, so the page need not be told.

import { firstStartingAt } from "render/rows.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 *
 * What belongs to an event. launch: the call that started it; launched: the device events that it started; operators,
 * ranges: what was open at its start, or at its launch, innermost first.
 * @typedef {{ launch: number, launched: number[], operators: number[], ranges: number[] }} Around
 */

/**
 * @param {Timeline} timeline
 * @param {number} event
 * @returns {Around}
 */
export function around(timeline, event) {
  const onDevice = event < timeline.numDevice;
  const launch = onDevice ? timeline.launch[event] - 1 : -1;
  const host = onDevice ? launch : event;
  const open = host < 0 ? [] : enclosing(timeline, host);
  /** @param {number} each */
  const kind = (each) => timeline.className[timeline.kind[each]];
  return {
    launch,
    launched: onDevice ? [] : launchedBy(timeline, event),
    operators: open.filter((each) => !["annotation", "launch"].includes(kind(each))),
    ranges: open.filter((each) => kind(each) === "annotation"),
  };
}

/**
 * The events of its thread that were open when a host event began, innermost first.
 * @param {Timeline} timeline
 * @param {number} event
 */
function enclosing({ tracks, start, dur }, event) {
  /** @param {[number, number]} row */
  const holds = ([first, count]) => event >= first && event < first + count;
  const rows = tracks.find((track) => track.rows.some(holds))?.rows ?? [];
  const found = [];
  for (let depth = rows.findIndex(holds) - 1; depth >= 0; depth -= 1) {
    const [first, count] = rows[depth];
    const last = firstStartingAt(start, first, first + count, start[event] + 1) - 1;
    if (last >= first && start[last] + dur[last] > start[event]) found.push(last);
  }
  return found;
}

/**
 * @param {Timeline} timeline
 * @param {number} event
 */
function launchedBy({ launch }, event) {
  const found = [];
  for (let at = launch.indexOf(event + 1); at >= 0; at = launch.indexOf(event + 1, at + 1)) found.push(at);
  return found;
}

/**
 * The phase whose stretch and lane an event lies in; null where none or where two could claim it.
 * @param {page.Rank} rank
 * @param {Timeline} timeline
 * @param {number} event
 */
export function phaseAt(rank, timeline, event) {
  if (event >= timeline.numDevice) return null;
  const start = timeline.start[event];
  const end = start + timeline.dur[event];
  const lane = laneOf(timeline.className[timeline.kind[event]]);
  const fitting = rank.phases.filter((phase) => phase.start_ns <= start && end <= phase.end_ns && phase.lane === lane);
  return fitting.length === 1 ? fitting[0] : null;
}

/** @param {string} kind */
function laneOf(kind) {
  if (kind === "compute" || kind === "fused") return "compute";
  return kind === "communication" || kind === "barrier" ? "communication" : "";
}
