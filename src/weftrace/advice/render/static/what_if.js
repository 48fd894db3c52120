// The page of a what-if: before and after on one scale of time, and where the answer stops being valid.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { duration, sentence } from "render/format.js";
import { pathPicture } from "render/path_picture.js";
import { keptWords, replayWords, showTrust, signed } from "render/path_tables.js";
import { startPage } from "render/start.js";
import { sortableTable } from "render/tables.js";
import { waterfall } from "render/waterfall.js";

/** @typedef {page.WhatIfBlock} Block */
/** @typedef {Block["differences"][number]} Difference */

startPage("weftrace-what-if", (/** @type {Block} */ block) => {
  byId("facts").textContent = `${replayWords(block.replay)} ${keptWords(block.replay)}`;
  showTrust(byId("banner"), block.replay);
  fill(byId("cards"), cards(block));
  byId("limit-box").hidden = block.limits.length === 0;
  list("limits", block.limits);
  byId("notes").hidden = block.notes.length === 0;
  list("notes", block.notes);
  showFall(block);
  const until = Math.max(block.before.span_ns, block.after.span_ns);
  const before = pathPicture(byId("before"), block.before, until);
  const after = pathPicture(byId("after"), block.after, until);
  join(before.view, after.view);
  join(after.view, before.view);
  showClasses(block);
  return { block, before, after };
});

/**
 * @param {string} id
 * @param {string[]} texts
 */
function list(id, texts) {
  fill(
    byId(id),
    texts.map((text) => h("li", { text })),
  );
}

/** @param {Block} block */
function cards({ replay, after_ns, bottleneck, after }) {
  const saved = replay.replayed_ns - after_ns;
  const change = after_ns / Math.max(1, replay.replayed_ns) - 1;
  return [
    card("replay", "Before, replayed", sentence(replay.replayed_ns), `measured ${sentence(replay.span_ns)}`),
    card("after", "After", sentence(after_ns), signed(change)),
    card("after", saved < 0 ? "Costs" : "Saves", sentence(Math.abs(saved)), `replay ${signed(replay.error)} off`),
    card("path", "Decides then", bottleneck, `most of ${sentence(after.span_ns)}`),
  ];
}

/**
 * What one shows, the other does.
 * @param {import("render/viewport.js").Viewport} one
 * @param {import("render/viewport.js").Viewport} other
 */
function join(one, other) {
  one.onChange(() => {
    if (other.start !== one.start || other.end !== one.end) other.set(one.start, one.end);
  });
}

/**
 * The replayed span before, what each class takes less or more, and the span after.
 * @param {Block} block
 */
function showFall({ replay, after_ns, differences }) {
  const changed = differences.filter((one) => one.before_ns !== one.after_ns);
  changed.sort((a, b) => a.after_ns - a.before_ns - (b.after_ns - b.before_ns));
  let end = replay.replayed_ns;
  const steps = changed.map((one) => {
    const from_ns = end;
    const more = one.after_ns - one.before_ns;
    end += more;
    const told = `${more < 0 ? "−" : "+"}${duration(Math.abs(more))}`;
    return { name: one.name, role: one.role, from_ns, to_ns: end, told, saved_ns: null };
  });
  const whole = { role: "whole", from_ns: 0, saved_ns: null };
  const bars = [
    { ...whole, name: "before", to_ns: replay.replayed_ns, told: duration(replay.replayed_ns, 4) },
    ...steps,
    { ...whole, name: "after", to_ns: after_ns, told: duration(after_ns, 4) },
  ];
  waterfall(byId("waterfall"), bars, `From ${duration(replay.replayed_ns)} to ${duration(after_ns)}`);
}

/** @param {Block} block */
function showClasses({ differences, before, after }) {
  /**
   * @param {Difference} row
   * @param {"before" | "after"} when
   */
  const share = (row, when) =>
    when === "before" ? row.before_ns / Math.max(1, before.span_ns) : row.after_ns / Math.max(1, after.span_ns);
  /** @type {import("render/tables.js").Column<Difference>[]} */
  const columns = [
    { key: "name", label: "class", kind: "text" },
    { key: "before_ns", label: "before", kind: "time", def: "path" },
    { key: "before_share", label: "of it", kind: "percent", value: (row) => share(row, "before") },
    { key: "after_ns", label: "after", kind: "time", def: "after" },
    { key: "after_share", label: "of it", kind: "percent", value: (row) => share(row, "after") },
    { key: "change_ns", label: "change", kind: "time", value: (row) => row.after_ns - row.before_ns },
  ];
  const sort = { key: "before_ns", down: true };
  fill(byId("class-table"), sortableTable({ name: "classes", columns, rows: differences, sort }).element);
}
