// What is told of a critical path beside its picture: how far the replay is off, tables of its parts, its unsure waits.

import { fill, choiceButtons } from "./dom.js";
import { duration, percent, range, signed } from "./format.js";
import { kernelName, sortableTable, showTable } from "./tables.js";
import { waterfall } from "./waterfall.js";

/**
 * @typedef {page.PathBlock["document"]} Path
 * @typedef {Path["by_class"][number]} Share
 * @typedef {page.PathBlock["waits"][number]} Wait
 * @typedef {"by_class" | "by_phase" | "by_family" | "by_kernel" | "by_cause" | "by_rank"} By
 */

/** @type {[By, string, string][]} */
const LISTS = [
  ["by_class", "Class", "class"],
  ["by_phase", "Phase", "phase"],
  ["by_family", "Kernel family", "family"],
  ["by_kernel", "Kernel", "kernel"],
  ["by_cause", "Reached from", "reached by"],
  ["by_rank", "Rank", "rank"],
];

/**
 * A warning where a replay is not to be believed.
 * @param {HTMLElement} banner
 * @param {string} doubts
 */
export function showDoubts(banner, doubts) {
  banner.hidden = doubts === "";
  banner.textContent = doubts;
}

/**
 * The path's time by class, phase, kernel ...: buttons choose which.
 * @param {HTMLElement} choices
 * @param {HTMLElement} holder
 * @param {Path} path
 */
export function partTables(choices, holder, path) {
  const lists = LISTS.filter(([key]) => key !== "by_rank" || path.by_rank.length > 1);
  show("by_class");
  return show;

  /** @param {By} chosen */
  function show(chosen) {
    fill(
      choices,
      choiceButtons(
        lists,
        ([, label]) => label,
        ([key]) => key === chosen,
        ([key]) => show(key),
      ),
    );
    const label = LISTS.find(([key]) => key === chosen)?.[2] ?? "";
    fill(holder, shareTable(path[chosen], label, chosen).element);
  }
}

/**
 * @param {Share[]} rows
 * @param {string} label
 * @param {By} of
 */
function shareTable(rows, label, of) {
  /** @type {import("./tables.js").Column<Share>[]} */
  const columns = [
    {
      key: "name",
      label,
      kind: "text",
      wide: of === "by_kernel",
      node: of === "by_kernel" ? (row) => kernelName(row.name) : undefined,
    },
    { key: "time_ns", label: "on the path", kind: "time", def: "critical_path", bar: (row) => row.share },
    { key: "share", label: "of the span", kind: "percent", text: (row) => percent(row.share) },
  ];
  return sortableTable({ name: `path-${of.slice(3)}`, columns, rows, sort: { key: "time_ns", down: true }, limit: 15 });
}

/**
 * The measured span as the classes on the path and the replay's error, with what each would save alone.
 * @param {HTMLElement} holder
 * @param {page.PathBlock} block
 */
export function pathWaterfall(holder, { document: { waterfall: bars, replay }, roles }) {
  let end = 0;
  const falls = bars.map((bar) => {
    const from_ns = end;
    end += bar.time_ns;
    const alone = bar.alone_ns === null ? "" : `, alone saves ${range(bar.least_ns ?? 0, bar.most_ns ?? 0)}`;
    const told = `${duration(bar.time_ns)}, ${bar.share < 0 ? signed(bar.share, 1) : percent(bar.share)}${alone}`;
    return { name: bar.name, role: roles[bar.name] ?? "error", from_ns, to_ns: end, told, saved_ns: bar.alone_ns };
  });
  waterfall(holder, falls, `The measured ${duration(replay.span_ns)} by class`);
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
  showTable(holder, { name: "path-waits", columns, rows, sort, limit: 12, onRow });
}
