// A simulated schedule, as a part of any page of this wing: ranks' rows that zoom, what each waits and holds, a legend.

import { fill, h } from "render/dom.js";
import { percent } from "render/format.js";
import { palette } from "render/theme.js";
import { defined, tipRows } from "render/tooltip.js";
import { Viewport } from "render/viewport.js";
import { zooming, zoomTools } from "render/zooming.js";
import { scheduleKeys } from "./schedule_keys.js";
import { AXIS, cellColor, firstAfter, MEMORY, paintSchedule, rowOf, scheduleGeometry } from "./schedule_paint.js";
import { actionText, heldText, timeText } from "./schedule_text.js";

/** @typedef {import("./schedule_paint.js").Geometry} Geometry */

const LEAST_LABEL = 15; // pixels that a label needs: of lower rows every second, fourth … has one

/**
 * Draws a schedule into an element and returns {view, cellAt(x, y)}; the terms of PICTURE_TERMS must be among the
 * page's. until_ns: where its axis ends, for several pictures on one scale of time; its makespan unless given.
 * @param {HTMLElement} holder
 * @param {page.Schedule} block
 * @param {number} [until_ns]
 */
export function schedulePicture(holder, block, until_ns = block.makespan_ns) {
  const at = scheduleGeometry(block.ranks.length);
  const view = new Viewport(0, Math.max(1, until_ns));
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": block.headline });
  const frame = h("div", { class: "schedule-frame" }, canvas);
  const legend = h("div", { class: "legend schedule-legend" });
  const peakRow = block.ranks.findIndex((one) => one.rank === block.peak_rank);
  let hovered = -1;
  let row = peakRow;
  const { now, width } = zooming({
    canvas,
    frame,
    view,
    paint: (wide) => paintSchedule(canvas, { block, at, view, width: wide, hovered, row }),
    point: (x, y) => {
      hovered = cellAt(x, y);
      row = rowAt(y) < 0 ? peakRow : rowAt(y);
      if (hovered >= 0) return cellTip(block, hovered);
      if (y < at.memory || y > at.memory + MEMORY) return null;
      return memoryTip(block, Math.round(view.start + (x / width()) * view.length));
    },
    pointing: () => hovered >= 0,
    leave: () => {
      hovered = -1;
      row = peakRow;
    },
    double: (x, y) => {
      const cell = cellAt(x, y);
      if (cell < 0) return;
      const { start_ns, end_ns } = block.cells;
      const length = end_ns[cell] - start_ns[cell];
      view.glide(start_ns[cell] - 6 * length, end_ns[cell] + 6 * length);
    },
    restyle: () => fill(legend, scheduleKeys(block)),
  });
  fill(
    holder,
    zoomTools(view, "step", "schedule-tools"),
    h("div", { class: "schedule" }, gutter(block, at), frame, sides(block, at)),
    legend,
    block.left_out ? h("p", { class: "notice", text: block.left_out }) : null,
  );
  fill(legend, scheduleKeys(block));
  now();
  return { view, cellAt };

  /** @param {number} y */
  function rowAt(y) {
    return y < AXIS || y >= AXIS + at.row * block.ranks.length ? -1 : Math.floor((y - AXIS) / at.row);
  }

  /**
   * The cell at a point of the canvas, -1 for none.
   * @param {number} x
   * @param {number} y
   */
  function cellAt(x, y) {
    const over = rowAt(y);
    if (over < 0) return -1;
    const time = view.start + (x / width()) * view.length;
    const [first, last] = block.ranks[over].cells;
    const cell = firstAfter(block.cells.end_ns, first, last, time);
    return cell < last && block.cells.start_ns[cell] <= time ? cell : -1;
  }
}

/**
 * Puts something beside each row: all, or every second, fourth … where rows are low.
 * @param {page.Schedule} block
 * @param {Geometry} at
 * @param {(one: page.Schedule["ranks"][number], style: Record<string, string>) => HTMLElement} make
 */
function beside(block, at, make) {
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(LEAST_LABEL / at.row)));
  const height = `${Math.max(at.bar, LEAST_LABEL)}px`;
  return block.ranks.flatMap((one, row) =>
    row % every ? [] : [make(one, { top: `${AXIS + at.row * row}px`, "line-height": height })],
  );
}

const HEAD = { top: "0px", "line-height": `${AXIS}px` };

/**
 * The numbers of ranks, and the scale of memory.
 * @param {page.Schedule} block
 * @param {Geometry} at
 */
function gutter(block, at) {
  /**
   * @param {number} top
   * @param {string} text
   */
  const label = (top, text) => h("div", { class: "schedule-label", style: { top: `${top}px` }, text });
  return h(
    "div",
    {},
    h("div", { class: "schedule-label schedule-head", style: HEAD, text: "rank" }),
    beside(block, at, (one, style) => h("div", { class: "schedule-label", style, text: one.rank })),
    label(at.memory - 9, heldText(block, block.peak)),
    label(at.memory + MEMORY - 12, "0"),
  );
}

/**
 * What each rank waits and holds, beside its row.
 * @param {page.Schedule} block
 * @param {Geometry} at
 */
function sides(block, at) {
  return h(
    "div",
    { class: "schedule-sides" },
    h(
      "div",
      { class: "schedule-side schedule-head", style: HEAD },
      h("span", {}, defined("idle", "idle")),
      h("span", {}, defined("held", "peak")),
    ),
    beside(block, at, (one, style) =>
      h(
        "div",
        { class: "schedule-side", style },
        h("span", { text: percent(one.idle_share) }),
        h("span", { text: heldText(block, one.peak) }),
      ),
    ),
  );
}

/**
 * What is said of a cell.
 * @param {page.Schedule} block
 * @param {number} cell
 */
function cellTip(block, cell) {
  const { kind, start_ns, end_ns, shade, back_shade, cause } = block.cells;
  const { rank, cells } = block.ranks[rowOf(block, cell)];
  const waited = start_ns[cell] - (cell > cells[0] ? end_ns[cell - 1] : 0);
  const from = waited > 0 ? cause[cell] : null;
  const numShades = block.shades.length;
  const color = cellColor(kind[cell] === "F&B" ? "F" : kind[cell], shade[cell], numShades);
  const shades = [shade[cell], back_shade[cell]].flatMap((one) => (one === null ? [] : [block.shades[one]]));
  return tipRows(actionText(block, cell), color, [
    ["rank", numShades > 1 ? `${rank}, ${shades.join(" and ")}` : rank],
    ["from", timeText(block, start_ns[cell])],
    ["to", timeText(block, end_ns[cell])],
    ["takes", timeText(block, end_ns[cell] - start_ns[cell])],
    waited > 0 ? ["idle before", timeText(block, waited)] : null,
    from === null
      ? null
      : ["waited for", `${actionText(block, from)}, on rank ${block.ranks[rowOf(block, from)].rank}`],
  ]);
}

/**
 * What is held at a time.
 * @param {page.Schedule} block
 * @param {number} time
 */
function memoryTip(block, time) {
  if (time > block.makespan_ns) return null;
  const amounts = block.ranks.map(({ time_ns, held }) => {
    const next = firstAfter(time_ns, 0, time_ns.length, time);
    return next ? held[next - 1] : 0;
  });
  const most = Math.max(...amounts);
  return tipRows(block.held_words, palette().memory, [
    ["at", timeText(block, time)],
    ["most", `${heldText(block, most)}, on rank ${block.ranks[amounts.indexOf(most)].rank}`],
    ["least", heldText(block, Math.min(...amounts))],
  ]);
}
