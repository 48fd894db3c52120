// The page of advice: findings with their remedies, and what was looked for and not found.

import { byId, showNotes } from "render/dom.js";
import { showFindings, showNotFound } from "render/findings.js";
import { startPage } from "render/start.js";

startPage("weftrace-advice", (/** @type {advice_block.Block} */ block) => {
  byId("facts").textContent = block.facts.join(" · ");
  showNotes(byId("notes"), block.notes);
  showFindings(byId("findings-body"), block.advice, { most: null, onOpen: null });
  byId("not-found").hidden = !block.advice.not_found.length;
  showNotFound(byId("not-found-body"), block.advice.not_found);
  return { block };
});
