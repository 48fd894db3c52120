// How fast was each operator, shape by shape, and what part of the chip's peak is that? What is known of the device's
// time, a roofline with a point a shape, and the tables.

import { byId, fill, h } from "render/dom.js";
import { count, duration, grouped, percent, plural, si } from "render/format.js";
import { key } from "render/legends.js";
import { HEIGHT, plotOf, roofline } from "render/roofline_plot.js";
import { answering, drawnToWidth, svg, svgChart } from "render/svg.js";
import { columnsOf, showTable } from "render/tables.js";
import { partsList, stackedBar } from "./parts.js";

/**
 * @typedef {page.Efficiency["shapes"][number]} Shape
 * @typedef {{ shape: Shape, x: number, y: number }} Point
 */

const FIRST = 15;
const REASONS = 10; // shapes of which is said why they are below, or above, their peak: those of most time
const LARGEST = 15; // radius of the point of most time, pixels
const LEAST_SHARE = 1e-4; // of device time: what is smaller is no point, and would stretch the axes
const COLUMNS = "operator shapes dtype num_calls busy_ns share flops_per_s peak_share bytes_per_s roofline_share";
const OF_OPERATOR = "operator num_shapes num_calls busy_ns share flops_per_s peak_share bytes_per_s roofline_share";
/** @type {[key: string, role: string, word: string][]} */
const PARTS = [
  ["flops", "rated_flops", "FLOPs known"],
  ["bytes", "rated_bytes", "bytes alone"],
  ["no shapes", "no_shapes", "no shapes"],
  ["no operator", "no_operator", "no operator"],
];

/** @param {page.Rank} rank */
export function showEfficiency({ efficiency }) {
  const isThere = Boolean(efficiency?.total_ns);
  byId("efficiency").hidden = !isThere;
  if (!efficiency || !isThere) return;
  const isKnown = efficiency.num_rated > 0;
  byId("efficiency-body").hidden = !isKnown;
  byId("efficiency-title").textContent = efficiency.hardware
    ? `Efficiency, relative to the peaks of ${efficiency.hardware}`
    : "Efficiency";
  byId("efficiency-lead").textContent = isKnown ? efficiency.headline : "";
  const notes = isKnown ? efficiency.notes : efficiency.notes.slice(0, 1);
  fill(byId("efficiency-notes"), ...notes.map((text) => h("li", { text })));
  fill(byId("efficiency-parts"), ...(isKnown ? partsBar(efficiency) : []));
  if (!isKnown) return;
  showPicture(efficiency);
  showTables(efficiency);
}

/** @param {page.Efficiency} efficiency */
function partsBar({ parts, total_ns: span }) {
  /** @param {string} name */
  const total = (name) => parts.filter(({ part }) => part === name).reduce((sum, row) => sum + row.total_ns, 0);
  const times = { span, ...Object.fromEntries(PARTS.map(([name]) => [name, total(name)])) };
  const present = PARTS.filter(([name]) => total(name) > 0);
  const list = partsList(times, present);
  for (const [at, [name]] of present.entries()) {
    const reasons = parts.filter(({ part, reason }) => part === name && reason);
    const title = reasons.map(({ reason, share }) => `${reason}: ${percent(share)}`).join("\n");
    list.children[at].setAttribute("title", title);
  }
  return [stackedBar(times, "medium", present), list];
}

/** @param {page.Efficiency} efficiency */
function showPicture(efficiency) {
  const { shapes, peaks, memory_bytes_per_s: memory } = efficiency;
  const every = shapes.flatMap((shape) => pointOf(shape) ?? []);
  const large = every.filter(({ shape }) => shape.share >= LEAST_SHARE);
  const points = large.length ? large : every;
  const left = every.length - points.length;
  const compute = Object.entries(peaks).sort(([, a], [, b]) => b - a);
  const roofs = memory && compute.length ? { bytes_per_s: memory, compute } : null;
  const kinds = [...new Set(points.map(({ shape }) => shape.kind))];
  byId("roofline-picked").hidden = true;
  byId("roofline-lead").textContent = points.length
    ? "Each point is an operator with one set of shapes; its area is its device time. Under the " +
      "slanted part memory limits it, under the flat part arithmetic does. Work is executed matrix FLOPs " +
      "plus vector FLOPs. Click a point to keep its facts."
    : "No operator has both arithmetic and known bytes, so there is nothing to draw.";
  fill(
    byId("roofline-legend"),
    kinds.map((kind) => key({ class: `swatch round part kind-${kind}` }, kind)),
    left
      ? h("span", { class: "key", text: `${plural(left, "point")} of less than 0.01 % of the time left out` })
      : null,
  );
  if (!points.length) fill(byId("roofline-chart"));
  else drawnToWidth(byId("roofline-chart"), (width) => draw(points, roofs, width));
}

/**
 * Where a shape stands; null of what has no arithmetic, or whose bytes are not known.
 * @param {Shape} shape
 * @returns {Point | null}
 */
function pointOf(shape) {
  const work = shape.executed_flops + shape.vector_flops;
  if (!work || !shape.intensity || !shape.busy_ns) return null;
  return { shape, x: shape.intensity, y: (work * 1e9) / shape.busy_ns };
}

/**
 * @param {Point[]} points
 * @param {import("render/roofline_plot.js").Roofs | null} roofs
 * @param {number} width
 */
function draw(points, roofs, width) {
  const plot = plotOf(points, roofs, width);
  const longest = Math.max(...points.map(({ shape }) => shape.busy_ns));
  const ordered = [...points].sort((a, b) => b.shape.busy_ns - a.shape.busy_ns);
  return svgChart(
    width,
    HEIGHT,
    "Roofline: FLOP per second over FLOP per byte, one point per shape",
    [
      roofline(plot, roofs),
      ordered.map(({ shape, x, y }) =>
        answering(
          { class: `dot of-kind kind-${shape.kind}`, "aria-label": nameOf(shape) },
          () => [nameOf(shape), told(shape)],
          () => pick(shape),
          svg("circle", { cx: plot.x(x), cy: plot.y(y), r: 3 + LARGEST * Math.sqrt(shape.busy_ns / longest) }),
        ),
      ),
    ],
    { role: "group" },
  );
}

/**
 * Keeps what a point says below the picture.
 * @param {Shape} shape
 */
function pick(shape) {
  const facts = told(shape).flatMap((row) => (row ? [row.join(" ")] : []));
  byId("roofline-picked").hidden = false;
  fill(byId("roofline-picked"), h("b", { text: nameOf(shape) }), ` ${facts.join(" · ")}`);
}

/** @param {Shape} shape */
function nameOf({ operator, shapes }) {
  return `${operator} ${shapes}`.trim();
}

/**
 * @param {Shape} shape
 * @returns {(import("render/tooltip.js").TipRow | null)[]}
 */
function told(shape) {
  const { peak, peak_share: ofPeak, roofline_share: ofRoof, bound } = shape;
  return [
    ["device time", `${duration(shape.busy_ns)}, ${percent(shape.share)} of all`],
    ["calls", count(shape.num_calls)],
    shape.flops_per_s === null ? null : ["rate", si(shape.flops_per_s, "FLOP/s")],
    shape.bytes_per_s === null ? null : ["moves", si(shape.bytes_per_s, "B/s")],
    shape.intensity === null ? null : ["intensity", `${si(shape.intensity)} FLOP/B`],
    ofPeak === null ? null : [`of the ${peak} peak`, percent(ofPeak)],
    ofRoof === null
      ? null
      : ["of the roofline", `${percent(ofRoof)}, bound by ${bound === "memory" ? "memory" : "compute"}`],
    shape.computes_in === null ? null : ["computes in", shape.computes_in],
    shape.why ? ["why", shape.why] : null,
    shape.note ? ["note", shape.note] : null,
  ];
}

/** @param {page.Efficiency} efficiency */
function showTables({ shapes, num_shapes: num, operators, steps, phases }) {
  const top = Math.max(1e-12, ...shapes.map(({ share }) => share));
  showTable("shape-table", {
    name: "shapes",
    rows: shapes,
    limit: FIRST,
    sort: { key: "busy_ns", down: true },
    unitEach: true,
    columns: columnsOf("shapes", COLUMNS, {
      operator: { node: (row) => h("b", { class: "kernel", text: row.operator, title: row.operator }) },
      shapes: { node: (row) => h("span", { class: "kernel", text: row.shapes || "–", title: row.shapes }) },
      share: { bar: (row) => row.share / top },
      ...rates(),
    }),
  });
  const reasons = shapes.filter((row) => row.why || row.note).slice(0, REASONS);
  byId("shape-reasons").hidden = !reasons.length;
  fill(
    byId("shape-reasons-list"),
    reasons.map((row) =>
      h("li", {}, h("b", { text: `${nameOf(row)}: ` }), [row.why, row.note].filter(Boolean).join(" ")),
    ),
  );
  const left = num - shapes.length;
  byId("shape-rest").textContent = left > 0 ? `${grouped(left)} more (${plural(num, "shape")} in all) took less.` : "";
  byId("operator-rates").hidden = !operators.length;
  showTable("operator-rate-table", {
    name: "operator-rates",
    rows: operators,
    limit: FIRST,
    sort: { key: "busy_ns", down: true },
    unitEach: true,
    columns: columnsOf("operator-rates", OF_OPERATOR, rates()),
  });
  const windows = [...steps, ...phases];
  byId("window-rates").hidden = !windows.length;
  showTable("window-table", {
    name: "window-rates",
    rows: windows,
    limit: FIRST,
    sort: { key: "", down: true },
    unitEach: true,
    columns: columnsOf("window-rates", "name span_ns rated_share flops flops_per_s mfu hfu", {
      flops: { text: (row) => si(row.flops) },
      ...rates(),
    }),
  });
}

/**
 * @typedef {{ flops_per_s: number | null, bytes_per_s?: number | null }} Rates
 * @typedef {{ kind: "count", text: (row: Rates) => string }} RateColumn
 *
 * How rates are written.
 * @returns {Record<string, RateColumn>}
 */
function rates() {
  return {
    flops_per_s: { kind: "count", text: (row) => (row.flops_per_s === null ? "–" : si(row.flops_per_s)) },
    bytes_per_s: { kind: "count", text: (row) => (row.bytes_per_s == null ? "–" : si(row.bytes_per_s)) },
  };
}
