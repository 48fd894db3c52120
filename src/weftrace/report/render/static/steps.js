// How do the profiler's steps differ?

import { byId, fill } from "render/dom.js";
import { partsOf, stackedBar } from "./parts.js";
import { sortableTable } from "render/tables.js";

/** @param {page.Rank} rank */
export function showSteps({ steps }) {
  byId("steps").hidden = steps.length === 0;
  if (!steps.length) return;
  fill(
    byId("step-table"),
    sortableTable({
      name: "steps",
      rows: steps,
      limit: 20,
      sort: { key: "step", down: false },
      columns: [
        { key: "step", label: "step", kind: "count" },
        { key: "span_ns", label: "span", kind: "time", def: "span" },
        {
          key: "parts",
          label: "made of",
          kind: "text",
          value: (row) => row.compute_ns / (row.span_ns || 1),
          node: (row) => stackedBar(partsOf(row), "small"),
        },
        { key: "compute_ns", label: "compute", kind: "time", def: "compute" },
        { key: "exposed_communication_ns", label: "exposed", kind: "time", def: "exposed" },
        { key: "exposed_memory_ns", label: "exposed memory", kind: "time", def: "exposed_memory" },
        { key: "idle_ns", label: "idle", kind: "time", def: "idle" },
        { key: "hidden_fraction", label: "hidden %", kind: "percent", def: "hidden" },
      ],
    }).element,
  );
}
