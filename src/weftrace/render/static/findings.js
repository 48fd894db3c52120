// Findings as cards: what costs time where, what to do about it, and what that saves, as a bar of a step.

import { actionButton, fill, h } from "./dom.js";
import { percent, plural } from "./format.js";
import { defined } from "./tooltip.js";

/**
 * @typedef {advice_block.FindingCards} Cards
 * @typedef {advice_block.FindingCard} Card
 *
 * most: cards that are shown where the others are folded away; null: all. onOpen: shows the place of a finding in the
 * timeline; null where there is none.
 * @typedef {{ most: number | null, onOpen: ((card: Card) => void) | null }} How
 */

/**
 * @param {HTMLElement} holder
 * @param {Cards} advice
 * @param {How} how
 */
export function showFindings(holder, advice, { most, onOpen }) {
  const first = advice.cards.filter(({ rule }) => rule === "unrecorded-work" || rule === "ranks-missing");
  const losses = advice.cards.filter(({ kind }) => kind === "finding");
  const others = advice.cards.filter((card) => card.kind === "remark" && !first.includes(card));
  const largest = Math.max(0.01, ...losses.map((card) => Math.max(card.high ?? 0, card.cost)));
  const cards = losses.map((card, at) => findingCard(card, at + 1, largest, onOpen));
  const shown = most === null ? cards : cards.slice(0, most);
  const rest = cards.slice(shown.length);
  fill(
    holder,
    ...first.map(remark),
    losses.length ? gainLegend() : null,
    losses.length ? h("ol", { class: "findings" }, shown) : h("p", { text: "Nothing here is worth changing." }),
    advice.together && most === null ? h("p", { class: "together", text: advice.together }) : null,
    rest.length
      ? h(
          "details",
          { class: "more-findings" },
          h("summary", { text: `${plural(rest.length, "more finding")}` }),
          h("ol", { class: "findings", start: shown.length + 1 }, rest),
          advice.together ? h("p", { class: "together", text: advice.together }) : null,
        )
      : null,
    ...others.map(remark),
  );
}

/**
 * @param {HTMLElement} holder
 * @param {Cards["not_found"]} rules
 */
export function showNotFound(holder, rules) {
  fill(
    holder,
    h(
      "ul",
      { class: "not-found" },
      rules.map(([rule, title, why]) =>
        h(
          "li",
          {},
          h("code", { text: rule }),
          ` ${title}`,
          why ? h("span", { class: "muted", text: ` · ${why}` }) : null,
        ),
      ),
    ),
  );
}

/** @param {Card} card */
function remark(card) {
  return h("p", { class: "notice" }, h("b", { text: "Note: " }), card.sentence);
}

/**
 * @param {Card} card
 * @param {number} number
 * @param {number} largest part of a step that fills a bar
 * @param {How["onOpen"]} onOpen
 */
function findingCard(card, number, largest, onOpen) {
  const place = onOpen && card.start_ns !== null;
  return h(
    "li",
    { class: "finding", data: { rule: card.rule } },
    h(
      "div",
      { class: "finding-head" },
      h("span", { class: "finding-number", text: number }),
      h("b", { text: card.title }),
    ),
    h("div", { class: "finding-told", text: card.told }),
    gainBar(card, largest),
    h(
      "div",
      { class: "finding-text" },
      h("p", { text: card.sentence }),
      card.place ? h("p", { class: "finding-place muted" }, h("code", { text: card.place })) : null,
      card.remedy ? h("p", {}, h("b", { text: "Do: " }), card.remedy) : null,
      card.switch ? h("pre", { class: "finding-switch" }, h("code", { text: card.switch })) : null,
      h(
        "details",
        {},
        h("summary", { text: "Evidence, and when not" }),
        h(
          "ul",
          {},
          card.evidence.map((text) => h("li", { text })),
        ),
        card.when_not ? h("p", {}, h("b", { text: "Not when: " }), card.when_not) : null,
        h("p", { class: "muted", text: `${card.rule} · ${card.basis}` }),
        card.others.map(([framework, remedy, code]) =>
          h(
            "p",
            { class: "muted" },
            h("b", { text: `${framework}: ` }),
            remedy,
            code ? h("code", { text: ` ${code}` }) : null,
          ),
        ),
      ),
      place ? actionButton("Show in the timeline", () => onOpen(card)) : null,
    ),
  );
}

/**
 * Of a step: what is saves at least, dark, and at most, light; a frame is its cost.
 * @param {Card} card
 * @param {number} largest
 */
function gainBar(card, largest) {
  const width = (/** @type {number} */ share) => `${Math.min(100, (100 * Math.max(0, share)) / largest)}%`;
  const saves =
    card.low === null || card.high === null
      ? `costs ${percent(card.cost)} of a step`
      : `saves ${percent(Math.max(0, card.low))} to ${percent(Math.max(0, card.high))} of a step`;
  return h(
    "div",
    { class: "gain-room", role: "img", "aria-label": saves },
    h("span", { class: "gain-cost", style: { width: width(card.cost) } }),
    h("span", { class: "gain-most", style: { width: width(card.high ?? 0) } }),
    h("span", { class: "gain-least", style: { width: width(card.low ?? 0) } }),
  );
}

/** What the bars mean, with its definition. */
function gainLegend() {
  return h(
    "div",
    { class: "legend flush" },
    h("span", { class: "key" }, h("i", { class: "swatch gain-least" }), defined("gain", "saves at least")),
    h("span", { class: "key" }, h("i", { class: "swatch gain-most" }), "at most"),
    h("span", { class: "key" }, h("i", { class: "swatch gain-cost" }), "its cost"),
  );
}
