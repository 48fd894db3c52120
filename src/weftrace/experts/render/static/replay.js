// The page about a replay: what to use, what it gains, how it went over time, and every row that was tried.

import { byId, fill, h } from "render/dom.js";
import { replayModel } from "./replay_model.js";
import { rowTable } from "./replay_table.js";
import { movedChart, timeChart } from "./series.js";
import { showReplaySummary } from "./replay_summary.js";
import { REPLAY_TERMS } from "./terms.js";
import { tradeOff } from "./trade_off.js";
import { startTheme } from "render/theme.js";
import { startTooltips } from "render/tooltip.js";

const model = replayModel(JSON.parse(byId("weftrace-replay").textContent));

startTooltips(REPLAY_TERMS);
startTheme(byId("theme"));
showReplaySummary(model);
// Rows on the picture: those that play a part, and what the reader adds.
const shown = new Set(model.parts.map((part) => part.row));
const again = [];
const refresh = () => again.forEach((draw) => draw());
const toggle = (row) => {
  if (shown.has(row)) shown.delete(row);
  else shown.add(row);
  refresh();
};
again.push(
  timeChart(model, shown),
  movedChart(model, shown),
  tradeOff(model, shown, toggle),
  rowTable(model, shown, toggle),
);
fill(
  byId("definition-list"),
  Object.entries(REPLAY_TERMS).map(([key, [term, text]]) =>
    h("div", { id: `def-${key}` }, h("dt", { text: term }), h("dd", { text })),
  ),
);

// For people at the console, and for tests.
window.weftrace = { document: model.document, model, shown: () => [...shown], toggle };

// After the first frame has been drawn and handed to the screen.
requestAnimationFrame(() => setTimeout(() => performance.mark("weftrace-first-paint")));
