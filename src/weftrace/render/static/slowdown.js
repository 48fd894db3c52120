// How much slower a job is than at its peers' pace: S, its cost, its causes, and the ranks, stages and types of
// operation that make it.

import { card } from "./cards.js";
import { actionButton, fill, h, showNotes } from "./dom.js";
import { count, duration, grouped, percent, plural, signed } from "./format.js";
import { shareBars, sortedColumns } from "./share_bars.js";
import { defined } from "./tooltip.js";

/**
 * @typedef {page.Slowdown} Slowdown
 * @typedef {page.Cause} Cause
 *
 * Opens a rank, by its number in the plan; null where there is nothing to open.
 * @typedef {((rank: number) => void) | null} OnRank
 */

const MOST_BARS = 8;
const MOST_CAUSES = 8;
const LITTLE = 0.0005; // of S: types of operation that add less are left out
const MUCH = 0.01; // of a job's time: a cause of less is not called its cause
/** What is said of numbers of ranks where others have no file. */
export const NEAR_ABSENT = "Ranks that wait for a rank without a file look slow themselves.";
const HOSTS_APART = 0.002;
/** @type {Record<Slowdown["types"][number]["pace"], string>} */
const PACES = { compute: "computation", transfer: "transfer", host: "host" };

/**
 * The rank that costs the job most, by a replay that can be trusted: its first cause, where that is a rank's.
 * @param {Slowdown | null} found
 * @returns {{ rank: number, cause: Cause } | null}
 */
export function worstOf(found) {
  if (!found?.is_trusted || found.absent) return null;
  const cause = found.causes.find(({ kind, share }) => kind !== "spread" && share >= MUCH);
  return cause?.ranks.length && found.slowdown >= 1 + MUCH ? { rank: cause.ranks[0], cause } : null;
}

/**
 * @param {HTMLElement} holder
 * @param {Slowdown} found
 * @param {OnRank} onRank
 */
export function showSlowdown(holder, found, onRank) {
  const notes = h("ul", { class: "notes muted" });
  showNotes(notes, found.notes);
  fill(
    holder,
    ...warnings(found),
    h("div", { class: "slowdown-head" }, summary(found), pace(found)),
    causes(found, onRank),
    h("div", { class: "columns even slowdown-parts" }, ranks(found, onRank), others(found)),
    notes,
  );
}

/** @param {Slowdown} found */
function warnings(found) {
  const { is_trusted: trusted, error, absent } = found;
  return [
    trusted
      ? null
      : h(
          "p",
          { class: "notice warn" },
          h("b", { text: "Not reliable: " }),
          `the replay with measured durations is ${percent(Math.abs(error))} ` +
            `${error < 0 ? "shorter" : "longer"} than the measured time. ` +
            "More than 3 % is too much for S and its causes.",
        ),
    absent
      ? h(
          "p",
          { class: "notice warn" },
          h("b", { text: "Incomplete job: " }),
          `${absent}. The cause of the slowdown may lie there. ${NEAR_ABSENT}`,
        )
      : null,
  ];
}

/** @param {Slowdown} found */
function summary(found) {
  const longer = `${percent(Math.abs(found.slowdown - 1))} ${found.slowdown < 1 ? "less" : "longer"}`;
  const { slowdown, without_hosts: bare, worst_share: share, num_worst: number } = found;
  const hosts = Math.abs(bare - slowdown) >= HOSTS_APART ? `; without time of hosts ${bare.toFixed(3)}` : "";
  const who =
    number === 1
      ? "the slowest rank at the pace of its peers"
      : `the slowest ${number} ranks at the pace of their peers`;
  return h(
    "div",
    { class: "cards" },
    card(
      "slowdown",
      "slowdown S",
      slowdown.toFixed(3),
      `a step takes ${longer} than at the pace of its peers${hosts}`,
      found.is_trusted ? "waiting" : "",
    ),
    card("slowdown_lost", "lost", ...lost(found)),
    card(
      "slowdown_worst",
      "slowest ranks, M_w",
      share === null ? "–" : percent(share, 0),
      share === null ? "there is no slowdown to explain" : `of the slowdown disappears with ${who}`,
    ),
  );
}

/**
 * @param {Slowdown} found
 * @returns {[value: string, note: string]}
 */
function lost({ lost_gpu_hours: hours, num_steps: steps, num_ranks: ranks, slowdown }) {
  const value = hours >= 0.1 ? `${grouped(hours, 2)} GPU h` : `${Number((3600 * hours).toPrecision(3))} GPU s`;
  return [value, `${percent(Math.max(0, 1 - 1 / slowdown))} of ${plural(steps, "step")} of ${plural(ranks, "rank")}`];
}

/**
 * A step as measured, replayed and ideal, on one scale.
 * @param {Slowdown} found
 */
function pace({ measured_ns: measured, replayed_ns: replayed, ideal_ns: ideal, error, is_trusted: trusted }) {
  const longest = Math.max(1, measured, replayed, ideal);
  /** @type {[key: string, word: string, ns: number, note: string][]} */
  const rows = [
    ["measured", "measured", measured, ""],
    ["replayed", "replayed", replayed, `${signed(error, 2)}${trusted ? "" : ", not reliable"}`],
    ["ideal", "at the pace of its peers", ideal, replayed > ideal ? `${duration(replayed - ideal)} less` : ""],
  ];
  return h(
    "div",
    { class: "pace" },
    h("h3", {}, defined("slowdown_replay", "A step, mean")),
    rows.map(([key, word, ns, note]) =>
      h(
        "div",
        { class: "pace-row", data: { pace: key, ns } },
        h("span", { class: "muted", text: word }),
        h(
          "span",
          { class: "pace-room" },
          h("i", { class: `pace-fill ${key}`, style: { width: `${(100 * ns) / longest}%` } }),
        ),
        h("b", { text: duration(ns) }),
        h("span", { class: trusted || key !== "replayed" ? "muted" : "red", text: note }),
      ),
    ),
  );
}

/**
 * @param {Slowdown} found
 * @param {OnRank} onRank
 */
function causes(found, onRank) {
  const names = namesOf(found);
  const most = Math.max(MUCH, ...found.causes.map(({ share }) => share));
  if (!found.causes.length) return h("p", { class: "slowdown-none", text: found.headline });
  return h(
    "div",
    {},
    h("h3", {}, defined("slowdown_cause", "Causes, and what repairing each one alone saves")),
    h(
      "ol",
      { class: "causes" },
      found.causes
        .slice(0, MOST_CAUSES)
        .map((cause) =>
          h(
            "li",
            { data: { cause: cause.kind, share: cause.share } },
            h(
              "div",
              { class: "cause-share" },
              h("b", { text: percent(Math.max(0, cause.share)) }),
              h(
                "span",
                { class: "cause-room" },
                h("i", { class: "cause-fill", style: { width: `${(100 * Math.max(0, cause.share)) / most}%` } }),
              ),
            ),
            h(
              "div",
              {},
              h("p", { text: cause.sentence }),
              h("p", { class: "cause-facts muted" }, h("b", { text: cause.kind }), ...causeFacts(cause, names, onRank)),
            ),
          ),
        ),
    ),
  );
}

/**
 * Whose a cause is, what each of them saves, and since when.
 * @param {Cause} cause
 * @param {Map<number, string>} names
 * @param {OnRank} onRank
 */
function causeFacts(cause, names, onRank) {
  const { ranks: whose, stages, saved_each_ns: each, first_step: since } = cause;
  const of = whose.length ? whose : stages;
  /** @param {number} at */
  const name = (at) => {
    const text = whose.length ? (names.get(whose[at]) ?? `rank ${whose[at]}`) : `stage ${stages[at]}`;
    const saves = of.length > 1 && each[at] !== undefined ? ` (alone ${duration(each[at])})` : "";
    if (!whose.length || !onRank) return h("span", { text: text + saves });
    return h(
      "span",
      {},
      actionButton(text, () => onRank(whose[at]), { class: "link" }),
      saves,
    );
  };
  const shown = of.slice(0, MOST_BARS).map((_, at) => name(at));
  const left = of.length - shown.length;
  return [
    h("span", {}, "whose: ", ...(shown.length ? joined(shown) : ["many"]), left > 0 ? ` and ${left} more` : null),
    h("span", { text: `saves ${duration(Math.max(0, cause.saved_ns))} per step` }),
    since === null ? h("span", { text: "in all steps" }) : h("span", { text: `since step ${since}` }),
  ];
}

/**
 * @param {Node[]} nodes
 * @returns {(Node | string)[]}
 */
function joined(nodes) {
  return nodes.flatMap((node, at) => (at ? [", ", node] : [node]));
}

/** @param {number | null} ns */
function saving(ns) {
  return ns === null ? "" : `; alone at the pace of its peers it saves ${duration(Math.max(0, ns))} per step`;
}

/**
 * @param {Slowdown} found
 * @param {OnRank} onRank
 */
function ranks(found, onRank) {
  const bars = [...found.workers]
    .sort((a, b) => b.slowdown - a.slowdown)
    .map((row) => ({
      name: row.name,
      value: row.slowdown - 1,
      isBound: row.is_bound,
      note: `computes ${row.compute_ratio.toFixed(2)}×`,
      title:
        `S_w ${row.is_bound ? "at most " : ""}${row.slowdown.toFixed(4)}; ` +
        `computes ${row.compute_ratio.toFixed(3)} times as long as its peers${saving(row.saved_ns)}`,
      onPick: onRank && (() => onRank(row.rank)),
    }));
  const all = h("div", { class: "chart-box" });
  if (bars.length > MOST_BARS) sortedColumns(all, bars, "rank");
  const bound = bars.some(({ isBound }) => isBound);
  return h(
    "div",
    {},
    h("h3", {}, defined("slowdown_rank", "What each rank alone adds to a step, S_w\u00a0−\u00a01")),
    shareBars("ranks", bars.slice(0, MOST_BARS)),
    bound
      ? h("p", {
          class: "muted share-foot",
          text:
            "≤: at most. Not every rank was replayed alone, only the ranks at one place and the " +
            "ranks of one stage together.",
        })
      : null,
    all,
  );
}

/** @param {Slowdown} found */
function others(found) {
  const stages = found.stages.map((row) => ({
    name: `stage ${row.stage}`,
    value: row.slowdown - 1,
    note: `computes ${row.ratio.toFixed(2)}×`,
    title:
      `S_s ${row.slowdown.toFixed(4)}; computes ${row.ratio.toFixed(3)} times the mean of the stages` +
      saving(row.saved_ns),
  }));
  const worth = found.types.filter(({ slowdown }) => slowdown - 1 >= LITTLE);
  const types = (worth.length ? worth : found.types.slice(0, 1)).slice(0, MOST_BARS).map((row) => ({
    name: row.type,
    value: row.slowdown - 1,
    note: `${PACES[row.pace]}, ${duration(row.time_ns)}`,
    title: `${row.type}: S_t ${row.slowdown.toFixed(4)}; ${duration(row.time_ns)} per step and rank`,
  }));
  const left = found.types.length - types.length;
  return h(
    "div",
    {},
    stages.length ? h("h3", {}, defined("slowdown_stage", "What each stage alone adds, S_s\u00a0−\u00a01")) : null,
    stages.length ? shareBars("stages", stages) : null,
    types.length
      ? h("h3", {}, defined("slowdown_type", "What each type of operation alone adds, S_t\u00a0−\u00a01"))
      : null,
    types.length ? shareBars("types", types) : null,
    left > 0
      ? h("p", { class: "muted share-foot", text: `${count(left)} more add less than ${percent(LITTLE, 2)} each.` })
      : null,
  );
}

/**
 * What ranks are called, by their number in the plan.
 * @param {Slowdown} found
 */
function namesOf({ workers }) {
  return new Map(workers.map(({ rank, name }) => [rank, name]));
}

/**
 * By how much each rank makes each step longer, as a map of ranks by steps shows it; null where it is not known, or no
 * step has a name.
 * @param {Slowdown} found
 * @returns {import("./rank_steps.js").Measure | null}
 */
export function originMeasure({ origin_ns: origin, steps, ideal_ns: ideal, absent }) {
  if (!origin.length || steps.every(({ step }) => step === null)) return null;
  return {
    key: "longer_ns",
    word: "makes the step longer",
    told:
      "Dark: this rank alone makes the step that much longer (all others at the pace of their peers). " +
      `Ranks that only wait for it stay pale.${absent ? ` ${NEAR_ABSENT}` : ""}`,
    role: "waiting",
    toMost: MUCH * ideal,
    of: origin.map((row) => [...row]),
  };
}
