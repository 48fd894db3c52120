// The page about a replay: what to use, what it gains, how it went over time, and every row that was tried.

import { byId, fill, h } from "./dom.js";
import { replayModel } from "./experts_rows.js";
import { rowTable } from "./experts_row_table.js";
import { movedChart, timeChart } from "./experts_series.js";
import { showReplaySummary } from "./experts_replay_summary.js";
import { REPLAY_TERMS } from "./experts_terms.js";
import { tradeOff } from "./experts_trade_off.js";
import { startTheme } from "./theme.js";
import { startTooltips } from "./tooltip.js";

const model = replayModel(JSON.parse(byId("weft-replay").textContent));

startTooltips(REPLAY_TERMS);
startTheme(byId("theme"));
showReplaySummary(model);
// Rows on the picture: those that play a part, and what the reader adds.
const shown = new Set(model.parts.map((part) => part.row));
const again = [];
const refresh = () => again.forEach((draw) => draw());
const toggle = (row) => { if (shown.has(row)) shown.delete(row); else shown.add(row); refresh(); };
again.push(timeChart(model, shown), movedChart(model, shown), tradeOff(model, shown, toggle), rowTable(model, shown, toggle));
fill(byId("definition-list"), Object.entries(REPLAY_TERMS).map(([key, [term, text]]) => h("div", { id: `def-${key}` }, h("dt", { text: term }), h("dd", { text }))));

// For people at the console, and for tests.
window.weft = { document: model.document, model, shown: () => [...shown], toggle };

// After the first frame has been drawn and handed to the screen.
requestAnimationFrame(() => setTimeout(() => performance.mark("weft-first-paint")));
