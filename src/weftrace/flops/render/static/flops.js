// The page about what a model costs: its numbers, its tree of modules, where its time goes, and how far from the roofs.

import { startPage } from "render/start.js";
import { showMap } from "./map.js";
import { flopsModel } from "./model.js";
import { showRoofline } from "./roofline.js";
import { showSummary } from "./summary.js";
import { showOperators, showRemarks, showWorst } from "./tables.js";
import { showTree } from "./tree.js";

startPage("weftrace-flops", (/** @type {page.Flops} */ doc) => {
  const model = flopsModel(doc);
  showSummary(model);
  showTree(model);
  showMap(model);
  showRoofline(model);
  showWorst(model);
  showOperators(model);
  showRemarks(model);
  return { document: doc, model };
});
