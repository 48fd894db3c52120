// The page about a placement: shows all layers, and one layer at a time.

import { byId, fill, h } from "render/dom.js";
import { startPage } from "render/start.js";
import { certificateSection, gapOf } from "./certificate.js";
import { heatMaps } from "./heatmap.js";
import { layerSection } from "./layer.js";
import { movesSection } from "./moves.js";
import { placementModel } from "./placement_model.js";
import { showPlacementSummary } from "./placement_summary.js";
import { policySection } from "./policy.js";

/** @typedef {import("./placement_model.js").PlacementModel} PlacementModel */

startPage("weftrace-placement", (/** @type {page.Placement} */ block) => {
  const model = placementModel(block);
  let current = 0;

  document.body.classList.toggle("no-before", !model.hasBefore);
  document.body.classList.toggle("no-certificate", !block.certificate);
  for (const element of document.querySelectorAll("[data-word]")) {
    if (element instanceof HTMLElement) element.textContent = block.words[element.dataset.word ?? ""] ?? "";
  }
  showPlacementSummary(model);
  byId("maps-lead").textContent = mapWords(model);
  const maps = heatMaps(model, openLayer);
  certificateSection(model, openLayer);
  const showProfile = layerSection(model);
  policySection(block);
  const showMoves = movesSection(model, showLayer);

  const select = byId("layer-select", HTMLSelectElement);
  const previous = byId("layer-prev", HTMLButtonElement);
  const following = byId("layer-next", HTMLButtonElement);
  const layers = Array.from({ length: model.numLayers }, (_, layer) => layer);
  fill(
    select,
    layers.map((layer) => h("option", { value: layer, text: String(model.numberOf(layer)) })),
  );
  select.addEventListener("change", () => showLayer(Number(select.value)));
  previous.addEventListener("click", () => showLayer(Math.max(0, current - 1)));
  following.addEventListener("click", () => showLayer(Math.min(model.numLayers - 1, current + 1)));
  for (const id of ["policy", "moves"]) {
    document.querySelector(`nav a[href="#${id}"]`)?.toggleAttribute("hidden", Boolean(byId(id).hidden));
  }
  showLayer(worstLayer(model));

  /** @param {number} layer */
  function showLayer(layer) {
    current = layer;
    select.value = String(layer);
    previous.disabled = layer === 0;
    following.disabled = layer === model.numLayers - 1;
    maps.choose(layer);
    showProfile(layer);
    showMoves(layer);
  }

  /** @param {number} layer */
  function openLayer(layer) {
    showLayer(layer);
    byId("layer").scrollIntoView({ block: "start" });
  }

  return { document: block, model, layer: () => current, place: maps.place, reach: maps.reach };
});

/**
 * The layer in which most is left to gain; of layers at their bound, the least balanced.
 * @param {PlacementModel} model
 */
function worstLayer(model) {
  const { certificate, gpu_load: load } = model.document;
  /** @param {number} layer */
  const badness = (layer) => [certificate ? gapOf(certificate, layer) : 0, 1 - load.after.balancedness[layer]];
  let worst = 0;
  for (let layer = 1; layer < model.numLayers; layer += 1) {
    const [gap, rest] = badness(layer);
    const [gapBest, restBest] = badness(worst);
    if (gap > gapBest + 1e-9 || (Math.abs(gap - gapBest) <= 1e-9 && rest > restBest + 1e-12)) worst = layer;
  }
  return worst;
}

/** @param {PlacementModel} model */
function mapWords(model) {
  const both = model.hasBefore ? " Both pictures have one scale." : "";
  const colors =
    "Orange GPUs do more than the mean and the others wait for them; blue ones wait; a layer in balance is plain grey.";
  const loads = `Drawn ${model.document.words.of}.`;
  return `A row is a layer, and a column is a GPU. ${loads} ${colors}${both} Click a cell to open its layer.`;
}
