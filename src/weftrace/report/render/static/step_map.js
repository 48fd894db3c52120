// Which rank was late in which step? Ranks down, steps across, one number at a time: lateness caused, suffered, or what
// the step was made of.

import { choiceButtons, byId, fill, h } from "render/dom.js";
import { duration, plural } from "render/format.js";
import { tipRows } from "render/tooltip.js";
import { heatGrid, ramp } from "./heat_grid.js";

/**
 * @typedef {import("./job.js").Job} Job
 * @typedef {import("./job.js").JobRank} JobRank
 *
 * What a map can show. of: its values, [rank][step], null where a rank has no such step; fromLeast: its scale begins at
 * the least value, for all are far from 0.
 * @typedef {object} Measure
 * @property {string} key
 * @property {string} word
 * @property {string} role
 * @property {boolean} [fromLeast]
 * @property {(number | null)[][]} of
 */

const OF_STEPS = /** @type {const} */ ([
  ["span_ns", "span", "compute", true],
  ["idle_ns", "idle", "idle", false],
  ["exposed_communication_ns", "exposed", "exposed", false],
]);
const OUTLIER = 2; // the largest value beyond so many times the 99th percentile: the scale ends at that one
const ALL_BUT = 0.99;

/**
 * The map in its section; none where there are no steps. onOpen(rank, window): a cell was chosen, and its step's window
 * on the job's clock.
 * @param {Job} job
 * @param {(rank: JobRank, window: [number, number] | null) => void} onOpen
 */
export function stepMap(job, onOpen) {
  const steps = stepsOf(job);
  const measures = measuresOf(job, steps);
  byId("job-steps").hidden = measures.length === 0 || steps.length === 0;
  if (!measures.length || !steps.length) return null;
  const names = job.ranks.map(({ name }) => name);
  let current = measures[0];
  const grid = heatGrid(byId("step-map"), "rank-steps", (row, column) =>
    onOpen(job.ranks[row], windowOf(job.ranks[row], steps[column])),
  );

  /** @param {Measure} measure */
  function show(measure) {
    current = measure;
    const { low, high, most } = scaleOf(measure);
    grid.show({
      rows: names,
      columns: steps.map(String),
      value: (row, column) => measure.of[row][column],
      low,
      high,
      role: measure.role,
      widest: 60,
      label: `${measure.word} of ${plural(names.length, "rank")} in ${plural(steps.length, "step")}`,
      tip,
      onPlaced: (rows, perColumn) => showLegend(measure, sharedWords(rows, perColumn, most > high ? most : null)),
      row: (row, column) => ({
        ...about(row, column),
        ...Object.fromEntries(measures.map(({ key, of }) => [key, of[row][column]])),
      }),
    });
    fill(
      byId("step-choices"),
      choiceButtons(
        measures,
        ({ word }) => word,
        (each) => each === current,
        show,
        ({ key }) => ({ measure: key }),
      ),
    );
  }

  /**
   * @param {Measure} measure
   * @param {string} words
   */
  function showLegend(measure, words) {
    const { low, high, most } = scaleOf(measure);
    const end = most > high ? `${duration(high)} and more` : duration(high);
    fill(
      byId("step-legend"),
      ramp(measure.role, [duration(low), duration((low + high) / 2), end]),
      h("span", { class: "muted", text: words }),
    );
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  function about(row, column) {
    return { rank: names[row], step: steps[column] };
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  function tip(row, column) {
    const lines = measures.map(({ word, of }) => {
      const value = of[row][column];
      return /** @type {[string, string]} */ ([word, value === null ? "–" : duration(value)]);
    });
    return tipRows(`${names[row]}, step ${steps[column]}`, null, [...lines, ["", "click: open it below"]]);
  }

  show(current);
  return { grid, steps };
}

/**
 * The steps that any rank has, in order.
 * @param {Job} job
 */
function stepsOf({ ranks, lateness }) {
  const found = new Set(ranks.flatMap(({ rank }) => rank.steps.map(({ step }) => step)));
  for (const { step } of lateness?.steps ?? []) found.add(step);
  return [...found].sort((a, b) => a - b);
}

/**
 * @param {Job} job
 * @param {number[]} steps
 * @returns {Measure[]}
 */
function measuresOf({ ranks, lateness }, steps) {
  const late = new Map((lateness?.steps ?? []).map((row) => [row.step, row]));
  const own = ranks.map(({ rank }) => new Map(rank.steps.map((row) => [row.step, row])));
  /** @type {Measure[]} */
  const found = [];
  if (late.size) {
    for (const [key, word] of /** @type {const} */ ([
      ["caused_ns", "lateness caused"],
      ["suffered_ns", "waited for others"],
    ])) {
      const of = ranks.map((_, place) => steps.map((step) => late.get(step)?.[key][place] ?? null));
      found.push({ key, word, role: "waiting", of });
    }
  }
  if (!own.some((rows) => rows.size)) return found;
  for (const [key, word, role, fromLeast] of OF_STEPS) {
    const of = own.map((rows) => steps.map((step) => rows.get(step)?.[key] ?? null));
    found.push({ key, word, role, fromLeast, of });
  }
  return found;
}

/** @param {Measure} measure */
function scaleOf({ of, fromLeast }) {
  const sorted = of
    .flat()
    .filter((value) => value !== null)
    .sort((a, b) => a - b);
  const most = sorted.at(-1) ?? 0;
  const usual = sorted[Math.ceil(ALL_BUT * sorted.length) - 1] ?? 0; // of few values, the largest
  return { low: fromLeast ? (sorted[0] ?? 0) : 0, high: usual > 0 && most > OUTLIER * usual ? usual : most, most };
}

/**
 * A step's window of a rank, on the job's clock.
 * @param {JobRank} member
 * @param {number} step
 * @returns {[number, number] | null}
 */
function windowOf({ rank, shift }, step) {
  const row = rank.steps.find((each) => each.step === step);
  return row ? [shift + row.start_ns, shift + row.start_ns + row.span_ns] : null;
}

/**
 * How many ranks and steps share a cell, where several do; and what is beyond the scale.
 * @param {number} rows
 * @param {number} columns
 * @param {number | null} most
 */
function sharedWords(rows, columns, most) {
  const parts = [rows > 1 ? plural(rows, "rank") : null, columns > 1 ? plural(columns, "step") : null].filter(Boolean);
  const shared = parts.length ? `A cell is ${parts.join(" by ")}, and shows the largest of them. ` : "";
  return `${shared}${most === null ? "" : `The largest is ${duration(most)}.`}`;
}
