// What was picked in the pictures, in the panel beside them: one event's facts, a box's, or a range's breakdown.

import { breakdown, kernelsWithin } from "./account.js";
import { around } from "./around.js";
import { argumentsOf, launchLines, movedLines, placeLines } from "./event_facts.js";
import { causeLines, causesOf, gapParts, gapTitle } from "./gaps.js";
import { communicationBar, IDLE_PARTS, partsList, stackedBar, sumLine } from "./parts.js";
import { directionOf, phaseOf } from "render/boxes.js";
import { actionButton, byId, fact, fill, h, items } from "render/dom.js";
import { copyText } from "render/exports.js";
import { duration, ofWhole, percent, plural, shortName } from "render/format.js";
import { kernelName, kindChip, sortableTable } from "render/tables.js";
import { defined } from "render/tooltip.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 * @typedef {import("./event_facts.js").Line} Line
 * @typedef {ReturnType<typeof import("./dock.js").dock>} Dock
 */

const MOST_LINKS = 12; // of operators and ranges around an event
const LINK_CHARS = 120;

/**
 * Shows an event's facts, or hides them for -1. select(event) shows another one.
 * @param {Dock} dock
 * @param {Timeline | null} timeline
 * @param {number} event
 * @param {(event: number) => void} select
 * @param {page.Rank} rank
 */
export function showEvent(dock, timeline, event, select, rank) {
  const panel = byId("event-panel");
  if (!timeline || event < 0) {
    dock.hide(panel);
    return;
  }
  const { dur, names, name, kind, className } = timeline;
  const onDevice = event < timeline.numDevice;
  const near = around(timeline, event);
  const own = timeline.factsOf(event);
  const record = near.operators.map(timeline.factsOf).find((each) => each.collective);
  const launched = near.launch < 0 ? {} : timeline.factsOf(near.launch);
  const operator = onDevice && near.operators.length ? timeline.factsOf(near.operators[0]) : own;
  const inputs = argumentsOf(operator);
  const stack = operator.stack ?? own.stack ?? "";
  const communicates = ["communication", "barrier"].includes(className[kind[event]]);
  const place = placeLines(timeline, event, near, rank);
  const work = [
    ...movedLines(onDevice && communicates ? { ...record, ...own } : own, onDevice ? dur[event] : 0),
    ...launchLines({ ...launched, ...own }, rank),
  ];
  const full = names[name[event]];
  const chain = near.operators.map((each) => names[name[each]]);
  if (!chain.length && own.operator) chain.push(own.operator);
  fill(
    panel,
    head(kindChip(className[kind[event]]), () => select(-1), [
      ["class", className[kind[event]]],
      ["name", full],
      ...place,
      ...work,
      ["inputs", inputs.join("; ")],
      ["operators", chain.join(" < ")],
      ["stack", stack],
    ]),
    h("code", { class: "full-name", text: full }),
    factsList(place),
    inputs.length ? listed(onDevice ? "Inputs of its operator" : "Inputs", items(inputs)) : null,
    near.operators.length
      ? links(onDevice ? "Operator and its callers" : "Within operators", near.operators, timeline, select)
      : own.operator
        ? listed("Operator", items([own.operator]))
        : null,
    work.length ? [h("h4", { text: onDevice ? "On the device" : "Its arguments" }), factsList(work)] : null,
    near.ranges.length ? links("Within ranges", near.ranges, timeline, select) : null,
    near.launch >= 0 ? links("Its launch", [near.launch], timeline, select, "Go to its launch: ") : null,
    near.launched.length
      ? links(`It launched ${plural(near.launched.length, "device event")}`, near.launched, timeline, select, "Go to: ")
      : null,
    onDevice && near.launch < 0 ? h("p", { class: "muted", text: "Its launch call is not in the timeline." }) : null,
    stack ? listed("Stack, innermost first", items(stack.split(/[;\n]/).filter(Boolean))) : null,
  );
  dock.show(panel);
}

/**
 * Shows what a gap of the device waited for, or hides it for -1. select(event) shows an event.
 * @param {Dock} dock
 * @param {Timeline | null} timeline
 * @param {number} number
 * @param {(event: number) => void} select
 * @param {() => void} clear
 */
export function showGap(dock, timeline, number, select, clear) {
  const panel = byId("gap-panel");
  if (!timeline || number < 0) {
    dock.hide(panel);
    return;
  }
  const gap = timeline.waits.of(number);
  /** @type {Line[]} */
  const place = [
    ["starts", duration(gap.start, 6)],
    ["takes", duration(gap.end - gap.start)],
    ["ends", duration(gap.end, 6)],
    ["after", shortName(gap.before)],
    ["until", shortName(gap.after)],
    ["launched by", gap.call || "nothing in the file"],
  ];
  const next = timeline.start.subarray(0, timeline.numDevice).indexOf(gap.end);
  const launch = next < 0 ? -1 : timeline.launch[next] - 1;
  const parts = gapParts(gap);
  const present = IDLE_PARTS.filter(([key]) => parts[key] > 0);
  const lines = causeLines(gap);
  fill(
    panel,
    head(h("h3", { text: gapTitle(gap) }), clear, [...place, ...lines]),
    factsList(place),
    stackedBar(parts, "medium", present),
    partsList(parts, present),
    h("h4", { text: "Its cause" }),
    h(
      "dl",
      { class: "facts-list" },
      causesOf(gap).map(({ cause }, at) => fact(defined(`cause_${cause}`), lines[at][1])),
    ),
    next < 0 ? null : links("Work after it", [next], timeline, select, "Go to: "),
    launch < 0 ? null : links("Its launch", [launch], timeline, select, "Go to its launch: "),
  );
  dock.show(panel);
}

/**
 * Shows a box of the lane picture: its facts, and what its time is made of. Hides it for null.
 * @param {Dock} dock
 * @param {Timeline | null} timeline
 * @param {import("render/boxes.js").Box | null} box
 * @param {page.Rank} rank
 * @param {() => void} clear
 */
export function showBox(dock, timeline, box, rank, clear) {
  const panel = byId("box-panel");
  if (!box) {
    dock.hide(panel);
    return;
  }
  const phase = phaseOf(rank, box);
  const lines = boxLines(box, phase, rank);
  const parts = timeline?.num ? breakdown(timeline, box.start_ns, box.end_ns) : null;
  fill(
    panel,
    head(kindChip(box.lane), clear, [["name", box.name], ...lines]),
    h("h3", { class: "picked-name", text: box.name }),
    factsList(lines),
    parts ? [h("h4", { text: "The device, from its start to its end" }), ...partsOfTime(parts)] : null,
    timeline && parts ? kernelTable(timeline, [box.start_ns, box.end_ns], parts.span, laneKinds(box.lane)) : null,
  );
  dock.show(panel);
}

/**
 * @param {import("render/boxes.js").Box} box
 * @param {page.Phase | null | undefined} phase
 * @param {page.Rank} rank
 * @returns {Line[]}
 */
function boxLines(box, phase, rank) {
  const direction = directionOf(box)?.[1] ?? box.direction;
  const communicates = box.lane === "communication";
  /** @type {(Line | null)[]} */
  const lines = [
    phase ? ["occurrence", `${box.index + 1}`] : null,
    ["lane", direction ? `${box.lane}, ${direction}` : box.lane],
    ["starts", duration(box.start_ns, 6)],
    ["takes", duration(box.end_ns - box.start_ns)],
    ["ends", duration(box.end_ns, 6)],
    ["busy", ofWhole(box.busy_ns, box.end_ns - box.start_ns)],
    phase && communicates ? ["hidden", ofWhole(phase.hidden_ns, phase.hidden_ns + phase.exposed_ns)] : null,
    phase && communicates ? ["moves data", duration(phase.data_ns)] : null,
    box.sms === null || box.sms === undefined ? null : [rank.sm_unit, `${box.sms}`],
    phase && phase.stream !== null ? ["stream", `${phase.stream}`] : null,
    phase && phase.step !== null ? ["step", `${phase.step}`] : null,
    phase && phase.layer !== null ? ["layer", `${phase.layer}`] : null,
    phase && phase.micro_batch !== null ? ["micro-batch", `${phase.micro_batch}`] : null,
  ];
  return lines.filter((line) => line !== null);
}

/**
 * Shows the breakdown of [from, to), or hides it for null.
 * @param {Dock} dock
 * @param {Timeline | null} timeline
 * @param {[number, number] | null} range
 * @param {() => void} clear
 */
export function showRange(dock, timeline, range, clear) {
  const panel = byId("range-panel");
  if (!timeline || !range || range[1] <= range[0]) {
    dock.hide(panel);
    return;
  }
  const parts = breakdown(timeline, ...range);
  panel.dataset.ns = String(parts.span);
  fill(
    panel,
    head(h("h3", { text: "Selected range" }), clear, null),
    factsList([
      ["starts", duration(range[0], 6)],
      ["takes", duration(parts.span)],
      ["ends", duration(range[1], 6)],
    ]),
    ...partsOfTime(parts),
    timeline.left_out.device
      ? h("p", { class: "notice warn", text: "Only the device events shown above are counted." })
      : null,
    kernelTable(timeline, range, parts.span, null),
  );
  dock.show(panel);
}

// --- what they are made of

/**
 * The head of a part: what it is, a button that copies its facts, one that closes it.
 * @param {Node} title
 * @param {() => void} close
 * @param {Line[] | null} facts
 */
function head(title, close, facts) {
  /** @param {MouseEvent} event */
  const copy = async ({ currentTarget }) => {
    const button = /** @type {HTMLButtonElement} */ (currentTarget);
    const text = (facts ?? []).filter(([, value]) => value).map(([label, value]) => `${label}: ${value}`);
    button.textContent = (await copyText(`${text.join("\n")}\n`)) ? "Copied" : "Not allowed";
  };
  return h(
    "div",
    { class: "panel-head" },
    title,
    h("span", { class: "grow" }),
    facts ? actionButton("Copy", copy, { class: "copy", title: "Copy these facts as text" }) : null,
    actionButton("×", close, { class: "close", "aria-label": "Close" }),
  );
}

/** @param {Line[]} lines */
function factsList(lines) {
  return h(
    "dl",
    { class: "facts-list" },
    lines.map(([label, value]) => fact(label, value)),
  );
}

/**
 * @param {string} title
 * @param {import("render/dom.js").Child[]} lines
 */
function listed(title, lines) {
  return h("div", { class: "listed" }, h("h4", { text: title }), h("ul", {}, lines));
}

/**
 * Buttons that select other events.
 * @param {string} title
 * @param {number[]} events
 * @param {Timeline} timeline
 * @param {(event: number) => void} select
 * @param {string} [before]
 */
function links(title, events, { names, name }, select, before = "") {
  const more = events.length - MOST_LINKS;
  const lines = events.slice(0, MOST_LINKS).map((event) => {
    const text = names[name[event]];
    const cut = text.length > LINK_CHARS ? `${text.slice(0, LINK_CHARS)}…` : text;
    return h(
      "li",
      {},
      actionButton(before + cut, () => select(event), { class: "link" }),
    );
  });
  return listed(title, [...lines, more > 0 ? h("li", { class: "muted", text: `and ${more} more` }) : null]);
}

/** @param {import("./parts.js").Parts} parts */
function partsOfTime(parts) {
  return [
    stackedBar(parts),
    parts.communication > 0 ? communicationBar(parts) : null,
    h("div", { class: "account-foot" }, partsList(parts), sumLine(parts)),
    parts.communication > 0 ? h("p", { class: "muted", text: hiddenWords(parts) }) : null,
  ];
}

/**
 * @param {Timeline} timeline
 * @param {[number, number]} range
 * @param {number} span
 * @param {string[] | null} kinds classes that count; null for all
 */
function kernelTable(timeline, range, span, kinds) {
  return sortableTable({
    name: kinds ? "box-kernels" : "range-kernels",
    rows: kernelsWithin(timeline, ...range).filter(({ kind }) => !kinds || kinds.includes(kind)),
    limit: 8,
    sort: { key: "total_ns", down: true },
    empty: "No device event in this range.",
    columns: [
      { key: "name", label: "kernel", kind: "text", wide: true, node: (row) => kernelName(row.name) },
      { key: "kind", label: "class", kind: "text", node: (row) => kindChip(row.kind) },
      { key: "num_events", label: "events", kind: "count" },
      { key: "total_ns", label: "time in range", kind: "time", bar: (row) => row.total_ns / span },
      { key: "share", label: "of range", kind: "percent", value: (row) => row.total_ns / span },
    ],
  }).element;
}

/** @param {string} lane */
function laneKinds(lane) {
  if (lane === "compute") return ["compute", "fused"];
  return lane === "communication" ? ["communication", "barrier"] : [lane];
}

/** @param {import("./parts.js").Parts} parts */
function hiddenWords({ communication, hidden }) {
  const share = percent(hidden / communication);
  return `Communication ${duration(communication)}; ${duration(hidden)} of it (${share}) is hidden.`;
}
