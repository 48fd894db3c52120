// From which batch on does overlapping pay? A curve for each operation list, against no overlap.

import { showConfiguration } from "render/configuration.js";
import { byId, fill, h, choiceButtons } from "render/dom.js";
import { grouped, signed } from "render/format.js";
import { startPage } from "render/start.js";
import { columnsOf, sortableTable } from "render/tables.js";
import { showAssumed } from "./assumed.js";
import { curves, percentTick } from "render/curves.js";

/** @typedef {page.Pays["curves"][number]} Curve */

startPage("weftrace-profile-pays", (/** @type {page.Pays} */ block) => {
  const { unit, batches } = block;
  const [first, last] = [batches[0], batches[batches.length - 1]].map((batch) => grouped(batch, 0));
  byId("facts").textContent = `${batches.length} batches of ${first} to ${last} ${unit} a GPU`;
  showConfiguration(Object.fromEntries(Object.entries(block.shared).map(([key, text]) => [`profile.${key}`, text])));
  show("gain");
  showCurves(block);
  const run = block.curves.filter((curve) => !curve.reason);
  showAssumed(run.map(({ overlap, assumed }) => ({ name: overlap, assumed })));
  return { block, show };

  /** @param {"gain" | "tokens"} key */
  function show(key) {
    const choices = /** @type {const} */ ([
      ["gain", "Against no overlap"],
      ["tokens", "Tokens/s"],
    ]);
    fill(
      byId("figure-of"),
      choiceButtons(
        choices,
        ([, text]) => text,
        ([each]) => each === key,
        ([each]) => show(each),
      ),
    );
    const holder = h("div");
    fill(byId("chart"), holder);
    figure(holder, block, key);
  }
});

/**
 * @param {HTMLElement} holder
 * @param {page.Pays} block
 * @param {"gain" | "tokens"} key
 */
function figure(holder, { batches, curves: all, unit }, key) {
  const [base] = all;
  const shown = all.filter((curve) => !curve.reason && (key === "tokens" || curve !== base));
  /** @param {Curve} curve */
  const valuesOf = (curve) =>
    curve.tokens_per_gpu.map((value, i) => {
      const held = base.tokens_per_gpu[i];
      return key === "tokens" || value === null ? value : held ? value / held - 1 : null;
    });
  curves(holder, {
    xs: batches,
    labels: batches.map((batch) => grouped(batch, 0)),
    curves: shown.map((curve) => ({
      name: curve.overlap,
      values: valuesOf(curve),
      base: curve === base,
      from: curve.pays_from ? batches.indexOf(curve.pays_from) : undefined,
    })),
    across: `${unit} per GPU`,
    up: key === "gain" ? "more tokens per second than no overlap" : "tokens per second of one GPU",
    text: key === "gain" ? signed : (value) => grouped(value, 0),
    tick: key === "gain" ? percentTick : undefined,
    fromZero: true,
    joined: true, // a list that cuts a batch in two has no odd ones
  });
}

/** @param {page.Pays} block */
function showCurves({ curves: all, batches }) {
  const rows = all.slice(1).filter((curve) => !curve.reason);
  const last = grouped(batches[batches.length - 1], 0);
  /** @type {import("render/tables.js").Column<Curve>[]} */
  const columns = columnsOf("lists", ["overlap", "title", "pays_from", "best_gain", "best_batch", "last_gain"], {
    overlap: { node: (row) => h("b", { text: row.overlap }) },
    pays_from: { text: (row) => (row.pays_from === null ? "nowhere" : `${grouped(row.pays_from, 0)} on`) },
    best_gain: { text: (row) => signed(row.best_gain) },
    last_gain: { label: `at ${last}`, text: (row) => signed(row.last_gain) },
  });
  fill(
    byId("curve-table"),
    sortableTable({ name: "lists", columns, rows, sort: { key: "", down: false }, empty: "No list can run here." })
      .element,
  );
  const reasons = all.filter((curve) => curve.reason);
  byId("impossible-box").hidden = reasons.length === 0;
  fill(
    byId("impossible"),
    reasons.map((curve) => h("li", {}, h("b", { text: `${curve.overlap}: ` }), curve.reason)),
  );
}
