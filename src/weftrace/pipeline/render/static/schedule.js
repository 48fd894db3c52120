// The page of simulated schedules: each in a section of its own, all on one scale of time, and a table of their ranks.

import { byId, fill, h, fact } from "render/dom.js";
import { percent } from "render/format.js";
import { startPage } from "render/start.js";
import { columnsOf, showTable } from "render/tables.js";
import { defined } from "render/tooltip.js";
import { schedulePicture } from "./schedule_picture.js";
import { heldText, timeText } from "./schedule_text.js";

/** @typedef {page.Schedule["ranks"][number] & { schedule: string, block: page.Schedule }} Row */

startPage("weftrace-schedules", (/** @type {page.Schedules} */ { pictures }) => {
  const until = Math.max(...pictures.map((block) => block.makespan_ns));
  const holders = pictures.map(() => h("div"));
  fill(
    byId("schedules"),
    pictures.map((block, i) => h("section", {}, heading(block), holders[i])),
  );
  showRanks(pictures);
  return { pictures, shown: pictures.map((block, i) => schedulePicture(holders[i], block, until)) };
});

/** @param {page.Schedule} block */
function heading(block) {
  /** @param {number} ns */
  const time = (ns) => timeText(block, ns); // as the headline has it
  return [
    h("h2", { text: `${block.name}: ${block.shape}` }),
    h(
      "dl",
      { class: "facts-row" },
      fact(defined("makespan"), `${time(block.makespan_ns)}${block.unit_ns ? " units" : ""}`),
      fact(defined("bubble"), `${time(block.bubble_ns)} (${percent(block.bubble_share)})`),
      fact(defined("boundary"), block.boundary),
      fact(defined("held"), `at most ${heldText(block, block.peak)}, on rank ${block.peak_rank}`),
    ),
  ];
}

/** @param {page.Schedule[]} pictures */
function showRanks(pictures) {
  /** @type {Row[]} */
  const rows = pictures.flatMap((block) => block.ranks.map((one) => ({ ...one, schedule: block.name, block })));
  /** @param {"busy_ns" | "idle_ns" | "warm_up_ns" | "steady_ns" | "cool_down_ns"} key */
  const time = (key) => ({ text: (/** @type {Row} */ row) => timeText(row.block, row[key]) });
  const keys = ["rank", "busy_ns", "idle_ns", "warm_up_ns", "steady_ns", "cool_down_ns", "peak"];
  /** @type {import("render/tables.js").Column<Row>[]} */
  const columns = columnsOf("ranks", pictures.length > 1 ? ["schedule", ...keys] : keys, {
    busy_ns: time("busy_ns"),
    idle_ns: time("idle_ns"),
    warm_up_ns: time("warm_up_ns"),
    steady_ns: time("steady_ns"),
    cool_down_ns: time("cool_down_ns"),
    peak: { text: (row) => heldText(row.block, row.peak) },
  });
  showTable("rank-table", {
    name: "ranks",
    columns,
    rows,
    sort: { key: pictures.length > 1 ? "schedule" : "rank", down: false },
    limit: 16,
    taken: ({ block, cells, time_ns, held, ...row }) => row,
  });
}
