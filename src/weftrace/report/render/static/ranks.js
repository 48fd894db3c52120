// Which rank is slow, and which files could not be read?

import { byId, fill, h } from "render/dom.js";
import { duration, plural } from "render/format.js";
import { partsOf, stackedBar } from "./parts.js";
import { sortableTable } from "render/tables.js";
import { rankName } from "./summary.js";

/**
 * The rank table and selector of a report with several ranks. onRank(position) shows another one. Returns
 * chosen(position).
 * @param {page.Report} report
 * @param {(position: number) => void} onRank
 * @returns {(position: number) => void}
 */
export function rankTable(report, onRank) {
  const { ranks, failures, clocks } = report;
  const select = byId("rank-select", HTMLSelectElement);
  byId("rank-choice").hidden = ranks.length < 2;
  byId("ranks").hidden = ranks.length < 2 && failures.length === 0;
  fill(
    select,
    ranks.map((rank, position) => h("option", { value: position, text: label(rank, ranks) })),
  );
  select.addEventListener("change", () => onRank(Number(select.value)));
  showFailures(failures, report);
  const notes = report.notes ?? [];
  byId("rank-notes").hidden = notes.length === 0;
  fill(
    byId("rank-notes"),
    notes.map((note) => h("li", { text: note })),
  );
  if (ranks.length < 2) return () => {};

  const counted = ranks.flatMap((rank, position) => (rank.apart === null ? [position] : []));
  const slowest = counted.reduce((best, position) => (ranks[position].span_ns > ranks[best].span_ns ? position : best));
  const longest = Math.max(1, ranks[slowest].span_ns);
  const offset = new Map(clocks.map((clock) => [clock.rank, clock.offset_ns]));
  let current = 0;
  const rows = ranks.map((rank, position) => ({ ...rank, position }));
  /** @type {import("render/tables.js").Column<page.Rank>} */
  const clock = {
    key: "clock",
    label: "clock offset",
    kind: "time",
    def: "clock",
    value: (row) => (row.rank === null ? null : offset.get(row.rank)),
  };
  const table = sortableTable({
    name: "ranks",
    rows,
    sort: { key: "rank", down: false },
    onRow: (row) => onRank(row.position),
    rowClass: (row) => `${row.position === current ? "current" : ""} ${row.position === slowest ? "slowest" : ""}`,
    columns: [
      {
        key: "rank",
        label: "rank",
        kind: "text",
        value: (row) => row.rank ?? row.position,
        node: (row) =>
          h(
            "span",
            {},
            h("b", { text: label(row, ranks) }),
            row.position === slowest ? h("span", { class: "chip warn", text: "slowest" }) : null,
            row.apart === null ? null : h("span", { class: "chip", text: "in no sum" }),
          ),
      },
      { key: "span_ns", label: "span", kind: "time", def: "span" },
      {
        key: "parts",
        label: "made of",
        kind: "text",
        value: (row) => row.compute_ns / (row.span_ns || 1),
        node: (row) =>
          h("div", { style: { width: `${(100 * row.span_ns) / longest}%` } }, stackedBar(partsOf(row), "small")),
      },
      { key: "compute_ns", label: "compute", kind: "time", def: "compute" },
      { key: "communication_ns", label: "communication", kind: "time", def: "communication" },
      { key: "exposed_communication_ns", label: "exposed", kind: "time", def: "exposed" },
      { key: "hidden_fraction", label: "hidden %", kind: "percent", def: "hidden" },
      { key: "idle_ns", label: "idle", kind: "time", def: "idle" },
      {
        key: "headroom",
        label: "headroom",
        kind: "time",
        def: "headroom",
        value: (row) => row.headroom?.headroom_ns ?? null,
      },
      ...(clocks.length ? [clock] : []),
      {
        key: "verdict",
        label: "data",
        kind: "text",
        value: (row) => row.quality.verdict,
        node: (row) => h("span", { class: `verdict ${row.quality.verdict}`, text: row.quality.verdict }),
      },
    ],
  });
  fill(byId("rank-table"), table.element);
  const spans = ranks.map((rank) => rank.span_ns).sort((a, b) => a - b);
  const range = `${duration(spans[0], 4)} to ${duration(spans[spans.length - 1], 4)}`;
  byId("rank-lead").textContent =
    `${plural(ranks.length, "rank")}; spans from ${range}, the slowest is ${rankName(ranks[slowest])}. ` +
    "Choose a row to show that rank below.";
  return (position) => {
    current = position;
    select.value = String(position);
    table.setRows(rows);
  };
}

/**
 * @param {page.Report["failures"]} failures
 * @param {page.Report} report
 */
function showFailures(failures, report) {
  const box = byId("failures");
  box.hidden = failures.length === 0;
  if (!failures.length) return;
  const num = report.ranks.length;
  const read = plural(num, "rank");
  const files = failures.length === 1 ? "1 file" : `${failures.length} files`;
  fill(
    box,
    h("b", {
      text: `${files} could not be read; ${read} of ${num + failures.length} ${num === 1 ? "is" : "are"} shown.`,
    }),
    h(
      "ul",
      {},
      failures.map((failure) => h("li", {}, h("code", { text: failure.path }), `: ${failure.error}`)),
    ),
  );
}

/**
 * @param {page.Rank} rank
 * @param {page.Rank[]} ranks
 */
function label(rank, ranks) {
  const name = rank.rank === null || rank.rank === undefined ? rank.path : `rank ${rank.rank}`;
  const shared = ranks.filter((other) => other.rank === rank.rank).length > 1;
  return shared && rank.device !== null && rank.device !== undefined ? `${name} · GPU ${rank.device}` : name;
}
