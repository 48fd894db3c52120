// The page of a comparison: time against memory, the table of schedules, pictures of the chosen ones, laws.

import { byId, fill, h, items } from "render/dom.js";
import { startPage } from "render/start.js";
import { columnsOf, showTable } from "render/tables.js";
import { tradeOff } from "./comparison_trade_off.js";
import { schedulePicture } from "./schedule_picture.js";
import { timeText } from "./schedule_text.js";

/** @typedef {page.Comparison["rows"][number] & { at: number }} Row */

startPage("weftrace-comparison", (/** @type {page.Comparison} */ block) => {
  /** @type {Row[]} */
  const rows = block.rows.map((row, at) => ({ ...row, at }));
  const shown = new Set(block.first);
  const until = Math.max(1, ...block.pictures.map((picture) => picture?.makespan_ns ?? 0));
  fill(byId("facts"), block.facts.join(" · ").replaceAll(". · ", ". "));
  const table = showTable("schedule-table", {
    name: "schedules",
    columns: scheduleColumns(block),
    rows,
    sort: { key: block.equal === "devices" ? "step_ns" : "bubble_share", down: false },
    onRow: ({ at }) => choose(at),
    rowClass: ({ at }) => (shown.has(at) ? "current" : ""),
    taken: ({ at, published, exact, ...row }) => ({
      ...row,
      law_ns: exact?.bubble_ns,
      published_ns: published?.bubble_ns,
    }),
  });
  const drawAgain = tradeOff(byId("trade-chart"), block, shown, choose);
  fill(byId("impossible"), impossible(block));
  fill(byId("law-table"), laws(block));
  drawPictures();
  return { block, shown, choose };

  /** @param {number} at */
  function choose(at) {
    if (!shown.delete(at)) shown.add(at);
    drawAgain();
    table.setRows(rows);
    drawPictures();
  }

  function drawPictures() {
    const chosen = [...shown].sort((a, b) => a - b);
    const holders = chosen.map(() => h("div"));
    fill(
      byId("schedules"),
      chosen.map((at, i) => h("div", { class: "compared" }, h("h3", { text: block.rows[at].title }), holders[i])),
      chosen.length ? null : h("p", { class: "lead", text: "None is chosen." }),
    );
    chosen.forEach((at, i) => {
      const picture = block.pictures[at];
      if (picture) schedulePicture(holders[i], picture, until);
      else
        fill(
          holders[i],
          h("p", { class: "notice", text: `Too large for this page: weftrace pipeline show ${block.rows[at].name}` }),
        );
    });
  }
});

/**
 * @param {page.Comparison} block
 * @returns {import("render/tables.js").Column<Row>[]}
 */
function scheduleColumns(block) {
  /** @param {number | null | undefined} ns */
  const time = (ns) => (ns === undefined || ns === null ? "–" : timeText(block, ns));
  /** @param {"exact" | "published"} which */
  const law = (which) => ({
    value: (/** @type {Row} */ row) => row[which]?.bubble_ns,
    text: (/** @type {Row} */ row) => time(row[which]?.bubble_ns) + (row[which]?.holds === false ? " *" : ""),
  });
  const keys = ["title", "step_ns", "bubble_share", "bubble_ns", "exact", "off", "published"];
  keys.push("peak_activations", "parameters", ...(block.equal === "stages" ? ["num_devices"] : []));
  return columnsOf("schedules", keys, {
    title: { text: (row) => row.title + (row.fits ? "" : " (no room)") },
    step_ns: { text: (row) => time(row.step_ns) },
    bubble_share: { bar: (row) => row.bubble_share },
    bubble_ns: { text: (row) => time(row.bubble_ns) },
    exact: law("exact"),
    off: {
      def: "off",
      kind: "time",
      value: (row) => row.exact?.difference_ns,
      text: (row) => time(row.exact?.difference_ns),
    },
    published: law("published"),
    peak_activations: { text: (row) => short(row.peak_activations) },
    parameters: { text: (row) => `${short(row.parameters)}x` },
  });
}

/** @param {page.Comparison} block */
function impossible(block) {
  if (!block.impossible.length) return null;
  return h(
    "div",
    {},
    h("h3", { text: "Impossible here" }),
    h("ul", {}, items(block.impossible.map((row) => row.reason))),
  );
}

/** @param {page.Comparison} block */
function laws(block) {
  return h(
    "dl",
    { class: "definitions" },
    block.laws.map((law) =>
      h(
        "div",
        {},
        h("dt", { text: `${law.title}, ${law.which}` }),
        h("dd", {}, h("code", { text: law.formula }), ` ${law.holding}`),
      ),
    ),
  );
}

/** @param {number} number */
export function short(number) {
  return String(Math.round(number * 1000) / 1000);
}
