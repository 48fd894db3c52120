// The page of a comparison: what changed, whether that is more than noise, and both steps side by side.

import { card } from "render/cards.js";
import { byId, fill, h, items, showNotes } from "render/dom.js";
import { duration, plural, signed, signedDuration } from "render/format.js";
import { startPage } from "render/start.js";
import { showTable } from "render/tables.js";
import { showFall } from "./fall.js";
import { moverTable } from "./movers.js";
import { pictures } from "./pictures.js";
import { showRanks } from "./ranks.js";
import { showShapes } from "./shapes.js";
import { showSteps } from "./steps.js";

/**
 * @typedef {page.DiffBlock} Block
 * @typedef {Block["document"]} Diff
 * @typedef {Diff["verdict"]["facts"][number]} Fact
 */

startPage("weftrace-diff", (/** @type {Block} */ block) => {
  const { document: found, ranks } = block;
  showVerdict(found.verdict);
  fill(byId("cards"), cards(found));
  showGates(found.gates);
  showNotes(byId("notes"), notesOf(found));
  const bars = showFall(block);
  const drawn = pictures(ranks, found.before.ranks.length);
  const movers = moverTable(block, drawn);
  showShapes(found);
  showFindings(found);
  showRanks(found, drawn);
  showSteps(found, drawn);
  showFacts(found.verdict.facts);
  return { block, bars, pictures: drawn, movers };
});

/** @param {Diff["verdict"]} verdict */
function showVerdict({ word, reasons }) {
  const looks = { comparable: "ok", "comparable, but": "warn", "not comparable": "warn" };
  const box = byId("verdict");
  box.classList.add(looks[word]);
  const whole = {
    comparable: "Comparable.",
    "comparable, but": "Comparable, but:",
    "not comparable": "Not comparable:",
  };
  const alone = reasons.length === 1;
  fill(
    box,
    h("b", { text: whole[word] }),
    alone ? ` ${reasons[0]}.` : null,
    alone || !reasons.length ? null : h("ul", {}, items(reasons)),
  );
}

/** @param {Diff} found */
function cards({ before, after, change_ns, is_noise, verdict }) {
  const noise = { true: "within the noise of steps", false: "more than steps of one run differ by" };
  const told = is_noise === null ? "one step: noise is not known" : noise[is_noise ? "true" : "false"];
  /** @param {Diff["before"]} side */
  const of = ({ steps, ranks }) =>
    `median of ${plural(steps.length, "step")}${ranks.length > 1 ? `, mean of ${ranks.length} ranks` : ""}`;
  const isBut = verdict.word === "comparable, but";
  const reasons = verdict.reasons.length
    ? `${isBut ? "but with " : ""}${plural(verdict.reasons.length, isBut ? "reservation" : "reason")}`
    : "no reservation";
  return [
    card("median_step", "Before", duration(before.median_ns), of(before)),
    card("median_step", "After", duration(after.median_ns), of(after)),
    card(
      "change",
      "Change",
      signedDuration(change_ns),
      before.median_ns ? signed(change_ns / before.median_ns, 2) : "",
    ),
    card("noise", "Noise", is_noise === null ? "unknown" : is_noise ? "within" : "beyond", told, "word"),
    card("verdict", "Verdict", isBut ? "comparable" : verdict.word, reasons, "word"),
  ];
}

/** @param {Diff["gates"]} gates */
function showGates(gates) {
  byId("gate-box").hidden = gates.length === 0;
  /** @param {boolean | null} is_met */
  const result = (is_met) => (is_met === null ? "not judged" : is_met ? "met" : "failed");
  fill(
    byId("gates"),
    gates.map(({ is_met, sentence: told }) =>
      h("li", { class: is_met === false ? "failed" : "" }, h("b", { text: result(is_met) }), ` ${told}`),
    ),
  );
}

/** @param {Diff} found */
function showFindings({ findings }) {
  const told = findings ?? [];
  byId("findings").hidden = !told.length;
  fill(byId("finding-sentences"), items(told.map((each) => each.sentence)));
}

/** @param {Diff} found */
function notesOf({ before, after, notes }) {
  const failed = /** @type {const} */ ([
    ["before", before],
    ["after", after],
  ]).flatMap(([word, side]) => side.failures.map((note) => `${word}: ${note}`));
  return [...failed, ...notes];
}

/** @param {Fact[]} rows */
function showFacts(rows) {
  byId("facts-box").hidden = rows.length === 0;
  /** @type {import("render/tables.js").Column<Fact>[]} */
  const columns = [
    { key: "name", label: "what", kind: "text" },
    { key: "before", label: "before", kind: "text", node: (row) => h("span", { class: "fact", text: row.before }) },
    { key: "after", label: "after", kind: "text", node: (row) => h("span", { class: "fact", text: row.after }) },
    {
      key: "differs",
      label: "differs",
      kind: "text",
      value: (row) => Number(row.before !== row.after),
      text: (row) => (row.before === row.after ? "" : "differs"),
    },
  ];
  showTable("fact-table", {
    name: "facts",
    columns,
    rows,
    sort: { key: "differs", down: true },
    rowClass: (row) => (row.before === row.after ? "" : "differs"),
  });
}
