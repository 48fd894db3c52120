// The first screen: where the time of a rank went, and the six numbers that say how well communication is hidden.

import { card } from "render/cards.js";
import { byId, fill, h } from "render/dom.js";
import { duration, percent, plural, withoutFolders } from "render/format.js";
import { rankLabel } from "./job.js";
import { communicationBar, partsList, partsOf, stackedBar, sumLine } from "./parts.js";

/** @type {Record<string, string>} */
const BASIS = {
  host:
    "This file holds no device events, so the times are of host operators, " +
    "and overlap with kernels cannot be seen.",
  ranges:
    "This file is a plain Chrome trace: each range counts as work and each thread as a stream. The " +
    "notes in “Data quality” list what else was inferred.",
  none: "This file holds no device events and no host operators, so there is nothing to report.",
};
/** @type {Record<string, [event: string, line: string]>} What is counted, and what it runs on. */
const COUNTED = {
  device: ["device event", "stream"],
  host: ["host operator", "thread"],
  ranges: ["range", "thread"],
};
/** @type {Record<string, string>} */
const VERDICTS = { good: "Data: good", usable: "Data: usable, with gaps", doubtful: "Data: doubtful" };

/**
 * Which rank all below is about, and why it was opened: of a job, so that nobody takes it for the whole.
 * @param {page.Report} report
 * @param {import("./job.js").Job | null} job
 * @param {number} position
 */
export function showOpened(report, job, position) {
  const several = report.ranks.length > 1;
  byId("opened").className = `hero ${several ? "of-many" : "one"}`;
  byId("opened-head").hidden = !several;
  const member = job?.ranks.find((each) => each.position === position);
  const name = member?.name ?? rankLabel(report.ranks[position], report.ranks);
  byId("opened-name").textContent = name.replace(/^rank /, "Rank ");
  const first = job?.first.position === position;
  byId("opened-why").hidden = !first && report.ranks[position].apart === null;
  byId("opened-why").textContent = first ? `details: the ${job.why}` : "not counted in the job";
}

/**
 * @param {page.Report} report
 * @param {page.Rank} rank
 */
export function showSummary(report, rank) {
  const world = report.world_size ? ` of ${report.world_size}` : "";
  const facts = [
    rank.rank === null ? null : `rank ${rank.rank}${world}`,
    rank.device_name,
    rank.num_sms ? `${rank.num_sms} ${rank.sm_unit}` : null,
    rank.step === null ? null : `profiler step ${rank.step}${rank.step_by === "launch" ? ", what it launched" : ""}`,
    rank.simulated ? "simulated" : "measured",
    withoutFolders(rank.path),
  ].filter(Boolean);
  const verdict = rank.quality.verdict;
  fill(
    byId("facts"),
    h("span", { text: facts.join(" · ") }),
    h("a", { class: `verdict ${verdict}`, href: "#quality", text: VERDICTS[verdict] ?? verdict }),
  );
  const basis = byId("basis");
  basis.hidden = !BASIS[rank.basis];
  basis.textContent = BASIS[rank.basis] ?? "";
  const empty = !rank.span_ns;
  byId("account").hidden = empty;
  if (empty) {
    fill(byId("cards"));
    return;
  }
  const parts = partsOf(rank);
  fill(
    byId("account"),
    stackedBar(parts),
    rank.communication_ns > 0 ? communicationBar(parts) : null,
    h("div", { class: "account-foot" }, partsList(parts), sumLine(parts)),
  );
  fill(byId("cards"), cards(rank));
}

/** @param {page.Rank} rank */
function cards(rank) {
  /** @param {number} ns */
  const share = (ns) => `${percent(ns / rank.span_ns)} of the span`;
  const comm = rank.communication_ns > 0;
  const { headroom_ns: saved, bound_by } = rank.headroom;
  const [event, line] = COUNTED[rank.basis] ?? COUNTED.device;
  const onDevice = rank.basis === "device";
  const num = rank.streams.reduce((sum, stream) => sum + stream.num_events, 0);
  const none = "no communication in this trace";
  const hidden = `${duration(rank.hidden_communication_ns)} of ${duration(rank.communication_ns)} communication`;
  const exposed = `${share(rank.exposed_communication_ns)}${onDevice ? " waits for the network" : ""}`;
  const { unrecorded, idle: idleNs } = partsOf(rank);
  const besides = unrecorded ? `; ${duration(unrecorded)} more are unrecorded` : "";
  const idle = `${share(idleNs)}, ${onDevice ? "nothing runs" : `no ${event} was recorded`}${besides}`;
  const fused = `${share(rank.fused_ns)}, counted as compute`;
  const speedup = rank.overlap_speedup === null ? "–" : `${rank.overlap_speedup.toFixed(2)}×`;
  const work = `${duration(rank.serial_ns)} of work in ${duration(rank.busy_ns)}`;
  const bound = `${share(saved)}, by overlap alone, with idle time filled; ${boundWords(bound_by)}`;
  return [
    card("span", "span", duration(rank.span_ns), `${plural(num, event)} on ${plural(rank.streams.length, line)}`),
    rank.fused_ns > 0 ? card("fused", "fused", duration(rank.fused_ns), fused) : null,
    card("hidden", "hidden", percent(rank.hidden_fraction), comm ? hidden : none, "hidden"),
    card("exposed", "exposed", comm ? duration(rank.exposed_communication_ns) : "–", comm ? exposed : none, "exposed"),
    card("idle", "idle", duration(idleNs), idle),
    card("overlap_speedup", "overlap speed-up", speedup, work),
    card("headroom", "headroom", duration(saved), bound),
  ];
}

/**
 * What an ideally overlapped step is bound by. Communication as it was measured is no bound: it waits for other ranks
 * inside its kernels.
 * @param {string} by
 */
export function boundWords(by) {
  return by === "communication"
    ? "communication as measured, including waits for other ranks, so it is no bound"
    : `bound by ${by === "chain" ? "the longest chain" : by}`;
}
