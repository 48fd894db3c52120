// The first screen of a job: where the time of all its ranks went, and who was late. Shares and times as the headline
// has them: over the same ranks, and to the same digit.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { count, duration, percent, plural } from "render/format.js";
import { isTold, most } from "./job.js";
import { partsList, partsOf, stackedBar, sumLine } from "./parts.js";

/**
 * @typedef {import("./job.js").Job} Job
 */

const SUMMED = /** @type {const} */ ([
  "span_ns",
  "compute_ns",
  "exposed_communication_ns",
  "exposed_memory_ns",
  "idle_ns",
  "communication_ns",
]);

/**
 * @param {page.Report} report
 * @param {Job} job
 */
export function showJobSummary(report, job) {
  const counted = ranksOfHeadline(job);
  const sum = Object.fromEntries(SUMMED.map((key) => [key, counted.reduce((all, { rank }) => all + rank[key], 0)]));
  const left = report.ranks.length - counted.length;
  const facts = [
    `${plural(counted.length, "rank")}${report.world_size ? ` of ${report.world_size}` : ""}`,
    left ? `${left} not counted` : null,
    report.failures.length ? `${plural(report.failures.length, "file")} not read` : null,
    counted[0].rank.device_name || null,
    counted[0].rank.simulated ? "simulated" : "measured",
    report.source,
  ];
  byId("job-summary").hidden = false;
  byId("job-facts").textContent = facts.filter(Boolean).join(" · ");
  const whole = { ...sum, idle_account: { unrecorded_ns: unrecordedOf(counted) } };
  const parts = partsOf(/** @type {page.Rank} */ (/** @type {unknown} */ (whole)));
  fill(
    byId("job-account"),
    stackedBar(parts),
    h("div", { class: "account-foot" }, partsList(parts), sumLine(parts)),
    h("p", { class: "muted", text: `Sums over ${plural(counted.length, "rank")}.` }),
  );
  fill(byId("job-cards"), cards(job, counted, sum));
}

/**
 * The ranks that the headline sums up: those with device work; where there is none, those that the host tells of.
 * @param {Job} job
 */
function ranksOfHeadline({ ranks }) {
  const worked = ranks.filter(({ rank }) => rank.span_ns > 0);
  const device = worked.filter(({ rank }) => rank.basis === "device" || rank.basis === "ranges");
  return device.length ? device : worked;
}

/**
 * Time that looks idle, and in which work ran that the files lack.
 * @param {Job["ranks"]} counted
 */
function unrecordedOf(counted) {
  return counted.reduce((all, { rank }) => all + (rank.idle_account?.unrecorded_ns ?? 0), 0);
}

/**
 * @param {Job} job
 * @param {Job["ranks"]} counted
 * @param {Record<string, number>} sum
 */
function cards(job, counted, sum) {
  const { lateness } = job;
  const longest = most(counted, ({ rank }) => rank.span_ns);
  /** @type {(ns: number) => [string, string]} */
  const share = (ns) => [percent(ns / sum.span_ns), `of the time of all ranks, ${duration(ns)} in all`];
  const mean = duration(sum.span_ns / counted.length);
  /** @type {[string, string]} */
  const exposed = sum.communication_ns
    ? share(sum.exposed_communication_ns)
    : ["–", "no communication in these traces"];
  const unrecorded = unrecordedOf(counted);
  const [idle, ofAll] = share(sum.idle_ns);
  return [
    card("job_span", "mean span", mean, `longest ${duration(longest.rank.span_ns)}, ${longest.name}`),
    card("job_idle", "idle", idle, `${ofAll}${unrecorded ? `; ${duration(unrecorded)} of it unrecorded` : ""}`),
    card("job_exposed", "exposed", ...exposed, "exposed"),
    ...(lateness ? lateCards(job, lateness, sum.span_ns) : []),
  ];
}

/**
 * How much the ranks waited for each other, and for whom most.
 * @param {Job} job
 * @param {page.Lateness} lateness
 * @param {number} span of all of them
 */
function lateCards(job, lateness, span) {
  const { ranks, slowdown } = job;
  const costly = costlyCard(job);
  const absent = slowdown?.absent;
  const waited = lateness.ranks.reduce((all, { suffered_ns }) => all + suffered_ns, 0);
  const note = `of the time of all ranks, ${duration(waited)} in all`;
  const late = lateness.ranks[lateness.late ?? -1];
  const who = late ? latePart(late, ranks[lateness.late ?? 0].rank.span_ns, lateness.ranks.length, span) : null;
  return [
    card("suffered", "waiting for late ranks", percent(waited / span), note, "waiting"),
    costly ??
      card(
        "origin",
        absent ? "latest of the ranks with a file" : "latest",
        late?.name ?? "none",
        who ?? "no rank stands out",
      ),
  ];
}

/**
 * Who costs the job most by its replay; null where no replay tells.
 * @param {Job} job
 */
function costlyCard({ slowdown, cause, first }) {
  if (!isTold(slowdown)) return null;
  const each =
    cause && `at the pace of its peers a step is ${duration(cause.saved_ns)} shorter (${percent(cause.share)})`;
  const note = each ?? "no single rank is a cause";
  return card("slowdown_rank", "highest cost", cause ? first.name : "no rank", note);
}

/**
 * What a late rank cost the others, as the headline says it of one that stands out.
 * @param {page.LateRank} late
 * @param {number} own its span
 * @param {number} number of ranks
 * @param {number} span of all of them
 */
function latePart(late, own, number, span) {
  const each = duration(late.origin_ns / (number - 1));
  const whom = number === 2 ? `the other waits ${each}` : `the others wait ${each} each`;
  const share = percent(late.origin_ns / (span - own));
  const last = `${count(late.num_last)} of ${count(late.num_matched)}`;
  return `${whom} for it, ${share} of their time; last to enter ${last} collectives`;
}
