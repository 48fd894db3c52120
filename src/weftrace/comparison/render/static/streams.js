// The streams of a step: each of its device's events, on the scale of time of the lanes above; those of a mover marked.

import { fill, h } from "render/dom.js";
import { duration, plural } from "render/format.js";
import { unpacked } from "render/packed.js";
import { durationSums, eventAt, nameWriter, paintRow, shadesFor } from "render/rows.js";
import { tellApart } from "render/names.js";
import { FONT, Sheet } from "render/scene.js";
import { palette } from "render/theme.js";
import { tipRows } from "render/tooltip.js";
import { zooming } from "render/zooming.js";

/**
 * @typedef {page.RunPicture} Run
 * @typedef {page.StepPicture} Step
 * @typedef {import("render/rows.js").Events & { rows: Step["rows"], label: import("render/packed.js").Numbers }} Events
 */

const AXIS = 22;
const ROW = 22;
const GAP = 3;
const KINDS = ["compute", "communication", "memory", "fused", "other"];

/**
 * The events of a step, read.
 * @param {Run} run
 * @param {Step} step
 * @returns {Events}
 */
export function eventsOf({ labels }, step) {
  const label = unpacked(step.label);
  const kinds = labels.map(({ kind }) => Math.max(0, KINDS.indexOf(kind)));
  return {
    num: label.length,
    start: Float64Array.from(unpacked(step.start)),
    dur: unpacked(step.dur),
    name: label,
    label,
    kind: Uint8Array.from(label, (at) => kinds[at]),
    names: labels.map(({ name }) => name),
    className: KINDS,
    rows: step.rows,
  };
}

/**
 * The streams in an element: {show(run, step), mark(events), events()}.
 * @param {HTMLElement} holder
 * @param {string} name of the run
 * @param {import("render/viewport.js").Viewport} view
 */
export function streamPicture(holder, name, view) {
  const canvas = h("canvas", { tabindex: "0", role: "img" });
  const gutter = h("div");
  const frame = h("div", {}, canvas);
  const said = h("p", { class: "notice aside", hidden: true });
  /** @type {Events | null} */
  let events = null;
  /** @type {Run["labels"]} */
  let labels = [];
  /** @type {Float64Array} */
  let sums = new Float64Array(1);
  /** @type {Uint32Array | null} */
  let hits = null;
  const { draw, now, width } = zooming({
    canvas,
    frame,
    view,
    paint,
    point: (x, y) => {
      const at = under(x, y);
      return events && at >= 0 ? tip(events, labels[events.label[at]], at) : null;
    },
    pointing: () => false,
    double: (x, y) => {
      const at = under(x, y);
      if (!events || at < 0) return;
      view.glide(events.start[at] - 2 * events.dur[at], events.start[at] + 3 * events.dur[at]);
    },
  });
  fill(holder, h("div", { class: "streams" }, gutter, frame), said);

  /** @param {number} wide */
  function paint(wide) {
    if (!events) return;
    const height = AXIS + events.rows.length * (ROW + GAP);
    const sheet = new Sheet(canvas, view, wide, height);
    sheet.axis(AXIS, height);
    const label = nameWriter(sheet.context, events, FONT);
    const look = shadesFor(events, sheet.colors);
    for (const [at, row] of events.rows.entries()) {
      const y = AXIS + at * (ROW + GAP);
      sheet.rect(sheet.colors.raised, 0, y, wide, ROW);
      paintRow(sheet.context, events, row, { view, width: wide, y, height: ROW, look, sums, hits, label });
    }
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  function under(x, y) {
    const row = events?.rows[Math.floor((y - AXIS) / (ROW + GAP))];
    if (!events || !row || y < AXIS) return -1;
    return eventAt(events, row, view.start + (x / width()) * view.length, (1.5 * view.length) / width());
  }

  return {
    events: () => events,
    /**
     * @param {Run} run
     * @param {Step} step
     */
    show: (run, step) => {
      events = eventsOf(run, step);
      labels = run.labels;
      sums = durationSums(events);
      hits = null;
      const all = plural(events.num, "event");
      canvas.setAttribute(
        "aria-label",
        `Streams of the step ${name}: ${all} on ${plural(step.rows.length, "stream")}.`,
      );
      said.hidden = step.left_out === 0;
      said.textContent = `Not listed of the step ${name}: its ${plural(step.left_out, "shortest event")}.`;
      fill(gutter, gutterOf(name, step.rows));
      now();
    },
    /** @param {number[] | null} chosen events to mark, in ascending order; null for none */
    mark: (chosen) => {
      hits = chosen && events ? summed(chosen, events.num) : null;
      draw();
    },
  };
}

/**
 * @param {string} name
 * @param {Step["rows"]} rows
 */
function gutterOf(name, rows) {
  /**
   * @param {number} top
   * @param {number} height
   */
  const place = (top, height) => ({ top: `${top}px`, "line-height": `${height}px` });
  const labels = rows.map(({ stream }, at) =>
    h("div", {
      class: "stream-label",
      style: place(AXIS + at * (ROW + GAP), ROW),
      text: stream < 0 ? "no stream" : `stream ${stream}`,
    }),
  );
  tellApart(labels);
  return [h("div", { class: "stream-label", style: place(0, AXIS) }, h("b", { text: name })), ...labels];
}

/**
 * Matches summed up to each event.
 * @param {number[]} chosen
 * @param {number} num
 */
function summed(chosen, num) {
  const sums = new Uint32Array(num + 1);
  for (const at of chosen) sums[at + 1] = 1;
  for (let i = 0; i < num; i += 1) sums[i + 1] += sums[i];
  return sums;
}

/**
 * @param {Events} events
 * @param {Run["labels"][number]} label
 * @param {number} at
 */
function tip(events, label, at) {
  return tipRows(label.name.slice(0, 200), palette()[label.kind], [
    ["from", duration(events.start[at], 5)],
    ["takes", duration(events.dur[at])],
    ["family", label.family],
    label.operator ? ["operator", label.operator] : null,
    label.phase ? ["phase", label.phase] : null,
  ]);
}
