// What a little speed is worth: the table of all selections, and the span over the speed of some.

import { curves, percentTick } from "render/curves.js";
import { byId } from "render/dom.js";
import { duration, grouped, percent, range, signed } from "render/format.js";
import { showTable } from "render/tables.js";

/**
 * @typedef {page.SensitivityBlock["document"]} Sensitivity
 * @typedef {Sensitivity["rows"][number]} Gain
 */

/** @param {Sensitivity} sensitivity */
export function showGains({ by, rows, headline, replayed_ns: span }) {
  const most = Math.max(1e-12, ...rows.map((row) => row.share));
  byId("gain-lead").textContent = headline;
  /** @type {import("render/tables.js").Column<Gain>[]} */
  const columns = [
    { key: "selector", label: `${grouped(100 * by, by < 0.01 ? 2 : 0)} % faster`, kind: "text", wide: true },
    { key: "kind", label: "kind", kind: "text" },
    {
      key: "saved_ns",
      label: "saves",
      kind: "time",
      def: "saved",
      text: (row) => range(row.least_ns, row.most_ns),
      bar: (row) => row.share / most,
    },
    { key: "share", label: "of the span", kind: "percent", text: (row) => shares(row, span) },
    {
      key: "critical_ns",
      label: "on the path",
      kind: "time",
      def: "sensitivity",
      text: (row) => duration(row.critical_ns),
    },
    { key: "time_ns", label: "takes in all", kind: "time", text: (row) => duration(row.time_ns) },
  ];
  const sort = { key: "saved_ns", down: true };
  showTable("gain-table", { name: "gains", columns, rows, sort, limit: 15, unitEach: true });
}

/**
 * What a selection saves of the span; where absent ranks decide, at least and at most.
 * @param {Gain} row
 * @param {number} span
 */
function shares(row, span) {
  if (row.least_ns === row.most_ns) return percent(row.share, 3);
  return `${percent(row.least_ns / span, 3)} to ${percent(row.most_ns / span, 3)}`;
}

/** @param {Sensitivity} sensitivity */
export function showCurves({ curves: all }) {
  byId("curve-box").hidden = all.length === 0;
  if (!all.length) return;
  const factors = [...new Set(all.flatMap(({ points }) => points.map((point) => point.factor)))].sort((a, b) => a - b);
  byId("curve-title").textContent = `If ${all.map((curve) => curve.selector).join(", or ")} took another time`;
  byId("curve-lead").textContent = all.map((curve) => curve.sentence).join(" ");
  curves(byId("curve"), {
    xs: factors,
    labels: factors.map((factor) => `×${factor}`),
    curves: all.map((curve) => ({
      name: curve.selector,
      values: factors.map((factor) => curve.points.find((point) => point.factor === factor)?.change ?? null),
      base: false,
      from: curve.knee > factors[0] ? factors.indexOf(curve.knee) : undefined,
    })),
    across: "its time",
    up: "change of the span",
    text: (value) => signed(value, 2),
    tick: percentTick,
    fromZero: true,
    joined: true,
  });
}
