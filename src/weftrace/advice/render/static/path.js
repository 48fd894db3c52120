// The page of a critical path: what decides the span, how far the replay is off, what would be saved.

import { card } from "render/cards.js";
import { byId, fill, showNotes } from "render/dom.js";
import { duration, percent, plural, signed } from "render/format.js";
import { pathPicture } from "render/path_picture.js";
import { partTables, pathWaterfall, showDoubts, waitTable } from "render/path_tables.js";
import { startPage } from "render/start.js";
import { showCurves, showGains } from "./gains.js";

const AROUND = 60; // a wait that is chosen is seen with this part of the span around it

startPage("weftrace-path", (/** @type {page.PathBlock} */ block) => {
  const { document: path, summary, sensitivity } = block;
  byId("facts").textContent = `${summary.replay} ${summary.kept} ${summary.weakest}`;
  showDoubts(byId("banner"), summary.doubts);
  fill(byId("cards"), cards(block));
  showNotes(byId("notes"), path.notes);
  byId("fall").hidden = path.waterfall.length === 0;
  pathWaterfall(byId("waterfall"), block);
  byId("picture").hidden = !block.picture;
  const picture = block.picture && pathPicture(byId("path"), block.picture);
  const parts = partTables(byId("part-by"), byId("part-table"), path);
  showWaits(block, picture?.view ?? null);
  byId("saved").hidden = !sensitivity;
  if (sensitivity) showGains(sensitivity);
  if (sensitivity) showCurves(sensitivity);
  return { block, picture, parts };
});

/** @param {page.PathBlock} block */
function cards({ document: { replay, by_class, by_cause, weakest }, num_waits }) {
  const [largest] = by_class;
  const [cause] = by_cause;
  const unsure = `${plural(num_waits, "wait")} on the path ${num_waits === 1 ? "is" : "are"} not certain`;
  return [
    card("replay_error", "Measured span", duration(replay.span_ns, 4), `replay ${signed(replay.error, 2)}`),
    card("critical_path", "Largest part", percent(largest?.share, 0), largest ? toldOf(largest) : "nothing takes time"),
    card(
      "critical_path",
      "Mostly reached by",
      cause?.name ?? "–",
      cause ? `${percent(cause.share, 0)} of the span` : "",
    ),
    weakest
      ? card("weakest", "Weakest wait", percent(weakest.confidence, 0), num_waits ? unsure : weakest.name)
      : card("weakest", "Weakest wait", "100 %", "all waits on the path are sure"),
  ];
}

/** @param {page.PathBlock["document"]["by_class"][number]} part */
function toldOf({ name, time_ns }) {
  return `${name}, ${duration(time_ns)}`;
}

/**
 * @param {page.PathBlock} block
 * @param {import("render/viewport.js").Viewport | null} view
 */
function showWaits({ waits, num_waits, document: { span_ns } }, view) {
  byId("waits").hidden = waits.length === 0;
  const shown = waits.length < num_waits ? `The ${waits.length} least sure of ` : "";
  const lead = `${shown}${plural(num_waits, "wait")} on the path that no record shows.`;
  byId("wait-lead").textContent = `${lead} Click a row to see it above.`;
  waitTable(byId("wait-table"), waits, ({ at_ns }) => {
    view?.glide(at_ns - span_ns / AROUND, at_ns + span_ns / AROUND);
    byId("picture").scrollIntoView();
  });
}
