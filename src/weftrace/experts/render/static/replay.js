// The page about a replay: what to use, what it gains, how it went over time, and every row that was tried.

import { startPage } from "render/start.js";
import { replayModel } from "./replay_model.js";
import { showReplaySummary } from "./replay_summary.js";
import { rowTable } from "./replay_table.js";
import { movedChart, timeChart } from "./series.js";
import { tradeOff } from "./trade_off.js";

startPage("weftrace-replay", (/** @type {page.Replay} */ document) => {
  const model = replayModel(document);
  showReplaySummary(model);
  // Rows on the picture: those that play a part, and what the reader adds.
  const shown = new Set(model.parts.map((part) => part.row));
  /** @type {(() => void)[]} */
  const again = [];
  /** @param {number} row */
  const toggle = (row) => {
    if (shown.has(row)) shown.delete(row);
    else shown.add(row);
    again.forEach((draw) => draw());
  };
  again.push(
    timeChart(model, shown),
    movedChart(model, shown),
    tradeOff(model, shown, toggle),
    rowTable(model, shown, toggle),
  );
  return { document, model, shown: () => [...shown], toggle };
});
