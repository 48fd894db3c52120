// The page about what a model costs: its numbers, its tree of modules, where its time goes, and how far from the roofs.

import { byId, fill, h } from "./dom.js";
import { showMap } from "./flops_map.js";
import { flopsModel } from "./flops_model.js";
import { showRoofline } from "./flops_roofline.js";
import { showSummary } from "./flops_summary.js";
import { showOperators, showRemarks, showWorst } from "./flops_tables.js";
import { showTree } from "./flops_tree.js";
import { startTheme } from "./theme.js";
import { startTooltips } from "./tooltip.js";

const doc = JSON.parse(byId("weft-flops").textContent);
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
fill(byId("definition-list"), Object.entries(doc.terms).map(([key, [term, text]]) => h("div", { id: `def-${key}` }, h("dt", { text: term }), h("dd", { text }))));

// For people at the console, and for tests.
window.weft = { document: doc, model };

// After the first frame has been drawn and handed to the screen.
requestAnimationFrame(() => setTimeout(() => performance.mark("weft-first-paint")));
