// The page about a trace: reads the report, and shows one rank at a time.

import { byId } from "render/dom.js";
import { lanePicture } from "render/lanes.js";
import { startPage } from "render/start.js";
import { onTheme } from "render/theme.js";
import { accounts, breakdown } from "./account.js";
import { readTimeline } from "./data.js";
import { showEvent, showRange } from "./inspector.js";
import { showKernels } from "./kernels.js";
import { showMatrix } from "./matrix.js";
import { showPhases } from "./phases.js";
import { showQuality } from "./quality.js";
import { rankTable } from "./ranks.js";
import { showSteps } from "./steps.js";
import { showSummary } from "./summary.js";
import { timelineView } from "./timeline.js";
import { showWaits } from "./waits.js";

const FIND_CHARS = 60; // of a kernel's name: enough to tell it apart, short enough to read in the search box

startPage("weftrace-report", (/** @type {page.Report} */ report) => {
  /** @type {Map<number, import("./data.js").Timeline | null>} Read when a rank is first shown. */
  const timelines = new Map();
  let current = 0;

  const timeline = timelineView({
    onView: (view) => lanes.mark(view.length < 0.98 * (view.home[1] - view.home[0]) ? [view.start, view.end] : null),
    onEvent: (data, event) => showEvent(data, event, timelineSelect, report.ranks[current]),
    onRange: (data, range) => {
      showRange(data, range, () => timeline.range(null));
      lanes.range(range);
    },
  });
  const lanes = lanePicture({
    accounts,
    onBox: (box) => {
      const around = 0.08 * (box.end_ns - box.start_ns);
      timeline.zoomTo(box.start_ns - around, box.end_ns + around);
      // Both pictures on the screen: the box, and what it opened.
      const below = byId("timeline-frame").getBoundingClientRect().top > innerHeight - 250;
      if (below) byId("lanes").scrollIntoView({ block: "start" });
    },
    onRange: (from, to, finished) => timeline.range(from, to, finished),
  });
  const chosen = rankTable(report, showRank);

  /** @param {number} event */
  function timelineSelect(event) {
    if (event < 0) timeline.clear();
    else timeline.select(event);
  }

  /** @param {number} position */
  function showRank(position) {
    current = position;
    const rank = report.ranks[position];
    const shown = timelines.get(position) ?? readTimeline(position);
    timelines.set(position, shown);
    chosen(position);
    showSummary(report, rank);
    lanes.show(rank, shown);
    timeline.show(rank, shown);
    showMatrix(rank);
    showKernels(rank, findInTimeline);
    showPhases(rank);
    showWaits(rank);
    showSteps(rank);
    showQuality(rank);
  }

  /** @param {string} name */
  function findInTimeline(name) {
    timeline.find(name.slice(0, FIND_CHARS));
    byId("timeline").scrollIntoView({ block: "start" });
  }

  const data = () => timelines.get(current);

  onTheme(() => {
    if (report.ranks.length) showMatrix(report.ranks[current]);
  });
  if (report.ranks.length) showRank(0);
  else {
    document.body.classList.add("no-ranks");
    byId("basis").hidden = false;
    byId("basis").textContent = "No rank could be read.";
  }
  return {
    report,
    lanes,
    timeline,
    rank: () => current,
    data,
    breakdown: (/** @type {number} */ from, /** @type {number} */ to) => {
      const held = data();
      return held && breakdown(held, from, to);
    },
  };
});
