// Which kernels take the time? The kernel table with its filters, the families, and what no rule names.

import { actionButton, byId, fill, h } from "render/dom.js";
import { bareName, grouped, percent, plural } from "render/format.js";
import { columnsOf, kernelName, kindChip, showTable, sortableTable } from "render/tables.js";
import { defined } from "render/tooltip.js";

const FIRST = 15;
const KERNEL_COLUMNS = "name kind family num_events total_ns share mean_ns p50_ns p99_ns min_ns max_ns";

/**
 * onFind(name): the reader wants to see a kernel in the timeline.
 * @param {page.Rank} rank
 * @param {(name: string) => void} onFind
 */
export function showKernels(rank, onFind) {
  const { kernels } = rank;
  const top = Math.max(1e-12, ...kernels.map((kernel) => kernel.share));
  const shared = kernels.some((kernel) => kernel.sms !== null);
  const table = sortableTable({
    name: "kernels",
    rows: kernels,
    limit: FIRST,
    sort: { key: "total_ns", down: true },
    unitEach: true,
    empty: "No kernel matches the filter.",
    columns: columnsOf("kernels", KERNEL_COLUMNS + (shared ? " sms" : ""), {
      name: {
        value: (row) => bareName(row.name),
        node: (row) =>
          actionButton(
            null,
            () => onFind(row.name),
            { class: "find", title: `Find in the timeline:\n${row.name}` },
            kernelName(row.name),
          ),
      },
      kind: { node: (row) => kindChip(row.kind) },
      share: { bar: (row) => row.share / top },
      sms: {
        label: rank.sm_unit,
        text: (row) => (row.sms === null ? "–" : `${row.sms_exact ? "" : "≤ "}${row.sms}`),
      },
    }),
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
  showTable("family-table", {
    name: "families",
    rows: families,
    limit: 12,
    sort: { key: "total_ns", down: true },
    columns: columnsOf("families", "family kind num_events total_ns busy_ns share", {
      kind: { node: (row) => kindChip(row.kind) },
      total_ns: { bar: (row) => row.total_ns / top },
      share: { kind: "percent", def: "share", value: (row) => row.total_ns / (serial || 1) },
    }),
  });
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
  showTable("operator-table", {
    name: "operators",
    rows: operators,
    limit: 10,
    sort: { key: "total_ns", down: true },
    columns: columnsOf("operators", "name num_calls num_events total_ns share", {
      name: { node: (row) => kernelName(row.name) },
      share: { bar: (row) => row.share / top },
    }),
  });
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
  showTable("unnamed-table", {
    name: "unnamed",
    rows: unnamed,
    limit: 10,
    sort: { key: "total_ns", down: true },
    columns: columnsOf("unnamed", "name num_events total_ns", { name: { node: (row) => kernelName(row.name) } }),
  });
}
