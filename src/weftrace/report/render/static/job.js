// The job as one value: which ranks count, what they are called, where they lie on the common clock, and which of them
// to open first.

import { worstOf } from "render/slowdown.js";

const WORTH_A_STEP = 0.01; // of a step at its peers' pace: what makes it longer by less is not told

/**
 * @typedef {object} JobRank
 * @property {number} position in the report's ranks
 * @property {page.Rank} rank
 * @property {string} name
 * @property {number} shift its own start, from the job's, ns
 * @property {page.LateRank | null} late
 * @property {page.SlowRank | null} work how long it computes, against its peers
 * @property {number} worker its place in `slowdown.workers`, -1 for none
 *
 * @typedef {object} Job
 * @property {JobRank[]} ranks those that count, in the report's order; `lateness` names them by their place in it
 * @property {page.Lateness | null} lateness
 * @property {page.Slowdown | null} slowdown
 * @property {page.Cause | null} cause what costs the job most, where a rank's and told by a replay that can be trusted
 * @property {number} start
 * @property {number} end
 * @property {JobRank} first the one to open, and `why`
 * @property {string} why
 */

/**
 * The job of a report; null where there are no two ranks to hold against each other.
 * @param {page.Report} report
 * @returns {Job | null}
 */
export function jobOf(report) {
  const lateness = report.lateness ?? null;
  const slowdown = report.slowdown ?? null;
  const counted = report.ranks.flatMap((rank, position) => (rank.apart === null ? [{ rank, position }] : []));
  const ranks = counted.map(({ rank, position }, place) => {
    const name = lateness?.ranks[place]?.name ?? rankLabel(rank, report.ranks);
    return {
      position,
      rank,
      name,
      shift: rank.shift_ns ?? 0,
      late: lateness?.ranks[place] ?? null,
      work: report.slow_work?.ranks[place] ?? null,
      worker: workerOf(slowdown, rank, name),
    };
  });
  if (ranks.filter(({ rank }) => rank.span_ns > 0).length < 2) return null;
  const worst = worstOf(slowdown);
  const costly = worst && memberOf(slowdown, ranks, worst.rank);
  const { first, why } = costly
    ? { first: costly, why: "costliest" }
    : firstToOpen(ranks, lateness, slowdown?.absent ?? "");
  return {
    ranks,
    lateness,
    slowdown,
    cause: costly ? worst.cause : null,
    start: Math.min(...ranks.map(({ shift }) => shift)),
    end: Math.max(...ranks.map(({ shift, rank }) => shift + rank.span_ns)),
    first,
    why,
  };
}

/**
 * Of each step that a rank makes longer by a hundredth at least, by a replay that can be trusted: the rank that does so
 * most, and by how much.
 * @param {Job} job
 * @returns {Map<number, { member: JobRank, longer: number }>}
 */
export function costliestOfSteps({ slowdown, ranks }) {
  const found = new Map();
  const members = ranks.filter(({ worker }) => worker >= 0);
  if (!isTold(slowdown) || !slowdown.origin_ns.length || !members.length) return found;
  slowdown.steps.forEach(({ step }, at) => {
    const member = most(members, ({ worker }) => slowdown.origin_ns[worker][at]);
    const longer = slowdown.origin_ns[member.worker][at];
    if (step !== null && longer >= WORTH_A_STEP * slowdown.ideal_ns) found.set(step, { member, longer });
  });
  return found;
}

/**
 * Who made others wait in a collective. In a pipeline, whose stages wait by nature while it fills and drains, that is
 * whoever makes its step longer; elsewhere whom most of the waiting began with.
 * @param {Job} job
 * @returns {(row: { step?: number | null, origin?: number | null }) => JobRank | null}
 */
export function originsOf(job) {
  const costliest = costliestOfSteps(job);
  const pipeline = isPipeline(job);
  return ({ step = null, origin = null }) => {
    if (pipeline && step !== null) return costliest.get(step)?.member ?? null;
    return origin === null ? null : (job.ranks[origin] ?? null);
  };
}

/**
 * Whether it has stages, by a replay that tells.
 * @param {Job} job
 */
export function isPipeline({ slowdown }) {
  return isTold(slowdown) && slowdown.stages.length > 0;
}

/**
 * Whether a replay tells who costs the job what.
 * @param {page.Slowdown | null} slowdown
 * @returns {slowdown is page.Slowdown}
 */
export function isTold(slowdown) {
  return Boolean(slowdown?.is_trusted && !slowdown.absent);
}

/**
 * Where a replay lists a rank: by its name, else by its number.
 * @param {page.Slowdown | null} slowdown
 * @param {page.Rank} rank
 * @param {string} name
 */
function workerOf(slowdown, rank, name) {
  const workers = slowdown?.workers ?? [];
  const named = workers.findIndex((worker) => worker.name === name);
  return named >= 0 ? named : workers.findIndex((worker) => worker.rank === rank.rank);
}

/**
 * The rank that a replay knows by a number.
 * @param {page.Slowdown | null} slowdown
 * @param {JobRank[]} ranks
 * @param {number} number
 */
export function memberOf(slowdown, ranks, number) {
  return ranks.find(({ worker }) => slowdown?.workers[worker]?.rank === number) ?? null;
}

/**
 * The rank that the headline names where no replay does: the most late one; where none is told, one that computes
 * longer than its peers, or has the longest span.
 * @param {JobRank[]} ranks
 * @param {page.Lateness | null} lateness
 * @param {string} absent which have no file
 */
function firstToOpen(ranks, lateness, absent) {
  const latest = ranks[lateness?.late ?? -1];
  if (latest) return { first: latest, why: absent ? "latest of the ranks with a file" : "latest" };
  const slow = ranks.filter(({ work }) => work?.is_slow);
  if (slow.length) return { first: most(slow, ({ work }) => work?.ratio ?? 0), why: "slowest to compute" };
  return { first: most(ranks, ({ rank }) => rank.span_ns), why: "longest span" };
}

/**
 * What a rank is called, unlike every other: with its device where one process drives several.
 * @param {page.Rank} rank
 * @param {page.Rank[]} ranks
 */
export function rankLabel(rank, ranks) {
  if (rank.name) return rank.name;
  const name = rank.rank === null || rank.rank === undefined ? rank.path : `rank ${rank.rank}`;
  const shared = ranks.filter((other) => other.rank === rank.rank).length > 1;
  return shared && rank.device !== null && rank.device !== undefined ? `${name} · GPU ${rank.device}` : name;
}

/**
 * The first of those with the largest value.
 * @template Item
 * @param {Item[]} items
 * @param {(item: Item) => number} value
 */
export function most(items, value) {
  return items.reduce((best, item) => (value(item) > value(best) ? item : best));
}
