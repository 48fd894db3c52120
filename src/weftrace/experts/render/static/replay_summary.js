// The first screen of a replay: the recommendation in words, and the rows that matter side by side.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { grouped, plural, smallPercent } from "render/format.js";
import { balance } from "./words.js";
import { defined } from "render/tooltip.js";

/** @typedef {import("./replay_model.js").ReplayModel} ReplayModel */

/** @param {ReplayModel} model */
export function showReplaySummary(model) {
  const { document: doc, rows, recommendation } = model;
  fill(
    byId("facts"),
    h("span", {
      text: [
        plural(doc.num_windows, "window"),
        plural(doc.num_layers, "layer"),
        `${plural(doc.num_experts, "expert")} in ${grouped(doc.num_slots)} slots`,
        plural(doc.num_gpus, "GPU"),
        `${plural(rows.length, "row")} compared`,
      ].join(" · "),
    }),
  );
  byId("recommendation").textContent = recommendation.text;
  /** @param {number} value */
  const at = (value) => Math.max(0, Math.min(1, value));
  fill(
    byId("account"),
    h(
      "p",
      { class: "account-lead" },
      "Mean ",
      defined("balancedness", "balancedness"),
      " over the layers and the scored windows, with its ",
      defined("band"),
      ".",
    ),
    h(
      "div",
      { class: "work" },
      model.parts.map(({ row, part, word, definition }) =>
        h(
          "div",
          { class: "work-row", data: { part, row } },
          h("span", { class: "work-word" }, defined(definition, word), h("small", { text: model.name(row) })),
          h(
            "div",
            {
              class: "band-bar",
              role: "img",
              "aria-label": `${word}: ${bandWords(rows[row])}`,
            },
            h("div", { class: `band-fill look-${part}`, style: { width: `${100 * at(rows[row].balancedness)}%` } }),
            h("div", {
              class: "band-range",
              style: {
                left: `${100 * at(rows[row].low)}%`,
                width: `${100 * (at(rows[row].high) - at(rows[row].low))}%`,
              },
            }),
          ),
          h("b", { text: balance(rows[row].balancedness) }),
        ),
      ),
    ),
  );
  fill(byId("cards"), cards(model));
}

/** @param {ReplayModel} model */
function cards({ rows, recommendation: r, ceiling }) {
  const best = rows[r.row];
  const base = rows[r.baseline_row];
  const cheaper = r.cheaper_row === null ? null : rows[r.cheaper_row];
  /** @param {number} value */
  const points = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;
  return [
    card(
      "balancedness",
      "balancedness",
      balance(best.balancedness),
      `95 % between ${balance(best.low)} and ${balance(best.high)}`,
      "good",
    ),
    card(
      "gain",
      "gain",
      `${points(r.gain_points)} points`,
      `95 % between ${points(r.gain_low)} and ${points(r.gain_high)}, over ${balance(base.balancedness)}`,
    ),
    ceiling < 0
      ? null
      : card(
          "ceiling",
          "left to the ceiling",
          `${Math.max(0, 100 * (rows[ceiling].balancedness - best.balancedness)).toFixed(1)} points`,
          "what a perfect forecast would add",
        ),
    card(
      "moved",
      "moved a re-plan",
      smallPercent(best.moved_fraction),
      `of the slots, on average; ${plural(best.num_plans, "plan")}`,
    ),
    cheaper
      ? card(
          "cheaper",
          "cheaper choice",
          `${smallPercent(cheaper.moved_fraction)} moved`,
          `${cheaper.solver} on ${cheaper.estimator}, for ${less(best, cheaper)} points less`,
        )
      : card("cheaper", "cheaper choice", "none", "no row that moves less is as good"),
    card(
      "plan_time",
      "time of a plan",
      best.plan_ms === null ? "–" : `${best.plan_ms < 10 ? best.plan_ms.toFixed(1) : grouped(best.plan_ms)} ms`,
      best.plan_ms === null ? "not measured" : "all layers, on average",
    ),
  ];
}

/** @param {page.ReplayRow} row */
function bandWords({ balancedness, low, high }) {
  return `${balance(balancedness)}, from ${balance(low)} to ${balance(high)}`;
}

/**
 * By how many points the cheaper row is less balanced.
 * @param {page.ReplayRow} best
 * @param {page.ReplayRow} cheaper
 */
function less(best, cheaper) {
  return Math.abs(100 * (best.balancedness - cheaper.balancedness)).toFixed(1);
}
