// The first screen: facts, the numbers that matter with their meaning, and how the phases share the step.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { duration, percent, si } from "render/format.js";
import { phaseClass } from "./words.js";
import { key } from "render/legends.js";
import { defined } from "render/tooltip.js";

/** @typedef {import("./model.js").FlopsModel} FlopsModel */

/**
 * A sum that the phases share.
 * @typedef {object} Bar
 * @property {"time" | "executed" | "vector" | "bytes"} key
 * @property {string} word
 * @property {string} term key of its definition
 * @property {(value: number) => string} text
 */

/** @type {Bar[]} */
const BARS = [
  { key: "time", word: "Time", term: "step", text: (value) => duration(value) },
  { key: "executed", word: "FLOPs", term: "executed_flops", text: (value) => si(value, "FLOP") },
  { key: "vector", word: "Vector FLOPs", term: "vector_flops", text: (value) => si(value, "FLOP") },
  { key: "bytes", word: "Bytes", term: "bytes", text: (value) => si(value, "B") },
];

/** @param {FlopsModel} model */
export function showSummary({ doc }) {
  fill(byId("facts"), h("span", { text: doc.facts.join(" · ") }));
  fill(
    byId("banner"),
    doc.warnings.map((text) => h("p", { class: "notice warn", text })),
  );
  fill(
    byId("cards"),
    doc.cards.map(({ key, label, value, note, look }) => card(key, label, value, note, look)),
  );
  fill(
    byId("account"),
    h("p", { class: "account-lead", text: "How the phases of a step share its time and its work." }),
    BARS.filter(({ key }) => doc.phases.some((phase) => phase[key])).map((bar) => phaseBar(doc.phases, bar)),
    h(
      "div",
      { class: "legend" },
      doc.phases.map((phase) => key({ class: `swatch ${phaseClass(phase.phase)}` }, phase.phase)),
    ),
    h("p", { class: "account-lead", text: doc.exact }),
  );
}

/**
 * How the phases share a step's time, or its work of one sort.
 * @param {page.Flops["phases"]} phases
 * @param {Bar} bar
 */
function phaseBar(phases, { key, word, term, text }) {
  const parts = phases.map(({ phase, [key]: value }) => ({ phase, value: value ?? 0 }));
  const total = parts.reduce((all, { value }) => all + value, 0);
  const drawn = parts
    .filter(({ value }) => value)
    .map(({ phase, value }) => {
      const share = value / total;
      return h(
        "div",
        {
          class: `part ${phaseClass(phase)}`,
          title: `${phase}: ${text(value)}, ${percent(share)}`,
          style: { "flex-grow": share },
        },
        share > 0.13 ? h("span", { text: `${phase} ${percent(share)}` }) : null,
      );
    });
  const words = parts.map(({ phase, value }) => `${phase} ${text(value)}`).join(", ");
  return h(
    "div",
    { class: "phase-row", data: { bar: key } },
    h("span", { class: "word" }, defined(term, word)),
    h("div", { class: "stack", role: "img", "aria-label": `${word}: ${words}` }, drawn),
    h("b", { text: text(total) }),
  );
}
