// The lengths of both runs' steps: how far they lie apart, beside how far the steps of one run do.

import { byId, showNotes } from "render/dom.js";
import { duration, plural, tickLabel } from "render/format.js";
import { drawnToWidth, roundTicks, svg, svgChart, gridAcross, svgLine, svgRect } from "render/svg.js";

/**
 * @typedef {page.DiffBlock["document"]} Diff
 * @typedef {NonNullable<ReturnType<typeof import("./pictures.js").pictures>>} Pictures
 */

const ROW = 54;
const LEFT = 62;
const RIGHT = 16;
const AXIS = 26;
const RUNS = /** @type {const} */ (["before", "after"]);

/**
 * @param {Diff} found
 * @param {Pictures | null} pictures
 */
export function showSteps(found, pictures) {
  const told = RUNS.map((run) => {
    const { low_ns, median_ns, high_ns, steps } = found[run];
    if (steps.length < 2) return `${run}: one, ${duration(median_ns, 4)}`;
    return `${run}: half of ${plural(steps.length, "step")} within ${duration(low_ns, 4)} to ${duration(high_ns, 4)}`;
  });
  byId("step-lead").textContent =
    `A dot is a step, the bar the half of them in the middle, its line the median. ${told.join("; ")}.`;
  drawnToWidth(byId("step-chart"), (width) => chart(found, pictures, width));
  const dropped = RUNS.flatMap((run) =>
    found[run].dropped.map(({ step, why }) => `Left out ${run}: step ${step}, ${why}.`),
  );
  showNotes(byId("dropped"), dropped);
}

/**
 * @param {Diff} found
 * @param {Pictures | null} pictures
 * @param {number} width
 */
function chart(found, pictures, width) {
  const lengths = RUNS.flatMap((run) => found[run].steps.map((step) => step.span_ns));
  const [least, most] = [Math.min(...lengths), Math.max(...lengths)];
  const margin = Math.max(1, 0.08 * (most - least), most === least ? 0.02 * most : 0);
  const [low, high] = [least - margin, most + margin];
  const height = RUNS.length * ROW + AXIS;
  /** @param {number} ns */
  const x = (ns) => LEFT + ((ns - low) / (high - low)) * (width - LEFT - RIGHT);
  const { step, values } = roundTicks(low, high, Math.max(2, Math.floor((width - LEFT - RIGHT) / 110)));
  return svgChart(width, height, "Lengths of the steps of both runs", [
    gridAcross(values, x, 0, height - AXIS, (value) => tickLabel(value, step, high - low)),
    RUNS.map((run, at) => row(found, pictures, run, ROW * at + ROW / 2, x)),
  ]);
}

/**
 * @param {Diff} found
 * @param {Pictures | null} pictures
 * @param {"before" | "after"} run
 * @param {number} y
 * @param {(ns: number) => number} x
 */
function row(found, pictures, run, y, x) {
  const { low_ns, high_ns, median_ns, steps } = found[run];
  const drawn = pictures?.stepsOf(run) ?? [];
  return [
    svg("text", { x: LEFT - 10, y, "text-anchor": "end", "dominant-baseline": "central", text: run }),
    svgRect("spread", x(low_ns), y - 14, Math.max(1, x(high_ns) - x(low_ns)), 28),
    steps.map(({ step, span_ns }, nth) => {
      const at = step === null ? -1 : drawn.indexOf(step);
      const where = y + (((nth * 5) % 7) - 3) * 3; // so that steps of one length do not hide each other
      return svg(
        "circle",
        {
          class: `step-dot ${run}${at < 0 ? "" : " drawn"}`,
          cx: x(span_ns),
          cy: where,
          r: 4,
          data: { ns: span_ns },
          on: at < 0 ? {} : { click: () => pictures?.show({ [run]: at }) },
        },
        svg("title", { text: `step ${step ?? "–"}: ${duration(span_ns, 4)}` }),
      );
    }),
    svgLine("spread-median", x(median_ns), y - 18, x(median_ns), y + 18),
  ];
}
