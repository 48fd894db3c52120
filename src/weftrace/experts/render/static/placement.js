// The page about a placement: reads its document, shows all layers, and one layer at a time.

import { byId, fill, h } from "render/dom.js";
import { certificateSection, gapOf } from "./certificate.js";
import { heatMaps } from "./heatmap.js";
import { layerSection } from "./layer.js";
import { placementModel } from "./placement_model.js";
import { movesSection } from "./moves.js";
import { policySection } from "./policy.js";
import { showPlacementSummary } from "./placement_summary.js";
import { PLACEMENT_TERMS } from "./terms.js";
import { startTheme } from "render/theme.js";
import { startTooltips } from "render/tooltip.js";

const model = placementModel(JSON.parse(byId("weftrace-placement").textContent));
let current = 0;

startTooltips(PLACEMENT_TERMS);
startTheme(byId("theme"));
document.body.classList.toggle("no-before", !model.hasBefore);
document.body.classList.toggle("no-certificate", !model.document.certificate);
showPlacementSummary(model);
byId("maps-lead").textContent = mapWords();
const maps = heatMaps(model, (layer) => {
  showLayer(layer);
  byId("layer").scrollIntoView({ block: "start" });
});
certificateSection(model, (layer) => {
  showLayer(layer);
  byId("layer").scrollIntoView({ block: "start" });
});
const showProfile = layerSection(model);
policySection(model.document);
const showMoves = movesSection(model, showLayer);

const select = byId("layer-select");
fill(
  select,
  Array.from({ length: model.numLayers }, (_, layer) => h("option", { value: layer, text: String(layer) })),
);
select.addEventListener("change", () => showLayer(Number(select.value)));
byId("layer-prev").addEventListener("click", () => showLayer(Math.max(0, current - 1)));
byId("layer-next").addEventListener("click", () => showLayer(Math.min(model.numLayers - 1, current + 1)));
for (const id of ["policy", "moves"]) document.querySelector(`nav a[href="#${id}"]`).hidden = byId(id).hidden;
fill(
  byId("definition-list"),
  Object.entries(PLACEMENT_TERMS).map(([key, [term, text]]) =>
    h("div", { id: `def-${key}` }, h("dt", { text: term }), h("dd", { text })),
  ),
);
showLayer(worstLayer());

function showLayer(layer) {
  current = layer;
  select.value = String(layer);
  byId("layer-prev").disabled = layer === 0;
  byId("layer-next").disabled = layer === model.numLayers - 1;
  maps.choose(layer);
  showProfile(layer);
  showMoves(layer);
}

/** The layer in which most is left to gain; of layers at their bound, the least balanced. */
function worstLayer() {
  const { certificate, gpu_load: load } = model.document;
  const badness = (layer) => [certificate ? gapOf(certificate, layer) : 0, 1 - load.after.balancedness[layer]];
  let worst = 0;
  for (let layer = 1; layer < model.numLayers; layer += 1) {
    const [gap, rest] = badness(layer);
    const [gapBest, restBest] = badness(worst);
    if (gap > gapBest + 1e-9 || (Math.abs(gap - gapBest) <= 1e-9 && rest > restBest + 1e-12)) worst = layer;
  }
  return worst;
}

function mapWords() {
  const both = model.hasBefore ? " Both pictures have one scale." : "";
  return `A row is a layer, a column a GPU. Orange GPUs do more than the mean and the others wait for them; blue ones wait; a layer in balance is plain grey.${both} Click a cell to open its layer.`;
}

// For people at the console, and for tests.
window.weftrace = { document: model.document, model, layer: () => current, place: maps.place, reach: maps.reach };

// After the first frame has been drawn and handed to the screen.
requestAnimationFrame(() => setTimeout(() => performance.mark("weftrace-first-paint")));
