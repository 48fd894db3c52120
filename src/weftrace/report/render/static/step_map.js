// Which rank in which step? Ranks down, steps across, one number at a time: what a rank adds to a step by the job's
// replay, with whom waiting began, lateness caused and suffered, or what the step was made of.

import { byId } from "render/dom.js";
import { rankSteps } from "render/rank_steps.js";
import { originMeasure } from "render/slowdown.js";

/**
 * @typedef {import("./job.js").Job} Job
 * @typedef {import("./job.js").JobRank} JobRank
 * @typedef {import("render/rank_steps.js").Measure} Measure
 */

const OF_STEPS = /** @type {const} */ ([
  ["span_ns", "span", "How long the step takes on each rank.", "compute", true],
  ["idle_ns", "idle", "How long nothing ran during the step.", "idle", false],
  ["exposed_communication_ns", "exposed", "Communication that no computation hides.", "exposed", false],
]);
const OF_LATENESS = /** @type {const} */ ([
  ["origin_ns", "caused waiting", "Waiting of all ranks in collectives that this rank caused."],
  ["caused_ns", "late by", "How much later than the others the rank entered the collectives that it entered last."],
  ["suffered_ns", "waited for others", "How long the rank waited in its collectives for the last rank."],
]);

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
  const grid = rankSteps(
    { map: byId("step-map"), legend: byId("step-legend"), told: byId("step-told"), choices: byId("step-choices") },
    {
      ranks: job.ranks.map(({ name }) => name),
      steps: steps.map(String),
      measures,
      onOpen: (row, column) => onOpen(job.ranks[row], windowOf(job.ranks[row], steps[column])),
    },
  );
  return { grid, steps };
}

/**
 * The steps that any rank has, in order.
 * @param {Job} job
 */
function stepsOf({ ranks, lateness, slowdown }) {
  const found = new Set(ranks.flatMap(({ rank }) => rank.steps.map(({ step }) => step)));
  for (const { step } of lateness?.steps ?? []) found.add(step);
  for (const { step } of slowdown?.steps ?? []) if (step !== null) found.add(step);
  return [...found].sort((a, b) => a - b);
}

/**
 * The one by replay stands first, unless the replay is not to be trusted.
 * @param {Job} job
 * @param {number[]} steps
 * @returns {Measure[]}
 */
function measuresOf({ ranks, lateness, slowdown }, steps) {
  const late = new Map((lateness?.steps ?? []).map((row) => [row.step, row]));
  const own = ranks.map(({ rank }) => new Map(rank.steps.map((row) => [row.step, row])));
  /** @type {Measure[]} */
  const found = [];
  const replayed = slowdown && originMeasure(slowdown);
  if (replayed) {
    const at = new Map(slowdown.steps.map(({ step }, place) => [step, place]));
    const of = ranks.map(({ worker }) => steps.map((step) => replayed.of[worker]?.[at.get(step) ?? -1] ?? null));
    found.push({ ...replayed, of });
  }
  for (const [key, word, told] of OF_LATENESS) {
    if (!lateness?.steps.some((row) => row[key])) continue;
    const of = ranks.map((_, place) => steps.map((step) => late.get(step)?.[key]?.[place] ?? null));
    found.push({ key, word, told, role: "waiting", of });
  }
  if (replayed && !slowdown.is_trusted && found.length > 1) found.push(...found.splice(0, 1));
  if (!own.some((rows) => rows.size)) return found;
  for (const [key, word, told, role, fromLeast] of OF_STEPS) {
    const of = own.map((rows) => steps.map((step) => rows.get(step)?.[key] ?? null));
    found.push({ key, word, told, role, fromLeast, of });
  }
  return found;
}

/**
 * A step's window of a rank, on the job's clock.
 * @param {JobRank} member
 * @param {number} step
 * @returns {[number, number] | null}
 */
export function windowOf({ rank, shift }, step) {
  const row = rank.steps.find((each) => each.step === step);
  return row ? [shift + row.start_ns, shift + row.start_ns + row.span_ns] : null;
}
