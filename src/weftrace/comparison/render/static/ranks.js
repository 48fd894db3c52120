// Of jobs: whose step changed, and for whom ranks waited.

import { byId, fill, h } from "render/dom.js";
import { signedDuration } from "render/format.js";
import { sortableTable } from "render/tables.js";

/**
 * @typedef {page.DiffBlock["document"]} Diff
 * @typedef {Diff["by_rank"][number]} RankRow
 * @typedef {Diff["lateness"][number]} LateRow
 * @typedef {NonNullable<ReturnType<typeof import("./pictures.js").pictures>>} Pictures
 */

/**
 * @param {Diff} found
 * @param {Pictures | null} pictures
 */
export function showRanks({ by_rank: ranks, lateness, verdict }, pictures) {
  byId("ranks").hidden = ranks.length < 2;
  if (ranks.length < 2) return;
  const names = pictures?.ranks() ?? [];
  const more = names.length ? " A row shows the lanes of its rank, where the page holds them." : "";
  byId("rank-lead").textContent = `The mean step of each rank that both runs have, and what changed most of it.${more}`;
  fill(byId("rank-table"), rankTable(ranks, names, pictures));
  const late = verdict.word === "not comparable" ? [] : lateness;
  byId("late-box").hidden = late.length === 0;
  fill(byId("late-table"), lateTable(late));
}

/**
 * @param {RankRow[]} ranks
 * @param {string[]} names of those that can be drawn
 * @param {Pictures | null} pictures
 */
function rankTable(ranks, names, pictures) {
  /** @param {RankRow} row */
  const nameOf = ({ rank, device }) => {
    const name = rank === null ? "the only rank" : `rank ${rank}`;
    return device ? `${name}, device ${device}` : name;
  };
  const most = Math.max(1, ...ranks.map((row) => Math.abs(row.change_ns)));
  return sortableTable({
    name: "ranks",
    rows: ranks,
    limit: 16,
    columns: [
      { key: "rank", label: "rank", kind: "text", value: nameOf },
      { key: "before_ns", label: "before", kind: "time" },
      { key: "after_ns", label: "after", kind: "time" },
      { key: "change_ns", label: "change", kind: "time", bar: (row) => Math.abs(row.change_ns) / most },
      {
        key: "part",
        label: "most of it",
        kind: "text",
        value: (row) => Math.abs(row.part_change_ns),
        node: (row) => h("span", { text: row.part ? `${partOf(row)} ${signedDuration(row.part_change_ns)}` : "–" }),
      },
    ],
    onRow: pictures
      ? (row) => {
          const at = names.indexOf(nameOf(row));
          if (at < 0) return;
          pictures.show({ rank: at });
          byId("both").scrollIntoView({ block: "start" });
        }
      : undefined,
  }).element;
}

/** @param {LateRow[]} late */
function lateTable(late) {
  return sortableTable({
    name: "lateness",
    rows: late,
    limit: 12,
    columns: [
      { key: "name", label: "waited for", kind: "text" },
      { key: "before_ns", label: "before", kind: "time" },
      { key: "after_ns", label: "after", kind: "time" },
      { key: "change_ns", label: "change", kind: "time" },
      {
        key: "own",
        label: "changed most on it",
        kind: "text",
        value: ({ own: [first] }) => first?.change_ns ?? 0,
        node: ({ own: [first] }) =>
          h("span", { text: first ? `${first.family ?? partOf(first)} ${signedDuration(first.change_ns)}` : "–" }),
      },
    ],
  }).element;
}

/** @param {{ part: string | null, cause: string | null }} row */
function partOf({ part, cause }) {
  return cause && cause !== "data" ? `${part}: ${cause}` : `${part}`;
}
