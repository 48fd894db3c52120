// The first screen of a placement: how much of the time GPUs work on the next window and on the loads that were planned
// for, and some numbers with what they mean.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { grouped, percent, plural, smallPercent } from "render/format.js";
import { mainBinding } from "./certificate.js";
import { balance, balancePercent, mean } from "./words.js";
import { defined } from "render/tooltip.js";

/**
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 * @typedef {import("./placement_model.js").Which} Which
 */

/** @param {PlacementModel} model */
export function showPlacementSummary(model) {
  const { document: doc } = model;
  const { cluster } = doc;
  const out = cluster.dead.length + cluster.draining.length;
  fill(
    byId("facts"),
    h(
      "span",
      {},
      [
        plural(doc.num_layers, "layer"),
        `${plural(doc.num_experts, "expert")} in ${grouped(doc.num_slots)} slots`,
        `${plural(model.numGpus, "GPU")} on ${plural(cluster.num_nodes, "node")}`,
        doc.num_groups > 1 ? `${doc.num_groups} groups` : null,
        out ? `${plural(out, "GPU")} out of service` : null,
      ]
        .filter(Boolean)
        .join(" · "),
    ),
    h("span", { class: "chip plain" }, defined("policy", doc.policy)),
    h("span", { class: "chip plain" }, defined("split", `${doc.split} split`)),
  );
  const after = mean(doc.gpu_load.after.balancedness) ?? 1;
  const before = doc.gpu_load.before ? mean(doc.gpu_load.before.balancedness) : null;
  fill(
    byId("account"),
    h(
      "p",
      { class: "account-lead" },
      "All GPUs of a layer wait for the busiest. ",
      defined("balancedness", "Balancedness"),
      " is the share of that time in which the average GPU works.",
    ),
    h("div", { class: "work" }, doc.next_windows ? nextWindowBars(doc) : fitBars(doc, before, after)),
  );
  fill(byId("cards"), cards(model, before, after));
}

/**
 * The next window, which tells what to expect, and how well the placement fits its own loads, which does not.
 * @param {page.Placement} doc
 */
function nextWindowBars(doc) {
  const looks = { this: "after", baseline: "before", beside: "beside" };
  const rows = doc.next_windows?.rows ?? [];
  return [
    h("p", { class: "work-head" }, defined("next_window", "On the next window"), `, ${doc.words.next}`),
    rows.map((row) => workBar(looks[row.part], nameOf(row), mean(row.balancedness) ?? 1)),
    doc.words.caution ? h("p", { class: "work-note", text: doc.words.caution }) : null,
    h("p", { class: "work-head", text: `Fit, no prediction: ${doc.words.of}` }),
    workBar("fit", "this placement", mean(doc.gpu_load.after.balancedness) ?? 1),
  ].flat();
}

/** @param {page.NextWindowRow} row */
function nameOf({ name, part }) {
  return part === "this" && !name.startsWith("this") ? `${name} (this)` : name.replace(/^the /, "");
}

/**
 * @param {page.Placement} doc
 * @param {number | null} before
 * @param {number} after
 */
function fitBars({ certificate, gpu_load: load, words }, before, after) {
  return [
    h("p", { class: "work-head", text: `No window after these loads is known. A fit, no prediction: ${words.of}` }),
    before === null ? null : workBar("before", load.before?.label ?? "", before),
    workBar("fit", "this placement", after),
    certificate ? workBar("bound", "bound: no placement can do better", certificate.bound_balancedness) : null,
  ];
}

/**
 * Work and waiting as one bar, to scale.
 * @param {string} key
 * @param {string} words
 * @param {number} value
 */
function workBar(key, words, value) {
  return h(
    "div",
    { class: "work-row", data: { work: key, value } },
    h("span", { class: "work-word", text: words }),
    h(
      "div",
      { class: "stack medium", role: "img", "aria-label": `${words}: GPUs work ${balancePercent(value)} of the time` },
      h(
        "div",
        { class: `part work-${key}`, style: { "flex-grow": value } },
        value > 0.12 ? h("span", { text: `works ${balancePercent(value)}` }) : null,
      ),
      h(
        "div",
        { class: "part idle", style: { "flex-grow": Math.max(0, 1 - value) } },
        value < 0.86 ? h("span", { class: "waits", text: `waits ${percent(1 - value)}` }) : null,
      ),
    ),
    h("b", { text: balance(value) }),
  );
}

/**
 * @param {PlacementModel} model
 * @param {number | null} before
 * @param {number} after
 */
function cards(model, before, after) {
  const { document: doc } = model;
  const { certificate: c, moves } = doc;
  const perGpu = new Set(doc.cluster.slots_of_gpu).size === 1 ? `, ${doc.cluster.slots_of_gpu[0]} a GPU` : "";
  const held = mainBinding(c);
  const proved = c ? c.is_optimal.filter(Boolean).length : 0;
  const all = proved === doc.num_layers;
  const optimal = all
    ? "every layer is proved optimal"
    : `${proved} of ${plural(doc.num_layers, "layer")} proved optimal`;
  return [
    ...headCards(model, before, after),
    c && !doc.next_windows // else the first sentence has it
      ? card("bound", "best possible", balance(c.bound_balancedness), "no placement under the same rules gets higher")
      : null,
    c ? card("gap", "gap to the bound", smallPercent(c.gap), `in the worst layer; ${optimal}`) : null,
    held ? card("binding", "held back by", held.word, held.note) : null,
    c
      ? card(
          "slots_for_target",
          `slots for ${c.target}`,
          c.slots_for_target === null ? "none" : grouped(c.slots_for_target),
          c.slots_for_target === null ? `no number of slots reaches ${c.target}` : slotsWords(c.slots_for_target, doc),
        )
      : null,
    moves
      ? card(
          "moves",
          "moves",
          grouped(moves.num_moves),
          `${smallPercent(moves.num_moves / (moves.num_slots || 1))} of ${grouped(moves.num_slots)} slots`,
        )
      : card(
          "slot",
          "slots for copies",
          grouped(doc.num_slots - doc.num_experts),
          `${grouped(doc.num_slots)} a layer${perGpu}`,
        ),
  ];
}

/**
 * What to expect, where that is known; then how well the placement fits its loads.
 * @param {PlacementModel} model
 * @param {number | null} before
 * @param {number} after
 */
function headCards(model, before, after) {
  const { next_windows: judged, words } = model.document;
  const fit = before === null ? "mean over the layers" : `${words.before} ${balance(before)}: ${gainWords(model)}`;
  const fitCard = card("balancedness", words.fit, balance(after), fit);
  if (!judged) return [fitCard];
  const [mine, baseline] = judged.rows;
  const expected = mean(mine.balancedness) ?? 1;
  const gain = baseline ? 100 * (expected - (mean(baseline.balancedness) ?? 1)) : 0;
  const note = baseline ? `${Math.abs(gain).toFixed(1)} points ${gain < 0 ? "under" : "over"} ${baseline.name}` : "";
  return [card("next_window", "next window", balance(expected), note, "good"), fitCard];
}

/**
 * @param {number} least
 * @param {page.Placement} placement
 */
function slotsWords(least, { num_slots: here }) {
  if (least <= here) return `fewer cannot reach it; this placement has ${grouped(here)}`;
  return `${grouped(least - here)} more than the ${grouped(here)} here`;
}

/**
 * How much less the busiest GPUs do, summed over the layers: what the experts' time falls by.
 * @param {PlacementModel} model
 */
function gainWords(model) {
  /** @param {Which} which */
  const total = (which) => model.means.reduce((sum, mean, layer) => sum + mean * model.most(which, layer), 0);
  const saved = 1 - total("after") / (total("before") || 1);
  const part = percent(Math.abs(saved), Math.abs(saved) < 0.01 ? 2 : 0);
  return `the busiest GPUs do ${part} ${saved >= 0 ? "less" : "more"}`;
}
