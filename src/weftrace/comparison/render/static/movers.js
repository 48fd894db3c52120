// Who moved: families, kernels, operators, phases. A row opens both steps where it ran.

import { actionButton, choiceButtons, byId, fill, h } from "render/dom.js";
import { bareName, duration, grouped } from "render/format.js";
import { columnsOf, kernelName, showTable } from "render/tables.js";

/**
 * @typedef {page.DiffBlock} Block
 * @typedef {page.Mover} Mover
 * @typedef {"family" | "kernel" | "operator" | "phase"} Level
 * @typedef {NonNullable<ReturnType<typeof import("./pictures.js").pictures>>} Pictures
 * @typedef {page.RunPicture["labels"][number]} Label
 */

const LEVELS = /** @type {const} */ (["family", "kernel", "operator", "phase"]);
const EFFECTS = ["by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns"];
const LABELS = { family: "Kernel family", kernel: "Kernel", operator: "Operator", phase: "Phase" };

/**
 * The table, with a switch for what a row is: {show(level), open(level, mover)}.
 * @param {Block} block
 * @param {Pictures | null} pictures
 */
export function moverTable({ document: { movers, verdict } }, pictures) {
  const alike = verdict.word !== "not comparable";
  const lists = LEVELS.filter((level) => movers[level].length);
  byId("mover-lead").textContent =
    `Own time of a step: by how much each lengthens it, mean over steps and ranks; idle time is nobody's.${
      pictures ? " A row opens both steps above where it ran." : ""
    }`;
  show(lists[0] ?? "family");
  return { show, open };

  /** @param {Level} chosen */
  function show(chosen) {
    fill(
      byId("mover-by"),
      choiceButtons(
        lists,
        (level) => LABELS[level],
        (level) => level === chosen,
        show,
      ),
    );
    const rows = movers[chosen];
    showTable("mover-table", {
      name: `movers-${chosen}`,
      columns: moverColumns(chosen, rows, alike),
      rows,
      sort: { key: "", down: false }, // as the document has them: the largest change first, whatever its sign
      limit: 15,
      onRow: pictures ? (row) => open(chosen, row) : undefined,
      rowClass: (row) => (row.is_noise ? "noise" : ""),
      empty: "Nothing ran.",
    });
  }

  /**
   * @param {Level} level
   * @param {Mover} mover
   */
  function open(level, mover) {
    if (!pictures) return;
    const before = eventsOf(pictures, "before", level, mover);
    const after = eventsOf(pictures, "after", level, mover);
    const of = after.length ? after : before;
    const events = pictures.streams[after.length ? "after" : "before"].events();
    const longest = events ? of.reduce((best, at, nth) => (events.dur[at] > events.dur[of[best]] ? nth : best), 0) : 0;
    walk(pictures, mover.name, { before, after }, { nth: longest, longest });
  }
}

/**
 * The buttons above the streams: which of a mover's events is seen.
 * @param {Pictures} pictures
 * @param {string} name
 * @param {{ before: number[], after: number[] }} events
 * @param {{ nth: number, longest: number }} at
 */
function walk(pictures, name, events, { nth, longest }) {
  const num = Math.max(events.before.length, events.after.length);
  const box = byId("marked");
  /** @param {"before" | "after"} run */
  const told = (run) => `${pictures.streams[run].events()?.num ? events[run].length : "no events"} ${run}`;
  const counted = `${told("before")}, ${told("after")} in these steps`;
  if (num) pictures.open(events, nth, name);
  /**
   * @param {string} text
   * @param {string} label
   * @param {number} to
   */
  const button = (text, label, to) =>
    actionButton(text, () => walk(pictures, name, events, { nth: to, longest }), {
      "aria-label": label,
      disabled: to < 0 || to >= num,
    });
  const clear = () => {
    pictures.clear();
    fill(box);
  };
  fill(
    box,
    h("b", { text: bareName(name).slice(0, 90), title: name }),
    h("span", { class: "muted", text: num ? counted : "none of it runs in the steps shown: choose another step" }),
    num > 1 ? button("First", "Its first event", 0) : null,
    num > 1 ? button("Longest", "Its longest event", longest) : null,
    num > 1 ? button("◂", "The one before", nth - 1) : null,
    num > 1 ? h("span", { text: `${nth + 1} of ${num}` }) : null,
    num > 1 ? button("▸", "The next one", nth + 1) : null,
    actionButton("Clear", clear),
  );
}

/**
 * The events of a mover in the step shown, in order of time; of kernels in each other's place, all of them.
 * @param {Pictures} pictures
 * @param {"before" | "after"} run
 * @param {Level} level
 * @param {Mover} mover
 */
function eventsOf(pictures, run, level, mover) {
  const events = pictures.streams[run].events();
  const labels = pictures.labels(run);
  const own = mover[`${run}_name`];
  const together = labels.find((label) => mover.status === "replaced" && label.name === own)?.replacement ?? null;
  /** @param {Label} label */
  const isOwn = (label) =>
    mover.status === "replaced"
      ? label.name === own || (together !== null && label.replacement === together)
      : label[level] === mover.name;
  const codes = new Set(labels.flatMap((label, at) => (isOwn(label) ? [at] : [])));
  /** @type {number[]} */
  const found = [];
  events?.label.forEach((label, at) => codes.has(label) && found.push(at));
  return found.sort((a, b) => (events ? events.start[a] - events.start[b] : 0));
}

/**
 * @param {Level} level
 * @param {Mover[]} rows
 * @param {boolean} alike whether causes may be told
 * @returns {import("render/tables.js").Column<Mover>[]}
 */
function moverColumns(level, rows, alike) {
  const most = Math.max(1, ...rows.map((row) => Math.abs(row.change_ns)));
  const keys = ["name", "change_ns", "before_ns", "after_ns", "launches", "mean", ...(alike ? EFFECTS : [])];
  return columnsOf("movers", keys, {
    name: {
      label: LABELS[level].toLowerCase(),
      wide: level === "kernel" || level === "operator",
      node: (row) => nameOf(level, row),
    },
    change_ns: { bar: (row) => Math.abs(row.change_ns) / most },
    launches: {
      kind: "count",
      value: (row) => row.after_num - row.before_num,
      text: (row) => `${count(row.before_num)} → ${count(row.after_num)}`,
    },
    mean: {
      label: "mean duration",
      kind: "count",
      value: (row) => (mean(row, "after") ?? 0) - (mean(row, "before") ?? 0),
      text: (row) => `${duration(mean(row, "before"))} → ${duration(mean(row, "after"))}`,
    },
  });
}

/**
 * @param {Level} level
 * @param {Mover} row
 */
function nameOf(level, row) {
  const part = row.cause && row.cause !== "data" ? `${row.part}: ${row.cause}` : row.part;
  const chips = [
    h("span", { class: "chip plain", text: part }),
    row.status === "both" ? null : h("span", { class: "chip warn", text: row.status }),
    row.is_noise ? h("span", { class: "chip plain", text: "noise" }) : null,
  ];
  const rule = row.matched_by === "name" || row.matched_by === null ? "" : `matched by ${row.matched_by}`;
  const other = row.replaced_by ? `by ${row.replaced_by}` : rule;
  return h(
    "span",
    { class: "mover" },
    level === "kernel" ? kernelName(row.name) : h("span", { text: row.name }),
    chips,
    other ? h("small", { class: "muted", text: ` ${other.slice(0, 120)}`, title: other }) : null,
  );
}

/** @param {number} num */
function count(num) {
  return grouped(num, Number.isInteger(num) ? 0 : 1);
}

/**
 * @param {Mover} row
 * @param {"before" | "after"} run
 */
function mean(row, run) {
  const num = row[`${run}_num`];
  return num ? row[`${run}_raw_ns`] / num : null;
}
