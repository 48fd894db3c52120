// Memory over time: what is allocated, what is reserved beyond it, and who held what at the peak.

import { byId, fill, h } from "render/dom.js";
import { bytes, duration, tickLabel } from "render/format.js";
import { key } from "render/legends.js";
import { columnPicker, drawnToWidth, grid, gridAcross, roundTicks, svg, svgChart, svgRect } from "render/svg.js";
import { columnsOf, sortableTable } from "render/tables.js";
import { tipRows } from "render/tooltip.js";

/** @typedef {NonNullable<page.Rank["memory"]>[number]} Use */

const TOP = 12;
const BOTTOM = 28;
const LEFT = 66;
const RIGHT = 14;
const HEIGHT = 240;
const FIRST = 12;
const KIB = 1024;

/** @param {page.Rank} rank */
export function showMemory({ memory = [] }) {
  byId("memory").hidden = memory.length === 0;
  fill(byId("memory"), ...memory.flatMap(partsOf));
}

/** @param {Use} use */
function partsOf(use) {
  const chart = h("div", { class: "chart-box" });
  drawnToWidth(chart, (width) => draw(use, width));
  const reserves = use.reserved_bytes !== null;
  const hasPhase = use.alive.some((row) => row.phase !== null);
  const table = sortableTable({
    name: `memory ${use.device}`,
    rows: use.alive,
    limit: FIRST,
    sort: { key: "", down: true },
    columns: columnsOf("alive", `operator ${hasPhase ? "phase " : ""}num_blocks alive_bytes share`, {
      alive_bytes: { kind: "count", text: (row) => bytes(row.alive_bytes) },
    }),
  });
  return [
    h("h2", { text: `Memory of ${use.device}` }),
    h("p", { class: "lead", text: wordsOf(use) }),
    chart,
    h(
      "div",
      { class: "legend flush" },
      key({ class: "swatch part memory" }, "allocated"),
      reserves ? key({ class: "swatch part memory pale" }, "reserved, not allocated") : null,
    ),
    h("h3", { text: "Allocated at the peak" }),
    table.element,
  ];
}

/** @param {Use} use */
function wordsOf(use) {
  const since = use.is_relative ? " since the recording began" : "";
  const at = `${duration(use.peak_ns)} from the start of the span`;
  const peak = `At most ${bytes(use.peak_bytes)} allocated${since}, ${at}`;
  if (use.reserved_bytes === null || use.fragmented_bytes === null) return `${peak}.`;
  return `${peak}; ${bytes(use.reserved_bytes)} reserved then, ${bytes(use.fragmented_bytes)} of it not allocated.`;
}

/**
 * @param {Use} use
 * @param {number} width
 */
function draw({ device, curve, peak_bytes }, width) {
  const floor = HEIGHT - BOTTOM;
  const [start, end] = [curve[0].time_ns, Math.max(curve[curve.length - 1].time_ns, curve[0].time_ns + 1)];
  const most = Math.max(1, ...curve.map((point) => Math.max(point.allocated_bytes, point.reserved_bytes ?? 0)));
  const x = (/** @type {number} */ time) => LEFT + ((width - LEFT - RIGHT) * (time - start)) / (end - start);
  const y = (/** @type {number} */ amount) => floor - ((floor - TOP) * Math.max(0, amount)) / most;
  const unit = KIB ** Math.floor(Math.log(most) / Math.log(KIB));
  const across = roundTicks(start, end, Math.max(2, Math.floor(width / 120)));
  /** @param {(point: Use["curve"][number]) => number} amount */
  const area = (amount) => {
    const steps = curve.map((point) => `H${x(point.time_ns).toFixed(1)}V${y(amount(point)).toFixed(1)}`).join("");
    return `M${LEFT} ${floor}${steps}H${x(end).toFixed(1)}V${floor}Z`;
  };
  const mark = svgRect("column", 0, TOP, 1, floor - TOP);
  const chart = svgChart(width, HEIGHT, `memory of ${device} over time, at most ${bytes(peak_bytes)} allocated`, [
    mark,
    curve[0].reserved_bytes === null
      ? null
      : svg("path", { class: "memory area pale", d: area((point) => point.reserved_bytes ?? 0) }),
    svg("path", { class: "memory area", d: area((point) => point.allocated_bytes) }),
    grid({
      values: roundTicks(0, most / unit, 4).values.map((value) => value * unit),
      y,
      left: LEFT,
      right: width - RIGHT,
      text: (value) => bytes(value).replace(".0 ", " "),
    }),
    gridAcross(across.values, x, TOP, floor, (value) => tickLabel(value, across.step, end - start), width - 30),
  ]);
  columnPicker(chart, {
    count: curve.length,
    indexAt: (at) => curve.findLastIndex((point) => x(point.time_ns) <= at),
    from: (i) => x(curve[i].time_ns),
    to: (i) => x(curve[i + 1]?.time_ns ?? end),
    mark,
    tip: (i) =>
      tipRows(duration(curve[i].time_ns), null, [
        ["allocated", bytes(curve[i].allocated_bytes)],
        curve[i].reserved_bytes === null ? null : ["reserved", bytes(curve[i].reserved_bytes ?? 0)],
      ]),
  });
  return chart;
}
