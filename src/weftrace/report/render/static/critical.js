// The tab "Critical path": what decided how long a rank took, as far as its replay can be believed.

import { byId } from "render/dom.js";
import { pathPicture } from "render/path_picture.js";
import { partTables, pathWaterfall, showDoubts } from "render/path_tables.js";
import { readBlock } from "render/dom.js";

/** @typedef {page.PathBlock | { reason: string }} Block */

/**
 * Shows the path of the rank at a position in the report; returns its picture, null where there is none.
 * @param {number} position
 */
export function showCritical(position) {
  const id = `weftrace-path-${position}`;
  const known = document.getElementById(id) !== null;
  byId("critical").hidden = !known;
  if (!known) return null;
  /** @type {Block} */
  const block = readBlock(id);
  const reason = "reason" in block ? block.reason : null;
  byId("critical-reason").hidden = reason === null;
  byId("critical-reason").textContent = reason;
  byId("critical-body").hidden = reason !== null;
  if ("reason" in block) return null;
  const { document: path, summary } = block;
  byId("critical-sentence").textContent = path.headline;
  byId("critical-facts").textContent = `${summary.replay} ${summary.weakest}`;
  showDoubts(byId("critical-banner"), summary.doubts);
  pathWaterfall(byId("critical-fall"), block);
  partTables(byId("critical-by"), byId("critical-table"), path);
  return block.picture && pathPicture(byId("critical-path"), block.picture);
}
