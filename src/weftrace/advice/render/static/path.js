// The page of a critical path: what decides the span, how far the replay is off, what would be saved.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { duration, percent, plural, sentence } from "render/format.js";
import { pathPicture } from "render/path_picture.js";
import { keptWords, partTables, replayWords, showTrust, signed, waitTable } from "render/path_tables.js";
import { startPage } from "render/start.js";
import { waterfall } from "render/waterfall.js";
import { showCurves, showGains } from "./gains.js";

const AROUND = 60; // a wait that is chosen is seen with this part of the span around it

startPage("weftrace-path", (/** @type {page.PathBlock} */ block) => {
  byId("facts").textContent = `${replayWords(block.replay)} ${keptWords(block.replay)}`;
  showTrust(byId("banner"), block.replay);
  fill(byId("cards"), cards(block));
  showNotes(block.notes);
  showFall(block);
  const picture = pathPicture(byId("path"), block.picture);
  const parts = partTables(byId("part-by"), byId("part-table"), block.by);
  showWaits(block, picture.view);
  const gains = showGains(block);
  const curve = showCurves(block);
  byId("saved").hidden = !gains && !curve;
  return { block, picture, parts };
});

/** @param {page.PathBlock} block */
function cards({ replay, by, waits, num_waits }) {
  const [largest] = by.classes;
  const [cause] = by.causes;
  const unsure = `${plural(num_waits, "wait")} on the path ${num_waits === 1 ? "is" : "are"} not certain`;
  return [
    card("replay", "Measured span", sentence(replay.span_ns), `replay ${signed(replay.error)}`),
    card("path", "Largest part", percent(largest.share, 0), `${largest.name}, ${sentence(largest.time_ns)}`),
    card("cause", "Mostly reached by", cause.name, `${percent(cause.share, 0)} of the span`),
    waits.length
      ? card("confidence", "Least sure wait", percent(waits[0].confidence, 0), unsure)
      : card("confidence", "Least sure wait", "100 %", "all waits on the path are recorded"),
  ];
}

/** @param {string[]} notes */
function showNotes(notes) {
  byId("notes").hidden = notes.length === 0;
  fill(
    byId("notes"),
    notes.map((text) => h("li", { text })),
  );
}

/** @param {page.PathBlock} block */
function showFall({ bars, replay }) {
  byId("fall").hidden = bars.length === 0;
  let end = 0;
  const falls = bars.map((bar) => {
    const from_ns = end;
    end += bar.time_ns;
    const alone = bar.alone_ns === null ? "" : `, alone saves ${duration(bar.alone_ns)}`;
    const told = `${duration(bar.time_ns)}, ${percent(bar.share)}${alone}`;
    return { name: bar.name, role: bar.role, from_ns, to_ns: end, told, saved_ns: bar.alone_ns };
  });
  if (bars.length) waterfall(byId("waterfall"), falls, `The measured ${duration(replay.span_ns)} by class`);
}

/**
 * @param {page.PathBlock} block
 * @param {import("render/viewport.js").Viewport} view
 */
function showWaits({ waits, num_waits, picture }, view) {
  byId("waits").hidden = waits.length === 0;
  byId("nav-waits").hidden = waits.length === 0;
  const shown = waits.length < num_waits ? `The ${waits.length} least sure of ` : "";
  const lead = `${shown}${plural(num_waits, "wait")} on the path that no record tells of.`;
  byId("wait-lead").textContent = `${lead} Click a row to see it above.`;
  waitTable(byId("wait-table"), waits, ({ at_ns }) => {
    view.glide(at_ns - picture.span_ns / AROUND, at_ns + picture.span_ns / AROUND);
    byId("picture").scrollIntoView();
  });
}
