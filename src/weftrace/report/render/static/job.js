// The job as one value: which ranks count, what they are called, where they lie on the common clock, and which of them
// to open first.

/**
 * @typedef {object} JobRank
 * @property {number} position in the report's ranks
 * @property {page.Rank} rank
 * @property {string} name
 * @property {number} shift its own start, from the job's, ns
 * @property {page.LateRank | null} late
 * @property {page.SlowRank | null} work how long it computes, against its peers
 *
 * @typedef {object} Job
 * @property {JobRank[]} ranks those that count, in the report's order; `lateness` names them by their place in it
 * @property {page.Lateness | null} lateness
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
  const counted = report.ranks.flatMap((rank, position) => (rank.apart === null ? [{ rank, position }] : []));
  const ranks = counted.map(({ rank, position }, place) => ({
    position,
    rank,
    name: lateness?.ranks[place]?.name ?? rankLabel(rank, report.ranks),
    shift: rank.shift_ns ?? 0,
    late: lateness?.ranks[place] ?? null,
    work: report.slow_work?.ranks[place] ?? null,
  }));
  if (ranks.filter(({ rank }) => rank.span_ns > 0).length < 2) return null;
  const { first, why } = firstToOpen(ranks, lateness);
  return {
    ranks,
    lateness,
    start: Math.min(...ranks.map(({ shift }) => shift)),
    end: Math.max(...ranks.map(({ shift, rank }) => shift + rank.span_ns)),
    first,
    why,
  };
}

/**
 * The rank that the headline names: the most late one; where none is told, one that computes longer than its peers, or
 * has the longest span.
 * @param {JobRank[]} ranks
 * @param {page.Lateness | null} lateness
 */
function firstToOpen(ranks, lateness) {
  const latest = ranks[lateness?.late ?? -1];
  if (latest) return { first: latest, why: "most late" };
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
