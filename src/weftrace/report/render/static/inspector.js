// What was picked in the timeline: one event's facts, or a range's breakdown.

import { breakdown, kernelsWithin } from "./account.js";
import { byId, fill, h } from "render/dom.js";
import { duration, percent } from "render/format.js";
import { communicationBar, partsList, stackedBar, sumLine } from "./parts.js";
import { kernelName, kindChip, sortableTable } from "render/tables.js";

/** @typedef {import("./data.js").Timeline} Timeline */

/**
 * Shows an event's facts, or hides them for -1. select(event) shows another one.
 * @param {Timeline | null} timeline
 * @param {number} event
 * @param {(event: number) => void} select
 * @param {page.Rank} rank
 */
export function showEvent(timeline, event, select, rank) {
  const panel = byId("event-panel");
  panel.hidden = !timeline || event < 0;
  if (!timeline || event < 0) return;
  const { start, dur, launch, numDevice, names, name, kind, className } = timeline;
  const link = event < numDevice ? launch[event] - 1 : kernelLaunchedBy(timeline, event);
  const onDevice = event < numDevice;
  const phase = onDevice ? phaseAt(rank, timeline, event) : null;
  fill(
    panel,
    h(
      "div",
      { class: "panel-head" },
      kindChip(className[kind[event]]),
      h("code", { class: "full-name", text: names[name[event]] }),
      closer(() => select(-1)),
    ),
    h(
      "dl",
      { class: "facts-row" },
      fact("starts", duration(start[event], 6)),
      fact("takes", duration(dur[event], 4)),
      fact("ends", duration(start[event] + dur[event], 6)),
      phase ? fact("phase", `${phase.name} ${phase.index}`) : null,
      onDevice && link >= 0 ? fact("launch delay", duration(start[event] - start[link], 4)) : null,
    ),
    link >= 0
      ? h("button", {
          type: "button",
          class: "link",
          on: { click: () => select(link) },
          text: onDevice
            ? `Go to its launch: ${names[name[link]]}`
            : `Go to the kernel it launched: ${names[name[link]].slice(0, 90)}`,
        })
      : null,
    onDevice && link < 0 ? h("p", { class: "muted", text: "Its launch call is not in the timeline." }) : null,
  );
}

/**
 * Shows the breakdown of [from, to), or hides it for null.
 * @param {Timeline | null} timeline
 * @param {[number, number] | null} range
 * @param {() => void} clear
 */
export function showRange(timeline, range, clear) {
  const panel = byId("range-panel");
  panel.hidden = !timeline || !range || range[1] <= range[0];
  if (!timeline || !range || range[1] <= range[0]) return;
  const parts = breakdown(timeline, ...range);
  const kernels = kernelsWithin(timeline, ...range);
  panel.dataset.ns = String(parts.span);
  fill(
    panel,
    h(
      "div",
      { class: "panel-head" },
      h("h3", { text: `Selected range: ${duration(parts.span, 4)}` }),
      h("span", { class: "muted", text: `${duration(range[0], 5)} to ${duration(range[1], 5)}` }),
      closer(clear),
    ),
    stackedBar(parts),
    parts.communication > 0 ? communicationBar(parts) : null,
    h("div", { class: "account-foot" }, partsList(parts), sumLine(parts)),
    parts.communication > 0
      ? h("p", {
          class: "muted",
          text: hiddenWords(parts),
        })
      : null,
    timeline.left_out.device
      ? h("p", { class: "notice warn", text: "Only the device events drawn above are counted." })
      : null,
    sortableTable({
      name: "range-kernels",
      rows: kernels,
      limit: 8,
      sort: { key: "total_ns", down: true },
      empty: "No device event in this range.",
      columns: [
        { key: "name", label: "kernel in this range", kind: "text", wide: true, node: (row) => kernelName(row.name) },
        { key: "kind", label: "class", kind: "text", node: (row) => kindChip(row.kind) },
        { key: "num_events", label: "events", kind: "count" },
        { key: "total_ns", label: "time in range", kind: "time", bar: (row) => row.total_ns / parts.span },
        { key: "share", label: "of range", kind: "percent", value: (row) => row.total_ns / parts.span },
      ],
    }).element,
  );
}

/**
 * The phase whose stretch, stream and lane an event lies in; null where none or where two could claim it.
 * @param {page.Rank} rank
 * @param {Timeline} timeline
 * @param {number} event
 */
function phaseAt(rank, timeline, event) {
  const start = timeline.start[event];
  const end = start + timeline.dur[event];
  const fitting = rank.phases.filter(
    (phase) =>
      phase.start_ns <= start && end <= phase.end_ns && phase.lane === laneOf(timeline.className[timeline.kind[event]]),
  );
  return fitting.length === 1 ? fitting[0] : null;
}

/** @param {string} kind */
function laneOf(kind) {
  if (kind === "compute" || kind === "fused") return "compute";
  return kind === "communication" || kind === "barrier" ? "communication" : "";
}

/**
 * First device event that a launch call started, or -1.
 * @param {Timeline} timeline
 * @param {number} event
 */
function kernelLaunchedBy(timeline, event) {
  return timeline.launch.indexOf(event + 1);
}

/**
 * @param {string} label
 * @param {string} value
 */
function fact(label, value) {
  return h("div", {}, h("dt", { text: label }), h("dd", { text: value }));
}

/** @param {() => void} close */
function closer(close) {
  return h("button", { type: "button", class: "close", "aria-label": "Close", text: "×", on: { click: close } });
}

/** @param {import("./parts.js").Parts} parts */
function hiddenWords({ communication, hidden }) {
  const share = percent(hidden / communication);
  return `Communication ${duration(communication, 4)}, of which ${duration(hidden, 4)} (${share}) is hidden.`;
}
