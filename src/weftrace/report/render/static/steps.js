// How do the profiler's steps differ?

import { byId } from "render/dom.js";
import { duration } from "render/format.js";
import { partsOf, stackedBar } from "./parts.js";
import { columnsOf, showTable } from "render/tables.js";

const OF_TIME = "compute_ns exposed_communication_ns exposed_memory_ns idle_ns";

/** @param {page.Rank} rank */
export function showSteps({ steps, outside_steps: outside }) {
  byId("steps").hidden = steps.length === 0;
  if (!steps.length) return;
  const rest = outside.map(
    (part) =>
      `${duration(part.span_ns)} ${part.place} the ${part.place === "before" ? "first" : "last"} step's window, ` +
      `of it idle ${duration(part.idle_ns)}`,
  );
  byId("step-rest").textContent = rest.length ? `The trace also has ${rest.join("; ")}.` : "";
  showTable("step-table", {
    name: "steps",
    rows: steps,
    limit: 20,
    sort: { key: "step", down: false },
    columns: columnsOf(
      "steps",
      `step span_ns parts ${OF_TIME} hidden_fraction from_other_steps_ns ran_ahead_ns spilled_ns`,
      {
        parts: {
          label: "made of",
          value: (row) => row.compute_ns / (row.span_ns || 1),
          node: (row) => stackedBar(partsOf(row), "small"),
        },
      },
    ),
  });
}
