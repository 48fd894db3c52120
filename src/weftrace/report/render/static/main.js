// The page about a trace: reads the report, and shows one rank at a time.

import { showConfiguration } from "render/configuration.js";
import { byId } from "render/dom.js";
import { lanePicture } from "render/lanes.js";
import { showSlowdown } from "render/slowdown.js";
import { startPage } from "render/start.js";
import { onTheme } from "render/theme.js";
import { accounts, breakdown } from "./account.js";
import { showAdvice } from "./advice.js";
import { showBandwidth } from "./bandwidth.js";
import { showCode } from "./code.js";
import { readTimeline, withDetails } from "./data.js";
import { showCritical } from "./critical.js";
import { dock } from "./dock.js";
import { showEfficiency } from "./efficiency.js";
import { keepInFragment } from "./fragment.js";
import { jobOf, memberOf } from "./job.js";
import { showJobSummary } from "./job_summary.js";
import { jobTimeline } from "./job_timeline.js";
import { showBox, showEvent, showGap, showRange } from "./inspector.js";
import { showKernels } from "./kernels.js";
import { showMatrix } from "./matrix.js";
import { startPerfetto } from "./perfetto.js";
import { showMemory } from "./memory.js";
import { showPhases } from "./phases.js";
import { showQuality } from "./quality.js";
import { showRankTables } from "./rank_tables.js";
import { rankTable } from "./ranks.js";
import { stepMap } from "./step_map.js";
import { showSteps } from "./steps.js";
import { showOpened, showSummary } from "./summary.js";
import { timelineView } from "./timeline.js";
import { showWaits } from "./waits.js";
import { whoWaits } from "./who_waits.js";

const FIND_CHARS = 60; // of a kernel's name: enough to tell it apart, short enough to read in the search box

startPage("weftrace-report", (/** @type {page.ReportBlock} */ report) => {
  const read = withDetails(report);
  /** @type {Map<number, import("./data.js").Timeline | null>} Read when a rank is first shown. */
  const timelines = new Map();
  let current = 0;
  let changed = () => {}; // what is seen; the address follows once the page has started

  const answers = dock(() => {
    timeline.clear();
    timeline.range(null);
    pickBox(null);
  });
  const timeline = timelineView({
    onView: (view) => {
      lanes.mark(view.length < 0.98 * (view.home[1] - view.home[0]) ? [view.start, view.end] : null);
      changed();
    },
    onEvent: (data, event) => {
      if (event >= 0) pickBox(null);
      showEvent(answers, data, event, timelineSelect, report.ranks[current]);
      changed();
    },
    onGap: (data, gap) => {
      if (gap >= 0) pickBox(null);
      showGap(answers, data, gap, timelineSelect, () => timeline.gap(-1));
    },
    onRange: (data, range) => {
      showRange(answers, data, range, () => timeline.range(null));
      lanes.range(range);
      changed();
    },
  });
  const lanes = lanePicture({
    accounts,
    onBox: (box) => {
      const around = 0.08 * (box.end_ns - box.start_ns);
      timeline.zoomTo(box.start_ns - around, box.end_ns + around);
      timeline.clear();
      pickBox(box);
    },
    onRange: (from, to, finished) => timeline.range(from, to, finished),
  });
  const job = jobOf(report);
  const overview = job && jobOverview(job);
  showBandwidth(report, job !== null);
  const first = job?.first.position ?? 0; // the rank that is open where nobody has chosen
  const chosen = rankTable(report, job, showRank);

  /** @param {import("render/boxes.js").Box | null} box */
  function pickBox(box) {
    showBox(answers, data() ?? null, box, report.ranks[current], () => pickBox(null));
  }

  /** @param {number} event */
  function timelineSelect(event) {
    if (event < 0) timeline.clear();
    else timeline.select(event);
  }

  /** @param {number} position */
  function showRank(position) {
    current = position;
    pickBox(null);
    const rank = report.ranks[position];
    const shown = timelines.get(position) ?? readTimeline(position);
    timelines.set(position, shown);
    chosen(position);
    overview?.timeline.open(position);
    showOpened(report, job, position);
    showSummary(report, rank);
    showConfiguration(rank.configuration);
    lanes.show(rank, shown);
    timeline.show(rank, shown);
    showMatrix(rank);
    showCode(rank);
    showEfficiency(rank);
    showCritical(position);
    showKernels(rank, findInTimeline);
    showPhases(rank);
    showWaits(rank);
    showRankTables(rank);
    showMemory(rank);
    showSteps(rank);
    showQuality(rank);
  }

  /**
   * What is told of all ranks together, above the one that is open.
   * @param {import("./job.js").Job} of
   */
  function jobOverview(of) {
    for (const id of ["job", "late"]) byId(id).hidden = false;
    showJobSummary(report, of);
    byId("slowdown").hidden = !of.slowdown;
    if (of.slowdown) {
      showSlowdown(byId("slowdown-body"), of.slowdown, (rank) => {
        const member = memberOf(of.slowdown, of.ranks, rank);
        if (member) open(member, null);
      });
    }
    const ranks = jobTimeline(of, open);
    ranks.view.onChange(() => changed());
    const zoom = (/** @type {number} */ from, /** @type {number} */ to) => {
      ranks.zoomTo(from, to);
      byId("job").scrollIntoView({ block: "start" });
    };
    const steps = stepMap(of, open);
    const pairs = whoWaits(of, { onOpen: open, onZoom: zoom });
    byId("late").hidden = ["job-steps", "job-waits", "job-collectives"].every((id) => byId(id).hidden);
    return { timeline: ranks, steps, pairs };
  }

  /**
   * Opens a rank below, its pictures at a window of the job's time; at its whole span without one.
   * @param {import("./job.js").JobRank} member
   * @param {[number, number] | null} window
   */
  function open({ position, shift }, window) {
    showRank(position);
    if (window) {
      const [from, to] = window.map((time) => time - shift);
      timeline.view.set(from, to);
      lanes.view.set(from, to);
    }
    byId("opened").scrollIntoView({ block: "start" });
  }

  /**
   * Shows a stretch of a rank in its timeline, with some of what is around it.
   * @param {number} position
   * @param {number} start ns from the rank's start
   * @param {number} end
   */
  function openAt(position, start, end) {
    if (position !== current) showRank(position);
    const around = Math.max(10_000, 0.5 * (end - start));
    timeline.zoomTo(start - around, end + around);
    timeline.range(start, end, true);
    byId("timeline").scrollIntoView({ block: "start" });
    changed();
  }

  /** @param {string} name */
  function findInTimeline(name) {
    timeline.find(name.slice(0, FIND_CHARS));
    changed();
    byId("timeline").scrollIntoView({ block: "start" });
  }

  const data = () => timelines.get(current);

  /** What the address is to say: nothing of what is as the page opens. */
  function seen() {
    const { selected, range } = timeline.stats();
    return {
      all: overview ? partOf(overview.timeline.view) : undefined,
      rank: current === first ? undefined : current,
      view: data()?.num ? partOf(timeline.view) : undefined,
      range: range ?? undefined,
      event: selected < 0 ? undefined : selected,
      find: byId("search", HTMLInputElement).value,
    };
  }

  /** @param {import("./fragment.js").State} state */
  function showSeen({ all, rank = first, view, range, event = -1, find = "" }) {
    if (!report.ranks[rank]) return;
    if (rank !== current) showRank(rank);
    timeline.find(find);
    if (event >= 0 && event < (data()?.num ?? 0)) timeline.select(event);
    else timeline.clear();
    if (range) timeline.range(...range, true);
    else timeline.range(null);
    timeline.view.hold(); // the selection may be gliding into view
    timeline.view.set(...(view ?? timeline.view.home));
    overview?.timeline.view.set(...(all ?? overview.timeline.view.home));
  }

  showAdvice(report, openAt);
  onTheme(() => {
    if (report.ranks.length) showMatrix(report.ranks[current]);
  });
  if (report.ranks.length) {
    showRank(first);
    changed = keepInFragment(seen, showSeen);
    byId("search").addEventListener("input", () => changed());
    const rank = () => report.ranks[current];
    startPerfetto(data, rank, () => `${report.source}, rank ${report.ranks[current].rank ?? current}`);
  } else {
    document.body.classList.add("no-ranks");
    byId("basis").hidden = false;
    byId("basis").textContent = "No rank's file could be read.";
  }
  return {
    report,
    job: overview,
    lanes,
    timeline,
    rank: () => current,
    data,
    read,
    breakdown: (/** @type {number} */ from, /** @type {number} */ to) => {
      const held = data();
      return held && breakdown(held, from, to);
    },
  };
});

/**
 * What a picture shows, where that is not all it has.
 * @param {import("render/viewport.js").Viewport} view
 * @returns {[number, number] | undefined}
 */
function partOf({ start, end, home }) {
  return start === home[0] && end === home[1] ? undefined : [start, end];
}
