// The page of a sensitivity: what a little speed is worth, of each selection alone, and curves.

import { byId, showNotes } from "render/dom.js";
import { showDoubts } from "render/path_tables.js";
import { startPage } from "render/start.js";
import { showCurves, showGains } from "./gains.js";

startPage("weftrace-sensitivity", (/** @type {page.SensitivityBlock} */ block) => {
  byId("facts").textContent = `${block.summary.replay} ${block.summary.kept}`;
  showDoubts(byId("banner"), block.summary.doubts);
  showNotes(byId("notes"), block.document.notes);
  showGains(block.document);
  showCurves(block.document);
  return { block };
});
