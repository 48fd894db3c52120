// The page of a sweep: tokens a second and exposed communication by setting, and what holds each combination up.

import { showConfiguration } from "render/configuration.js";
import { byId, fill, h, choiceButtons } from "render/dom.js";
import { duration, grouped, percent, tickLabel } from "render/format.js";
import { startPage } from "render/start.js";
import { columnsOf, showTable } from "render/tables.js";
import { showAssumed } from "./assumed.js";
import { curves, percentTick } from "render/curves.js";

/**
 * @typedef {page.ProfileSweep["rows"][number]} Row
 * @typedef {NonNullable<Row["summary"]>} Summary
 * @typedef {{ values: Row["values"] } & Summary} Possible
 *
 * @typedef {object} Measure what a figure may show
 * @property {string} word
 * @property {string} name
 * @property {(row: Summary) => number | null} of
 * @property {(value: number) => string} text
 * @property {(value: number, step: number) => string} [tick]
 */

/** @type {Record<string, Measure>} */
const MEASURES = {
  tokens: {
    word: "Tokens/s",
    name: "tokens per second of one GPU",
    of: (row) => row.tokens_per_gpu,
    text: (value) => grouped(value, 0),
  },
  exposed: {
    word: "Exposed",
    name: "exposed communication, part of a layer",
    of: exposedPart,
    text: (value) => percent(value),
    tick: percentTick,
  },
  layer: {
    word: "A layer",
    name: "time of a layer",
    of: (row) => row.layer_ns,
    text: (value) => duration(value, 4),
    tick: (value, step) => tickLabel(value, step, 5 * step),
  },
};
/** @type {Record<string, string>} */
const LIMITS = {
  compute: "computation",
  communication: "communication",
  fused: "the fused kernel",
  ranks: "waiting for other ranks",
};

/**
 * Null where a fused kernel moves tokens and computes: what of it is communication is not separable.
 * @param {Summary} row
 */
function exposedPart(row) {
  return row.exposed_ns === null ? null : row.exposed_ns / (row.layer_ns || 1);
}

startPage("weftrace-profile-sweep", (/** @type {page.ProfileSweep} */ block) => {
  const possible = block.rows.flatMap((row) => (row.summary ? [{ values: row.values, ...row.summary }] : []));
  byId("facts").textContent =
    `${block.rows.length} combinations, ${block.rows.length - possible.length} of them impossible; simulated`;
  showConfiguration(Object.fromEntries(Object.entries(block.shared).map(([key, text]) => [`profile.${key}`, text])));
  byId("figure").hidden = possible.length < 2;
  show("tokens");
  showRows(block, possible);
  showImpossible(block);
  showAssumed(possible.map(({ values, assumed }) => ({ name: named(values), assumed: assumed ?? [] })));
  return { block, show };

  /** @param {string} key */
  function show(key) {
    const measure = MEASURES[key];
    byId("figure-title").textContent = measure.name[0].toUpperCase() + measure.name.slice(1);
    fill(
      byId("figure-of"),
      choiceButtons(
        Object.keys(MEASURES),
        (each) => MEASURES[each].word,
        (each) => each === key,
        show,
      ),
    );
    const holder = h("div");
    fill(byId("chart"), holder);
    if (possible.length > 1) figure(holder, block, measure);
  }
});

/**
 * Along the axis with most numbers, a curve for each combination of the others; without numbers, a place for each.
 * @param {HTMLElement} holder
 * @param {page.ProfileSweep} block
 * @param {Measure} measure
 */
function figure(holder, { axes, rows }, measure) {
  const numbers = Object.entries(axes).filter(([, values]) => values.every((value) => typeof value === "number"));
  const along = numbers.sort((a, b) => b[1].length - a[1].length)[0] ?? Object.entries(axes)[0];
  const [name, places] = along;
  const isNumber = numbers.length > 0;
  const order = isNumber ? [...places].sort((a, b) => Number(a) - Number(b)) : places;
  /** @type {Map<string, (number | null)[]>} */
  const found = new Map();
  for (const row of rows) {
    const rest = Object.entries(row.values).filter(([key]) => key !== name);
    const curve = rest.map(([key, value]) => (typeof value === "number" ? `${key} ${value}` : value)).join(", ");
    const values = found.get(curve) ?? order.map(() => null);
    values[order.indexOf(row.values[name])] = row.summary ? measure.of(row.summary) : null;
    found.set(curve, values);
  }
  curves(holder, {
    xs: isNumber ? order.map(Number) : null,
    labels: order.map((value) => (typeof value === "number" ? grouped(value, 0) : value)),
    curves: [...found].map(([curve, values]) => ({ name: curve || measure.name, values, base: curve === "none" })),
    across: name,
    up: measure.name,
    text: measure.text,
    tick: measure.tick,
    fromZero: true,
  });
}

/**
 * @param {page.ProfileSweep} block
 * @param {Possible[]} rows
 */
function showRows({ axes }, rows) {
  const most = Math.max(1, ...rows.map((row) => row.tokens_per_gpu));
  /** @type {import("render/tables.js").Column<Possible>[]} */
  const swept = Object.entries(axes).map(([name, values]) => ({
    key: name,
    label: name,
    kind: values.every((value) => typeof value === "number") ? "count" : "text",
    value: (row) => row.values[name],
  }));
  const known = new Set(Object.keys(axes));
  const keys = [
    ...(known.has("overlap") ? [] : ["overlap"]),
    ...["tokens_per_gpu", "tokens_per_node", "layer_ns", "exposed_ns", "share", "limit", "without_limit_ns"],
  ];
  /** @type {import("render/tables.js").Column<Possible>[]} */
  const columns = [
    ...swept,
    ...columnsOf("combinations", keys, {
      tokens_per_gpu: {
        label: "tokens/s a GPU",
        text: (/** @type {Possible} */ row) => grouped(row.tokens_per_gpu, 0),
        bar: (row) => row.tokens_per_gpu / most,
      },
      tokens_per_node: { text: (row) => grouped(row.tokens_per_node, 0) },
      share: { label: "of a layer", kind: "percent", value: exposedPart },
      limit: { text: (row) => LIMITS[row.limit] ?? row.limit },
    }),
  ];
  const sort = { key: "tokens_per_gpu", down: true };
  showTable("row-table", { name: "combinations", columns, rows, sort, limit: 40 });
}

/** @param {page.ProfileSweep} block */
function showImpossible({ rows }) {
  const reasons = rows.filter((row) => !row.summary);
  byId("impossible-box").hidden = reasons.length === 0;
  fill(
    byId("impossible"),
    reasons.map(({ values, reason }) => h("li", {}, h("b", { text: `${named(values)}: ` }), reason)),
  );
}

/** @param {Row["values"]} values */
function named(values) {
  return Object.entries(values)
    .map(([key, value]) => `${key} ${value}`)
    .join(", ");
}
