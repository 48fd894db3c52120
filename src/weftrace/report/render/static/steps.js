// How do the profiler's steps differ?

import { byId, fill } from "render/dom.js";
import { duration } from "render/format.js";
import { partsOf, stackedBar } from "./parts.js";
import { sortableTable } from "render/tables.js";

/** @param {page.Rank} rank */
export function showSteps({ steps, outside_steps: outside }) {
  byId("steps").hidden = steps.length === 0;
  if (!steps.length) return;
  const told = outside.map(
    (part) =>
      `${duration(part.span_ns)} ${part.place} the ${part.place === "before" ? "first" : "last"} step's window, ` +
      `of it idle ${duration(part.idle_ns)}`,
  );
  byId("step-rest").textContent = told.length ? `The trace has also ${told.join("; ")}.` : "";
  fill(
    byId("step-table"),
    sortableTable({
      name: "steps",
      rows: steps,
      limit: 20,
      sort: { key: "step", down: false },
      columns: [
        { key: "step", label: "step", kind: "count", def: "step" },
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
        { key: "from_other_steps_ns", label: "launched by others", kind: "time", def: "from_other_steps" },
        { key: "ran_ahead_ns", label: "ran ahead", kind: "time", def: "ran_ahead" },
        { key: "spilled_ns", label: "ran later", kind: "time", def: "spilled" },
      ],
    }).element,
  );
}
