// How fast do collectives move their data: with waiting inside, and once all ranks are there? A scatter and a table.

import { byId, fill, h } from "render/dom.js";
import { bytes, count, duration, grouped, plural } from "render/format.js";
import { key } from "render/legends.js";
import { answering, drawnToWidth, grid, gridAcross, svg, svgChart, svgLine, svgText } from "render/svg.js";
import { columnsOf, showTable } from "render/tables.js";

/**
 * @typedef {page.Bandwidth["rows"][number]} Row
 * @typedef {{ low: number, high: number, at: (value: number) => number, ticks: number[] }} Axis
 */

const TOP = 22;
const BOTTOM = 40;
const LEFT = 58;
const RIGHT = 14;
const HEIGHT = 320;
const RADIUS = 5;
const ROOM = 1.6; // times the largest, and the smallest, on each axis
const COLUMNS = "collective group group_size payload_bytes num_events whole_ns whole_busbw_GBps";
const OF_TRANSFER = " transfer_ns busbw_GBps least_busbw_GBps best_busbw_GBps basis";
const OF_PEAK = " bound peak_GBps peak_share";

/**
 * @param {page.Report} report
 * @param {boolean} isJob whether several ranks are told of; of one it stands beside its collectives
 */
export function showBandwidth({ bandwidth }, isJob) {
  const rows = bandwidth?.rows ?? [];
  byId("bandwidth").hidden = rows.length === 0;
  if (!bandwidth || !rows.length) return;
  if (!isJob) byId("phases").after(byId("bandwidth"));
  const hasPeak = rows.some((row) => typeof row.peak_share === "number");
  const isTold = rows.some((row) => row.transfer_ns !== null);
  byId("bandwidth-rest").textContent = leftOut(bandwidth, isTold);
  fill(byId("bandwidth-notes"), ...(bandwidth.notes ?? []).map((note) => h("li", { text: note })));
  const drawn = rows.filter((row) => row.whole_busbw_GBps);
  if (drawn.length) drawnToWidth(byId("bandwidth-chart"), (width) => scatter(drawn, width));
  fill(
    byId("bandwidth-legend"),
    rows.some((row) => row.busbw_GBps)
      ? key({ class: "swatch part communication" }, "transfer, after the last rank started")
      : null,
    rows.some(isAtLeast) ? h("span", { class: "key" }, h("b", { text: "▲" }), "transfer, a lower bound") : null,
    key({ class: "swatch part waiting" }, "whole duration, including waiting"),
  );
  showTable("bandwidth-table", {
    name: "bandwidth",
    rows,
    limit: 8,
    sort: { key: "", down: true },
    unitEach: true,
    columns: columnsOf("bandwidth", COLUMNS + (isTold ? OF_TRANSFER : "") + (hasPeak ? OF_PEAK : ""), {
      collective: { node: (row) => h("b", { text: row.collective }) },
      group: { text: (row) => row.group || "–" },
      payload_bytes: { kind: "count", text: (row) => bytes(row.payload_bytes) },
      transfer_ns: { text: (row) => (row.transfer_ns === null ? "–" : duration(row.transfer_ns)) },
      whole_busbw_GBps: { text: (row) => wholeRate(row) },
      busbw_GBps: { text: (row) => transferRate(row) },
      least_busbw_GBps: { text: (row) => rate(row.least_busbw_GBps, isAtLeast(row)) },
      best_busbw_GBps: { text: (row) => rate(row.best_busbw_GBps, isAtLeast(row)) },
    }),
  });
}

/**
 * Of the whole duration: algbw where a factor, or the group's size, is not known.
 * @param {Row} row
 */
function wholeRate(row) {
  if (row.whole_busbw_GBps !== null) return rate(row.whole_busbw_GBps);
  return `${rate(row.payload_bytes / row.whole_ns)} algbw`;
}

/**
 * @param {Row} row
 */
function transferRate(row) {
  if (row.busbw_GBps === null && row.algbw_GBps !== null) return `${rate(row.algbw_GBps, isAtLeast(row))} algbw`;
  return rate(row.busbw_GBps, isAtLeast(row));
}

/**
 * Whether what stands for the transfer may hold waiting.
 * @param {Row} row
 */
function isAtLeast({ basis }) {
  return basis !== "all ranks" && basis !== "whole";
}

/**
 * @param {number | null} value
 * @param {boolean} [bound]
 */
function rate(value, bound = false) {
  if (value === null) return "–";
  return `${bound ? "≥" : ""}${value < 0.1 ? value.toPrecision(2) : grouped(value, 1)}`;
}

/**
 * @param {Row[]} rows
 * @param {number} width
 */
function scatter(rows, width) {
  const sizes = rows.map((row) => row.payload_bytes);
  const rates = rows.flatMap((row) => [row.whole_busbw_GBps ?? 0, row.busbw_GBps ?? 0]).filter((value) => value > 0);
  const floor = HEIGHT - BOTTOM;
  const across = logAxis(sizes, LEFT, width - RIGHT, 2, Math.max(2, Math.floor((width - LEFT) / 84)));
  const up = logAxis(rates, floor, TOP, 10, 6);
  return svgChart(
    width,
    HEIGHT,
    "busbw of collectives by size",
    [
      grid({ values: up.ticks, y: up.at, left: LEFT, right: width - RIGHT, text: (value) => String(value) }),
      gridAcross(across.ticks, across.at, TOP, floor, (value) => bytes(value).replace(".0", "")),
      svgText("tick", 2, 12, "busbw, GB/s ↑"),
      svgText("tick", width - RIGHT, HEIGHT - 5, "size →", "end"),
      rows.map((row) => spot(row, across, up)),
    ],
    { role: "group" },
  );
}

/**
 * A row of the table: where the whole is, where the transfer, and a line between.
 * @param {Row} row
 * @param {Axis} across
 * @param {Axis} up
 */
function spot(row, across, up) {
  const x = across.at(row.payload_bytes);
  const [whole, transfer] = [row.whole_busbw_GBps ?? 0, row.busbw_GBps];
  return answering(
    { class: "spot" },
    () => [`${row.collective}, ${bytes(row.payload_bytes)}`, told(row)],
    null,
    transfer ? svgLine("spot-span", x, up.at(whole), x, up.at(transfer)) : null,
    svg("circle", { class: "waiting", cx: x, cy: up.at(whole), r: RADIUS }),
    transfer ? mark(x, up.at(transfer), isAtLeast(row)) : null,
  );
}

/**
 * @param {number} x
 * @param {number} y
 * @param {boolean} bound
 */
function mark(x, y, bound) {
  if (!bound) return svg("circle", { class: "communication", cx: x, cy: y, r: RADIUS });
  const far = RADIUS + 1;
  return svg("path", { class: "communication", d: `M${x - far} ${y + far}H${x + far}L${x} ${y - far}Z` });
}

/**
 * @param {Row} row
 * @returns {(import("render/tooltip.js").TipRow | null)[]}
 */
function told(row) {
  const bound = isAtLeast(row);
  return [
    row.group ? ["group", row.group] : null,
    row.group_size === null ? null : ["ranks", count(row.group_size)],
    ["events", count(row.num_events)],
    ["whole", `${duration(row.whole_ns)}, ${rate(row.whole_busbw_GBps)} GB/s`],
    row.transfer_ns === null
      ? ["transfer", "not known"]
      : ["transfer", `${bound ? "≤ " : ""}${duration(row.transfer_ns)}, ${rate(row.busbw_GBps, bound)} GB/s`],
    row.least_busbw_GBps === null
      ? null
      : ["from, to", `${rate(row.least_busbw_GBps, bound)}, ${rate(row.best_busbw_GBps, bound)} GB/s`],
    ["transfer by", row.basis],
  ];
}

/**
 * A logarithmic axis with round values: powers of `base`, so many at most; of tens 2 and 5 of each too where there is
 * room.
 * @param {number[]} values
 * @param {number} from
 * @param {number} to
 * @param {number} base
 * @param {number} most
 * @returns {Axis}
 */
function logAxis(values, from, to, base, most) {
  const [low, high] = [Math.min(...values) / ROOM, Math.max(...values) * ROOM];
  /** @param {number} value */
  const at = (value) => from + (Math.log(value / low) / Math.log(high / low)) * (to - from);
  /** @param {number} step */
  const powers = (step) => {
    const first = Math.ceil(Math.log(low) / Math.log(base) / step - 1e-9);
    const last = Math.floor(Math.log(high) / Math.log(base) / step + 1e-9);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => base ** ((first + i) * step));
  };
  if (base === 10) {
    const first = Math.floor(Math.log10(low));
    const fine = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, i) =>
      [1, 2, 5].map((digit) => Number(`${digit}e${first + i}`)),
    );
    const within = fine.flat().filter((value) => value >= low && value <= high);
    if (within.length <= most + 1) return { low, high, at, ticks: within };
  }
  const ticks = [1, 2, 3, 4, 5, 10, 20].map(powers).find((found) => found.length <= most) ?? [];
  return { low, high, at, ticks: ticks.map((value) => Number(value.toPrecision(12))) };
}

/**
 * What is in no row, and why.
 * @param {page.Bandwidth} bandwidth
 * @param {boolean} isTold whether any transfer is known
 */
function leftOut(bandwidth, isTold) {
  const { num_rows_left: rows, left_ns: left, num_unsized: unsized, num_without_factor: without } = bandwidth;
  const parts = [
    isTold
      ? null
      : "Only the whole duration is known, including waiting. The transfer needs the files of the other ranks.",
    rows ? `Not listed: ${plural(rows, "row")} that took less, ${duration(left)} in all.` : null,
    unsized ? `In no row because no size is recorded: ${plural(unsized, "event")}.` : null,
    without
      ? `Without busbw because the size of the group, or a factor, is not known: ${plural(without, "event")}.`
      : null,
    bandwidth.num_left_early
      ? "Without a transfer because a rank left before the last one started: " +
        `${plural(bandwidth.num_left_early, "collective")}.`
      : null,
  ];
  return parts.filter(Boolean).join(" ");
}
