// The page of a what-if: before and after on one scale of time, and where the answer stops being valid.

import { card } from "render/cards.js";
import { byId, fill, showNotes } from "render/dom.js";
import { duration, range, signed } from "render/format.js";
import { pathPicture } from "render/path_picture.js";
import { showDoubts } from "render/path_tables.js";
import { startPage } from "render/start.js";
import { showTable } from "render/tables.js";
import { waterfall } from "render/waterfall.js";

/**
 * @typedef {page.WhatIfBlock} Block
 *
 * A class on the path before and after.
 * @typedef {{ name: string, before_ns: number, after_ns: number }} Difference
 */

startPage("weftrace-what-if", (/** @type {Block} */ block) => {
  const { document: answer, summary } = block;
  const differences = differencesOf(answer);
  byId("facts").textContent = `${summary.replay} ${summary.kept}`;
  showDoubts(byId("banner"), summary.doubts);
  fill(byId("cards"), cards(answer));
  byId("limit-box").hidden = answer.limits.length === 0;
  showNotes(byId("limits"), answer.limits);
  showNotes(byId("notes"), answer.notes);
  showFall(block, differences);
  showClasses(answer, differences);
  return { block, differences, ...showPictures(block) };
});

/**
 * Both pictures, on one scale of time: what one shows, the other does.
 * @param {Block} block
 */
function showPictures({ before, after }) {
  byId("picture").hidden = !before || !after;
  if (!before || !after) return {};
  const until = Math.max(before.span_ns, after.span_ns);
  const drawn = { before: pathPicture(byId("before"), before, until), after: pathPicture(byId("after"), after, until) };
  join(drawn.before.view, drawn.after.view);
  join(drawn.after.view, drawn.before.view);
  return drawn;
}

/**
 * @param {Block["document"]} answer
 * @returns {Difference[]}
 */
function differencesOf({ before, after }) {
  const names = [...new Set([...before, ...after].map((row) => row.name))];
  return names.map((name) => ({
    name,
    before_ns: before.find((row) => row.name === name)?.time_ns ?? 0,
    after_ns: after.find((row) => row.name === name)?.time_ns ?? 0,
  }));
}

/** @param {Block["document"]} answer */
function cards(answer) {
  const { replay, after_ns, saved_ns: saved, change, bottleneck, low_ns: low, high_ns: high } = answer;
  const before = replay.replayed_ns;
  if (low < high) {
    const changes = `${signed(low / before - 1, 2)} to ${signed(high / before - 1, 2)}`;
    return [
      card("replay_error", "Before, replayed", duration(before, 4), `measured ${duration(replay.span_ns, 4)}`),
      card("interval", "After", range(low, high), changes, "word"),
      card("saved", "Saves", range(before - high, before - low), `replay ${signed(replay.error, 2)} off`, "word"),
    ];
  }
  return [
    card(
      "replay_error",
      "Before, replayed",
      duration(replay.replayed_ns, 4),
      `measured ${duration(replay.span_ns, 4)}`,
    ),
    card("saved", "After", duration(after_ns, 4), signed(change, 2)),
    card("saved", saved < 0 ? "Costs" : "Saves", duration(Math.abs(saved)), `replay ${signed(replay.error, 2)} off`),
    card("critical_path", "Decides then", bottleneck, `most of ${duration(after_ns, 4)}`, "word"),
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
 * @param {Difference[]} differences
 */
function showFall({ document: { replay, after_ns }, roles }, differences) {
  const changed = differences.filter((one) => one.before_ns !== one.after_ns);
  changed.sort((a, b) => a.after_ns - a.before_ns - (b.after_ns - b.before_ns));
  let end = replay.replayed_ns;
  const steps = changed.map((one) => {
    const from_ns = end;
    const more = one.after_ns - one.before_ns;
    end += more;
    const told = `${more < 0 ? "−" : "+"}${duration(Math.abs(more))}`;
    return { name: one.name, role: roles[one.name] ?? "", from_ns, to_ns: end, told, saved_ns: null };
  });
  const whole = { role: "whole", from_ns: 0, saved_ns: null };
  const bars = [
    { ...whole, name: "before", to_ns: replay.replayed_ns, told: duration(replay.replayed_ns, 4) },
    ...steps,
    { ...whole, name: "after", to_ns: after_ns, told: duration(after_ns, 4) },
  ];
  waterfall(byId("waterfall"), bars, `From ${duration(replay.replayed_ns, 4)} to ${duration(after_ns, 4)}`);
}

/**
 * @param {Block["document"]} answer
 * @param {Difference[]} rows
 */
function showClasses({ replayed_ns, after_ns }, rows) {
  /** @type {import("render/tables.js").Column<Difference>[]} */
  const columns = [
    { key: "name", label: "class", kind: "text" },
    { key: "before_ns", label: "before", kind: "time", def: "critical_path" },
    { key: "before_share", label: "of it", kind: "percent", value: (row) => row.before_ns / Math.max(1, replayed_ns) },
    { key: "after_ns", label: "after", kind: "time" },
    { key: "after_share", label: "of it", kind: "percent", value: (row) => row.after_ns / Math.max(1, after_ns) },
    { key: "change_ns", label: "change", kind: "time", value: (row) => row.after_ns - row.before_ns },
  ];
  const sort = { key: "before_ns", down: true };
  showTable("class-table", { name: "classes", columns, rows, sort });
}
