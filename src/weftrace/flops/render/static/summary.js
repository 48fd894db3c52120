// The first screen: facts, the numbers that matter with their meaning, and how the phases share the step.

import { byId, fill, h } from "render/dom.js";
import { duration, percent } from "render/format.js";
import { phaseClass, si } from "./words.js";
import { defined } from "render/tooltip.js";

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
  const bars = [
    ["time", "Time", "step", (value) => duration(value)],
    ["executed", "FLOPs", "executed_flops", (value) => si(value, "FLOP")],
    ["vector", "Vector FLOPs", "vector_flops", (value) => si(value, "FLOP")],
    ["bytes", "Bytes", "bytes", (value) => si(value, "B")],
  ].filter(([key]) => doc.phases.some((phase) => phase[key]));
  fill(
    byId("account"),
    h("p", { class: "account-lead", text: "How the phases of a step share its time and its work." }),
    bars.map(([key, word, term, text]) => {
      const total = doc.phases.reduce((all, phase) => all + (phase[key] ?? 0), 0);
      return h(
        "div",
        { class: "phase-row", data: { bar: key } },
        h("span", { class: "word" }, defined(term, word)),
        h(
          "div",
          {
            class: "stack",
            role: "img",
            "aria-label": `${word}: ${doc.phases.map((phase) => `${phase.phase} ${text(phase[key] ?? 0)}`).join(", ")}`,
          },
          doc.phases
            .filter((phase) => phase[key])
            .map((phase) =>
              h(
                "div",
                {
                  class: `part ${phaseClass(phase.phase)}`,
                  title: `${phase.phase}: ${text(phase[key])}, ${percent(phase[key] / total)}`,
                  style: { "flex-grow": phase[key] / total },
                },
                phase[key] / total > 0.13 ? h("span", { text: `${phase.phase} ${percent(phase[key] / total)}` }) : null,
              ),
            ),
        ),
        h("b", { text: text(total) }),
      );
    }),
    h(
      "div",
      { class: "legend" },
      doc.phases.map((phase) =>
        h("span", { class: "key" }, h("i", { class: `swatch ${phaseClass(phase.phase)}` }), phase.phase),
      ),
    ),
  );
}

function card(key, label, value, note, look) {
  return h(
    "div",
    { class: `card ${look}`, data: { card: key } },
    h("div", { class: "card-label" }, defined(key, label)),
    h("div", { class: "card-value", text: value }),
    h("div", { class: "card-note", text: note }),
  );
}
