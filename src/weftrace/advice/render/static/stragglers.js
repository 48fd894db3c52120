// The page of a job's slowdown: S, its causes and its parts, and who makes which step longer.

import { byId } from "render/dom.js";
import { plural } from "render/format.js";
import { rankSteps } from "render/rank_steps.js";
import { originMeasure, showSlowdown } from "render/slowdown.js";
import { startPage } from "render/start.js";

startPage("weftrace-stragglers", (/** @type {slowdown.Document} */ found) => {
  byId("facts").textContent = `${plural(found.num_ranks, "rank")} · ${plural(found.num_steps, "step")}`;
  showSlowdown(byId("slowdown-body"), found, null);
  const measure = originMeasure(found);
  byId("by-step").hidden = !measure;
  const grid =
    measure &&
    rankSteps(
      { map: byId("step-map"), legend: byId("step-legend"), told: byId("step-told"), choices: byId("step-choices") },
      {
        ranks: found.workers.map(({ name }) => name),
        steps: found.steps.map(({ step }) => String(step ?? "–")),
        measures: [measure],
        onOpen: null,
      },
    );
  return { found, grid };
});
