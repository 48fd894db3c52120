// The first screen of a job: where the time of all its ranks went, and who was late. Shares and times as the headline
// has them: over the same ranks, and to the same digit.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { percent, plural, sentence } from "render/format.js";
import { most } from "./job.js";
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
  const told = ranksOfHeadline(job);
  const sum = Object.fromEntries(SUMMED.map((key) => [key, told.reduce((all, { rank }) => all + rank[key], 0)]));
  const left = report.ranks.length - told.length;
  const facts = [
    `${plural(told.length, "rank")}${report.world_size ? ` of ${report.world_size}` : ""}`,
    left ? `${left} not counted` : null,
    report.failures.length ? `${plural(report.failures.length, "file")} not read` : null,
    told[0].rank.device_name || null,
    told[0].rank.simulated ? "simulated" : "measured",
    report.source,
  ];
  byId("job-summary").hidden = false;
  byId("job-facts").textContent = facts.filter(Boolean).join(" · ");
  const parts = partsOf(/** @type {page.Rank} */ (/** @type {unknown} */ (sum)));
  fill(
    byId("job-account"),
    stackedBar(parts),
    h("div", { class: "account-foot" }, partsList(parts), sumLine(parts)),
    h("p", { class: "muted", text: `Sums over ${plural(told.length, "rank")}.` }),
  );
  fill(byId("job-cards"), cards(job, told, sum));
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
 * @param {Job} job
 * @param {Job["ranks"]} told
 * @param {Record<string, number>} sum
 */
function cards({ lateness, first }, told, sum) {
  const longest = most(told, ({ rank }) => rank.span_ns);
  const mean = sum.span_ns / told.length;
  const suffered = lateness?.ranks.reduce((all, { suffered_ns }) => all + suffered_ns, 0) ?? 0;
  const begun = first.late?.origin_ns ?? 0;
  /** @param {number} ns */
  const share = (ns) => percent(ns / sum.span_ns);
  return [
    card("job_span", "mean span", sentence(mean), `longest ${sentence(longest.rank.span_ns)}, ${longest.name}`),
    card("job_idle", "idle", share(sum.idle_ns), `of the time of all ranks, ${sentence(sum.idle_ns)} in all`),
    card(
      "job_exposed",
      "exposed",
      sum.communication_ns ? share(sum.exposed_communication_ns) : "–",
      sum.communication_ns
        ? `of the time of all ranks, ${sentence(sum.exposed_communication_ns)} in all`
        : "no communication in these traces",
      "exposed",
    ),
    lateness
      ? card(
          "suffered",
          "waiting for late ranks",
          sentence(suffered),
          `${share(suffered)} of the time of all ranks, within communication`,
          "waiting",
        )
      : null,
    lateness
      ? card(
          "origin",
          "most late",
          begun ? first.name : "none",
          begun ? `${sentence(begun)} of the others' waiting began with it` : "no rank waited for another",
        )
      : null,
  ];
}
