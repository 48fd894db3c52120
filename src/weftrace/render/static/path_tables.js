// What is told of a critical path beside its picture: how far the replay is off, tables of its parts, its unsure waits.

import { fill, h } from "./dom.js";
import { duration, grouped, percent, plural } from "./format.js";
import { kernelName, sortableTable } from "./tables.js";

/**
 * @typedef {page.PathBlock} PathBlock
 * @typedef {PathBlock["by"]["classes"][number]} Share
 * @typedef {PathBlock["waits"][number]} Wait
 */

/** @type {[keyof PathBlock["by"], string, string][]} */
const LISTS = [
  ["classes", "Class", "class"],
  ["phases", "Phase", "phase"],
  ["families", "Kernel family", "family"],
  ["kernels", "Kernel", "kernel"],
  ["causes", "Reached by", "reached by"],
  ["ranks", "Rank", "rank"],
];

/**
 * A part with its sign: 0.0082 as "+0.82 %".
 * @param {number} part
 * @param {number} [digits]
 */
export function signed(part, digits = 2) {
  return `${part < 0 ? "−" : "+"}${grouped(100 * Math.abs(part), digits)} %`;
}

/**
 * The replay beside the measurement, in a sentence.
 * @param {PathBlock["replay"]} replay
 */
export function replayWords(replay) {
  const { worst_phase: phase, worst_phase_ns: off, late_starts: late, unexplained_starts: unexplained } = replay;
  const parts = [
    `Replayed ${duration(replay.replayed_ns, 4)}, measured ${duration(replay.span_ns, 4)}: ${signed(replay.error)}`,
  ];
  if (phase !== null) parts.push(`worst end of a phase: ${phase}, by ${duration(off)}`);
  if (late) parts.push(`${grouped(unexplained)} of ${plural(late, "late start")} unexplained`);
  return `${parts.join("; ")}.`;
}

/**
 * What the replay keeps of the run, in a sentence.
 * @param {PathBlock["replay"]} replay
 */
export function keptWords({ gap_ns: gap, launch_latency_ns: launch, wait_latency_ns: wait }) {
  const latencies = `a launch latency of ${duration(launch)}, ${duration(wait)} from an op to one that waited for it`;
  return `Kept of the run: measured durations, one gap of ${duration(gap)}, ${latencies}, and the waits.`;
}

/**
 * A warning where a replay is too far off to be believed.
 * @param {HTMLElement} banner
 * @param {PathBlock["replay"]} replay
 */
export function showTrust(banner, replay) {
  banner.hidden = replay.is_trustworthy;
  const off = signed(replay.error);
  banner.textContent = `The replay is ${off} off the measured span, more than 3 %: what follows is not to be trusted.`;
}

/**
 * The path's time by class, phase, kernel ...: buttons choose which.
 * @param {HTMLElement} choices
 * @param {HTMLElement} holder
 * @param {PathBlock["by"]} by
 */
export function partTables(choices, holder, by) {
  const lists = LISTS.filter(([key]) => key !== "ranks" || by.ranks.length > 1);
  show("classes");
  return show;

  /** @param {keyof PathBlock["by"]} chosen */
  function show(chosen) {
    /** @param {(typeof LISTS)[number]} list */
    const button = ([key, label]) =>
      h("button", {
        type: "button",
        text: label,
        "aria-pressed": String(key === chosen),
        on: { click: () => show(key) },
      });
    fill(choices, lists.map(button));
    const label = LISTS.find(([key]) => key === chosen)?.[2] ?? "";
    fill(holder, shareTable(by[chosen], label, chosen).element);
  }
}

/**
 * @param {Share[]} rows
 * @param {string} label
 * @param {keyof PathBlock["by"]} of
 */
function shareTable(rows, label, of) {
  /** @type {import("./tables.js").Column<Share>[]} */
  const columns = [
    {
      key: "name",
      label,
      kind: "text",
      wide: of === "kernels",
      def: of === "causes" ? "cause" : undefined,
      node: of === "kernels" ? (row) => kernelName(row.name) : undefined,
    },
    { key: "time_ns", label: "on the path", kind: "time", def: "path", bar: (row) => row.share },
    { key: "share", label: "of the span", kind: "percent", text: (row) => percent(row.share) },
  ];
  return sortableTable({ name: `path-${of}`, columns, rows, sort: { key: "time_ns", down: true }, limit: 15 });
}

/**
 * Waits on the path that are not certain.
 * @param {HTMLElement} holder
 * @param {Wait[]} rows
 * @param {(row: Wait) => void} onRow
 */
export function waitTable(holder, rows, onRow) {
  /** @type {import("./tables.js").Column<Wait>[]} */
  const columns = [
    { key: "name", label: "op", kind: "text", wide: true, node: (row) => kernelName(row.name) },
    { key: "waited_for", label: "waited for", kind: "text", wide: true, node: (row) => kernelName(row.waited_for) },
    { key: "source", label: "known from", kind: "text" },
    { key: "votes_for", label: "votes for", kind: "count" },
    { key: "votes_against", label: "against", kind: "count" },
    {
      key: "confidence",
      label: "confidence",
      kind: "percent",
      def: "confidence",
      text: (row) => percent(row.confidence, 0),
    },
    { key: "at_ns", label: "at", kind: "time" },
  ];
  const sort = { key: "confidence", down: false };
  fill(holder, sortableTable({ name: "path-waits", columns, rows, sort, limit: 12, onRow }).element);
}
