// Which rank is late or slow, and which files could not be read?

import { byId, fill, h, showNotes } from "render/dom.js";
import { duration, plural } from "render/format.js";
import { columnsOf, showTable } from "render/tables.js";
import { rankLabel } from "./job.js";
import { partsOf, stackedBar } from "./parts.js";

/**
 * @typedef {{ late: page.LateRank | null, work: page.SlowRank | null }} OfJob
 * @typedef {page.Rank & OfJob & { position: number }} Row
 * @typedef {import("render/tables.js").Column<Row>} Column
 */

/**
 * The rank table and selector of a report with several ranks. onRank(position) shows another one. Returns
 * chosen(position).
 * @param {page.Report} report
 * @param {import("./job.js").Job | null} job
 * @param {(position: number) => void} onRank
 * @returns {(position: number) => void}
 */
export function rankTable(report, job, onRank) {
  const { ranks, failures } = report;
  const members = new Map(job?.ranks.map((member) => [member.position, member]));
  /** @param {{ position: number }} row */
  const nameOf = ({ position }) => members.get(position)?.name ?? rankLabel(ranks[position], ranks);
  const select = byId("rank-select", HTMLSelectElement);
  byId("rank-choice").hidden = ranks.length < 2;
  byId("ranks").hidden = ranks.length < 2 && failures.length === 0;
  fill(
    select,
    ranks.map((_, position) => h("option", { value: position, text: nameOf({ position }) })),
  );
  select.addEventListener("change", () => onRank(Number(select.value)));
  showFailures(failures, report);
  showNotes(byId("rank-notes"), report.notes);
  if (ranks.length < 2) return () => {};

  const named = job?.first.position ?? -1; // whom the headline names
  let current = 0;
  const rows = ranks.map((rank, position) => {
    const { late = null, work = null } = members.get(position) ?? {};
    return { ...rank, position, late, work };
  });
  /** @param {Row} row */
  const name = (row) =>
    h(
      "span",
      {},
      h("b", { text: nameOf(row) }),
      row.position === named ? h("span", { class: "chip warn", text: job?.why }) : null,
      row.apart === null ? null : h("span", { class: "chip", text: "not counted" }),
    );
  const table = showTable("rank-table", {
    name: "ranks",
    rows,
    sort: { key: "rank", down: false },
    onRow: (row) => onRank(row.position),
    rowClass: (row) => `${row.position === current ? "current" : ""} ${row.position === named ? "slowest" : ""}`,
    columns: [
      { key: "rank", label: "rank", kind: "text", value: (row) => row.rank ?? row.position, node: name },
      ...rankColumns(report, job),
    ],
  });
  const spans = ranks.filter((rank) => rank.apart === null).map((rank) => rank.span_ns);
  const range = `${duration(Math.min(...spans))} to ${duration(Math.max(...spans))}`;
  const left = ranks.length - spans.length;
  byId("rank-lead").textContent =
    `${plural(spans.length, "rank")}${left ? `, and ${left} not counted` : ""}; spans from ${range}. ` +
    "Click a row to open that rank below.";
  return (position) => {
    current = position;
    select.value = String(position);
    table.setRows(rows);
  };
}

/**
 * What is told of each rank, after its name.
 * @param {page.Report} report
 * @param {import("./job.js").Job | null} job
 * @returns {Column[]}
 */
function rankColumns({ ranks, clocks, slow_work }, job) {
  const longest = Math.max(1, ...ranks.map((rank) => rank.span_ns));
  const offset = new Map(clocks.map((clock) => [clock.rank, clock.offset_ns]));
  // Without lateness there is room for two that the open rank's tiles tell too.
  const [before, after] = job?.lateness ? ["", "caused_ns origin_ns suffered_ns "] : ["communication_ns ", "headroom "];
  const account = `${slow_work ? "peers " : ""}${before}exposed_communication_ns hidden_fraction idle_ns ${after}`;
  const keys = `span_ns parts compute_ns ${account}${clocks.length ? "clock " : ""}verdict`;
  return columnsOf("ranks", keys, {
    parts: {
      label: "made of",
      value: (row) => row.compute_ns / (row.span_ns || 1),
      node: (row) =>
        h("div", { style: { width: `${(100 * row.span_ns) / longest}%` } }, stackedBar(partsOf(row), "small")),
    },
    peers: {
      label: "of peers",
      kind: "count",
      def: "peers",
      value: (row) => row.work?.ratio ?? null,
      node: (row) =>
        h(row.work?.is_slow ? "b" : "span", { text: row.work?.peers_ns ? `${row.work.ratio.toFixed(2)}×` : "–" }),
    },
    idle_ns: { value: (row) => partsOf(row).idle },
    caused_ns: { value: (row) => row.late?.caused_ns },
    origin_ns: { value: (row) => row.late?.origin_ns },
    suffered_ns: { value: (row) => row.late?.suffered_ns },
    headroom: { kind: "time", def: "headroom", value: (row) => row.headroom.headroom_ns },
    clock: {
      label: "clock offset",
      kind: "time",
      def: "clock",
      value: (row) => (row.rank === null ? null : offset.get(row.rank)),
    },
    verdict: {
      label: "data",
      value: (row) => row.quality.verdict,
      node: (row) => h("span", { class: `verdict ${row.quality.verdict}`, text: row.quality.verdict }),
    },
  });
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
