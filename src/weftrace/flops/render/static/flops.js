// The page about what a model costs: its numbers, its tree of modules, where its time goes, and how far from the roofs.

import { byId, fill, h } from "render/dom.js";
import { showMap } from "./map.js";
import { flopsModel } from "./model.js";
import { showRoofline } from "./roofline.js";
import { showSummary } from "./summary.js";
import { showOperators, showRemarks, showWorst } from "./tables.js";
import { showTree } from "./tree.js";
import { startTheme } from "render/theme.js";
import { startTooltips } from "render/tooltip.js";

const doc = JSON.parse(byId("weftrace-flops").textContent);
const model = flopsModel(doc);

startTooltips(doc.terms);
startTheme(byId("theme"));
showSummary(model);
showTree(model);
showMap(model);
showRoofline(model);
showWorst(model);
showOperators(model);
showRemarks(model);
fill(
  byId("definition-list"),
  Object.entries(doc.terms).map(([key, [term, text]]) =>
    h("div", { id: `def-${key}` }, h("dt", { text: term }), h("dd", { text })),
  ),
);

// For people at the console, and for tests.
window.weftrace = { document: doc, model };

// After the first frame has been drawn and handed to the screen.
requestAnimationFrame(() => setTimeout(() => performance.mark("weftrace-first-paint")));
