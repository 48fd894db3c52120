// A critical path on its streams and threads, as a part of any page: it zooms, and answers to the pointer.

import { fill, h } from "./dom.js";
import { duration, percent, plural } from "./format.js";
import { colorKey, key, signKey } from "./legends.js";
import { tellApart } from "./names.js";
import { classTimes, readPath } from "./path_data.js";
import { BAND, firstInView, paintPath, pathGeometry, pathLook } from "./path_paint.js";
import { eventAt } from "./rows.js";
import { palette } from "./theme.js";
import { defined, tipRows } from "./tooltip.js";
import { Viewport } from "./viewport.js";
import { zooming, zoomTools } from "./zooming.js";

/**
 * @typedef {import("./path_data.js").PathData} PathData
 * @typedef {import("./path_paint.js").Geometry} Geometry
 *
 * An event under the pointer: of the path, or another op.
 * @typedef {{ row: number, event: number, onPath: boolean }} Under
 */

/** Keys of definitions, by class; a page that draws a path has them. */
const TERMS = new Map([
  ["SM wait", "sm_wait"],
  ["dependency", "dependency"],
  ["launch", "launch"],
  ["host", "host"],
  ["idle", "idle_gap"],
  ["unrecorded", "unrecorded"],
]);

/**
 * Draws a path into an element and returns {view, data, eventAtPoint(x, y)}.
 * @param {HTMLElement} holder
 * @param {page.PathPicture} block
 * @param {number} [until_ns] where its axis ends, for several on one scale of time; its span unless given
 */
export function pathPicture(holder, block, until_ns = block.span_ns) {
  const data = readPath(block);
  const at = pathGeometry(block);
  const view = new Viewport(0, Math.max(1, until_ns));
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": described(data) });
  const frame = h("div", { class: "path-frame" }, canvas);
  const legend = h("div", { class: "legend path-legend" });
  /** @type {import("./path_paint.js").Look | null} */
  let look = null;
  /** @type {Under | null} */
  let hovered = null;
  const { now, width } = zooming({
    canvas,
    frame,
    view,
    paint: (wide) => {
      look ??= pathLook(data);
      const outlined = hovered && { row: hovered.row, ...timesOf(data, hovered) };
      paintPath(canvas, { data, at, view, width: wide, look, outlined });
    },
    point: (x, y) => {
      hovered = eventAtPoint(x, y);
      if (hovered) return opTip(data, hovered);
      return y >= at.band && y < at.band + BAND ? partTip(data, view.start + (x / width()) * view.length) : null;
    },
    pointing: () => hovered !== null,
    leave: () => {
      hovered = null;
    },
    double: (x, y) => {
      const under = eventAtPoint(x, y);
      if (!under) return;
      const { start, end } = timesOf(data, under);
      view.glide(start - 2 * (end - start), end + 2 * (end - start));
    },
    restyle: () => {
      look = null;
      fill(legend, keys(data));
    },
  });
  fill(
    holder,
    zoomTools(view, "span", "path-tools"),
    h("div", { class: "path-picture" }, gutter(block, at), frame),
    legend,
    leftOut(block) ? h("p", { class: "notice aside", text: leftOut(block) }) : null,
  );
  fill(legend, keys(data));
  now();
  return { view, data, eventAtPoint };

  /**
   * @param {number} x
   * @param {number} y
   * @returns {Under | null}
   */
  function eventAtPoint(x, y) {
    const row = at.tops.findIndex((top, i) => y >= top && y < top + at.heights[i]);
    if (row < 0) return null;
    const time = view.start + (x / width()) * view.length;
    const slack = (1.5 * view.length) / width();
    const { first, count, path_first, path_count } = block.rows[row];
    const onPath = eventAt(data.path, { first: path_first, count: path_count }, time, slack);
    if (onPath >= 0) return { row, event: onPath, onPath: true };
    const event = eventAt(data.ops, { first, count }, time, slack);
    return event < 0 ? null : { row, event, onPath: false };
  }
}

/**
 * @param {PathData} data
 * @param {Under} under
 */
function timesOf(data, { event, onPath }) {
  const { start, dur } = onPath ? data.path : data.ops;
  return { start: start[event], end: start[event] + dur[event] };
}

/**
 * @param {page.PathPicture} block
 * @param {Geometry} at
 */
function gutter(block, at) {
  /**
   * @param {string} text
   * @param {number} top
   * @param {number} height
   */
  const label = (text, top, height) =>
    h("div", { class: "path-label", style: { top: `${top}px`, "line-height": `${height}px` }, text, title: text });
  const rows = block.rows.map((row, i) => label(row.name, at.tops[i], at.heights[i]));
  tellApart(rows);
  return h(
    "div",
    {},
    h("div", { class: "path-label", style: { top: `${at.band}px`, "line-height": `${BAND}px` } }, h("b", {}, "path")),
    rows,
  );
}

/**
 * A key for each class that the path is in, with its time; what is faint; what lines mean.
 * @param {PathData} data
 */
function keys(data) {
  const colors = palette();
  const { classes, roles, span_ns, hops } = data.block;
  const times = classTimes(data);
  const order = classes.map((_, i) => i).filter((i) => times[i] > 0);
  order.sort((a, b) => times[b] - times[a]);
  return [
    ...order.map((i) => {
      const term = TERMS.get(classes[i]);
      const share = h("span", { class: "muted", text: ` ${percent(times[i] / Math.max(1, span_ns))}` });
      return colorKey(colors[roles[i]], term ? defined(term, classes[i]) : classes[i], share);
    }),
    key({ class: "swatch faint-ops" }, "not on the path"),
    hops.to_ns.length ? signKey("╲", "the path continues; drawn if there is room") : null,
  ];
}

/** @param {page.PathPicture} block */
function leftOut({ left_out_ops: ops, left_out_rows: rows }) {
  const out = [ops ? plural(ops, "op") : "", rows ? plural(rows, "stream or thread") : ""].filter(Boolean);
  return out.length ? `Not drawn: ${out.join(", ")}. The band above shows the whole path.` : "";
}

/**
 * @param {PathData} data
 * @param {Under} under
 */
function opTip(data, { row, event, onPath }) {
  const { block } = data;
  const { start, dur, name, kind } = onPath ? data.path : data.ops;
  const title = block.names[name[event]].slice(0, 200);
  const place = block.rows[row].name;
  const color = palette()[block.roles[kind[event]]];
  if (!onPath) {
    return tipRows(title, color, [
      ["on", place],
      ["from", duration(start[event], 5)],
      ["takes", duration(dur[event])],
      ["slack", duration(data.slack[event])],
      ["", data.slack[event] ? "not on the critical path" : "as critical as the path"],
    ]);
  }
  const waited = data.waitedFor[event];
  return tipRows(title, color, [
    ["on", place],
    ["from", duration(start[event], 5)],
    ["on the path for", duration(dur[event])],
    ["reached by", block.causes[data.cause[event]]],
    waited ? ["waited for", block.names[waited - 1].slice(0, 120)] : null,
    ["confidence", `${data.sure[event]} %`],
  ]);
}

/**
 * @param {PathData} data
 * @param {number} time
 */
function partTip({ block, parts }, time) {
  const part = firstInView(parts, time);
  if (part >= parts.num || parts.start[part] > time) return null;
  const kind = parts.kind[part];
  return tipRows(block.names[parts.name[part]].slice(0, 200), palette()[block.roles[kind]], [
    ["class", block.classes[kind]],
    ["from", duration(parts.start[part], 5)],
    ["on the path for", duration(parts.dur[part])],
  ]);
}

/** @param {PathData} data */
function described(data) {
  const { classes, span_ns } = data.block;
  const times = classTimes(data);
  const told = classes.map((name, i) => (times[i] ? `${name} ${duration(times[i])}` : "")).filter(Boolean);
  return `Critical path of ${duration(span_ns)}: ${told.join(", ")}.`;
}
