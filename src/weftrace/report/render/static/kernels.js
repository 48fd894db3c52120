// Which kernels take the time? The kernel table with its filters, the families, and what no rule names.

import { byId, fill, h } from "render/dom.js";
import { bareName, grouped, percent, plural } from "render/format.js";
import { kernelName, kindChip, sortableTable } from "render/tables.js";
import { defined } from "render/tooltip.js";

const FIRST = 15;

/**
 * onFind(name): the reader wants to see a kernel in the timeline.
 * @param {page.Rank} rank
 * @param {(name: string) => void} onFind
 */
export function showKernels(rank, onFind) {
  const { kernels } = rank;
  const top = Math.max(1e-12, ...kernels.map((kernel) => kernel.share));
  const shared = kernels.some((kernel) => kernel.sms !== null);
  /** @type {import("render/tables.js").Column<page.Rank["kernels"][number]>} */
  const sms = {
    key: "sms",
    label: rank.sm_unit,
    kind: "count",
    def: "sms",
    text: (row) => (row.sms === null ? "–" : `${row.sms_exact ? "" : "≤ "}${row.sms}`),
  };
  const table = sortableTable({
    name: "kernels",
    rows: kernels,
    limit: FIRST,
    sort: { key: "total_ns", down: true },
    unitEach: true,
    empty: "No kernel fits the filter.",
    columns: [
      {
        key: "name",
        label: "kernel",
        kind: "text",
        wide: true,
        value: (row) => bareName(row.name),
        node: (row) =>
          h(
            "button",
            {
              type: "button",
              class: "find",
              title: `Find in the timeline:\n${row.name}`,
              on: { click: () => onFind(row.name) },
            },
            kernelName(row.name),
          ),
      },
      { key: "kind", label: "class", kind: "text", node: (row) => kindChip(row.kind) },
      { key: "family", label: "family", kind: "text" },
      { key: "num_events", label: "count", kind: "count" },
      { key: "total_ns", label: "total", kind: "time" },
      { key: "share", label: "share", kind: "percent", def: "share", bar: (row) => row.share / top },
      { key: "mean_ns", label: "mean", kind: "time" },
      { key: "p50_ns", label: "p50", kind: "time", def: "p99" },
      { key: "p99_ns", label: "p99", kind: "time" },
      { key: "min_ns", label: "min", kind: "time" },
      { key: "max_ns", label: "max", kind: "time" },
      ...(shared ? [sms] : []),
    ],
  });
  const text = h("input", {
    type: "search",
    id: "kernel-filter",
    placeholder: "Filter by name or family",
    "aria-label": "Filter kernels by name or family",
  });
  const kinds = [...new Set(kernels.map((kernel) => kernel.kind))].sort();
  const kind = h(
    "select",
    { id: "kernel-kind", "aria-label": "Class of kernel" },
    h("option", { value: "", text: "all classes" }),
    kinds.map((k) => h("option", { value: k, text: k })),
  );
  const shown = h("output", { class: "muted", id: "kernel-count" });
  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    const rows = kernels.filter(
      (kernel) =>
        (!kind.value || kernel.kind === kind.value) &&
        `${kernel.name}\n${kernel.family}`.toLowerCase().includes(wanted),
    );
    table.setRows(rows);
    const share = percent(rows.reduce((sum, row) => sum + row.share, 0));
    shown.textContent = `${grouped(rows.length)} of ${plural(kernels.length, "kernel")}, ${share} of the time`;
  };
  text.addEventListener("input", filter);
  kind.addEventListener("change", filter);
  filter();
  fill(byId("kernel-tools"), text, kind, shown);
  fill(byId("kernel-table"), table.element);
  showFamilies(rank);
  showOperators(rank);
  showUnnamed(rank);
}

/** @param {page.Rank} rank */
function showFamilies({ families, serial_ns: serial }) {
  const top = Math.max(1, ...families.map((family) => family.total_ns));
  fill(
    byId("family-table"),
    sortableTable({
      name: "families",
      rows: families,
      limit: 12,
      sort: { key: "total_ns", down: true },
      columns: [
        { key: "family", label: "family", kind: "text" },
        { key: "kind", label: "class", kind: "text", node: (row) => kindChip(row.kind) },
        { key: "num_events", label: "events", kind: "count" },
        { key: "total_ns", label: "total", kind: "time", bar: (row) => row.total_ns / top },
        { key: "busy_ns", label: "busy", kind: "time", def: "busy" },
        { key: "share", label: "share", kind: "percent", def: "share", value: (row) => row.total_ns / (serial || 1) },
      ],
    }).element,
  );
}

/** @param {page.Rank} rank */
function showOperators({
  operators = [],
  num_without_operator: without = 0,
  without_operator_ns: rest = 0,
  serial_ns: serial,
}) {
  byId("operator-box").hidden = operators.length === 0;
  if (!operators.length) return;
  const top = Math.max(1e-12, ...operators.map((operator) => operator.share));
  fill(
    byId("operator-table"),
    sortableTable({
      name: "operators",
      rows: operators,
      limit: 10,
      sort: { key: "total_ns", down: true },
      columns: [
        { key: "name", label: "operator", kind: "text", wide: true, node: (row) => kernelName(row.name) },
        { key: "num_calls", label: "calls", kind: "count" },
        { key: "num_events", label: "device events", kind: "count" },
        { key: "total_ns", label: "total", kind: "time" },
        { key: "share", label: "share", kind: "percent", def: "share", bar: (row) => row.share / top },
      ],
    }).element,
  );
  const outside = `${plural(without, "device event")} (${percent(rest / (serial || 1))} of the time)`;
  byId("operator-rest").textContent = without ? `${outside} were launched outside every recorded operator.` : "";
}

/** @param {page.Rank} rank */
function showUnnamed({ unnamed, unnamed_share: share }) {
  byId("unnamed").hidden = unnamed.length === 0;
  if (!unnamed.length) return;
  fill(
    byId("unnamed-head"),
    defined("unnamed", "Kernels that no rule names"),
    `: ${percent(share)} of compute time, ${plural(unnamed.length, "name")}`,
  );
  fill(
    byId("unnamed-table"),
    sortableTable({
      name: "unnamed",
      rows: unnamed,
      limit: 10,
      sort: { key: "total_ns", down: true },
      columns: [
        { key: "name", label: "kernel", kind: "text", wide: true, node: (row) => kernelName(row.name) },
        { key: "num_events", label: "count", kind: "count" },
        { key: "total_ns", label: "total", kind: "time" },
      ],
    }).element,
  );
}
