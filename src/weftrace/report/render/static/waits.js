// Why did the device stand still, how far ahead does the host run, and what could overlap still save?

import { byId, fact, fill, h } from "render/dom.js";
import { count, duration, grouped, percent } from "render/format.js";
import { columnsOf, showTable } from "render/tables.js";
import { defined } from "render/tooltip.js";
import { partsList, stackedBar } from "./parts.js";
import { boundWords } from "./summary.js";

/**
 * @typedef {"host_wait_ns" | "dependency_wait_ns" | "kernel_gap_ns" | "unknown_ns"} Cause
 */

/** @type {[key: Cause, role: string, word: string][]} */
const CAUSES = [
  ["host_wait_ns", "host_wait", "host wait"],
  ["dependency_wait_ns", "dependency_wait", "dependency wait"],
  ["kernel_gap_ns", "kernel_gap", "kernel gap"],
  ["unknown_ns", "unknown_wait", "unknown"],
];

/** @param {page.Rank} rank */
export function showWaits(rank) {
  showIdle(rank.idle_causes, rank.streams);
  showLaunch(rank.launch);
  showHeadroom(rank);
}

/**
 * @param {page.IdleCauses | null} idle
 * @param {page.Stream[]} streams
 */
function showIdle(idle, streams) {
  byId("idle-box").hidden = !idle;
  if (!idle) return;
  const parts = { ...idle, span: CAUSES.reduce((sum, [key]) => sum + idle[key], 0) };
  fill(
    byId("idle-bar"),
    parts.span ? stackedBar(parts, "medium", CAUSES) : null,
    partsList(parts, CAUSES),
    h("p", {
      class: "muted",
      text:
        "Above, the time in which nothing ran; below, each stream's own, while others may have been busy. " +
        `Gaps under ${duration(idle.threshold_ns)} between kernels count as kernel gaps.`,
    }),
  );
  const present = CAUSES.filter(([key]) => idle.by_stream.some((row) => row[key]));
  showTable("idle-table", {
    name: "idle",
    rows: idle.by_stream,
    limit: 10,
    sort: { key: "stream", down: false },
    empty: "No stream.",
    columns: columnsOf("idle", ["stream", "mostly", "idle_ns", ...present.map(([key]) => key)], {
      stream: { kind: "text", text: (row) => `stream ${row.stream}` },
      mostly: { value: (row) => streams.find(({ stream }) => stream === row.stream)?.kind ?? "" },
    }),
  });
}

/** @param {page.Launch | null} launch */
function showLaunch(launch) {
  byId("launch-box").hidden = !launch;
  if (!launch) return;
  showFacts("launch-facts", [
    ["launch_delay", "launch delay, median", duration(launch.delay_p50_ns)],
    ["launch_delay", "launch delay, p99", duration(launch.delay_p99_ns)],
    ["launch_delay", "launch delay, longest", duration(launch.delay_max_ns)],
    ["queue", "queue length, mean", launch.queue_mean === null ? "–" : grouped(launch.queue_mean, 1)],
    ["queue", "queue length, longest", count(launch.queue_max)],
    [null, "device events with their launch", count(launch.num_linked)],
  ]);
  showTable("blocked-table", {
    name: "blocked",
    rows: launch.host_blocked,
    limit: 8,
    sort: { key: "total_ns", down: true },
    empty: "The host never waited for the device.",
    columns: columnsOf("blocked", "name num_events total_ns"),
  });
  const stalls = launch.host_stalls ?? [];
  byId("stall-table").hidden = stalls.length === 0;
  if (stalls.length)
    showTable("stall-table", {
      name: "stalls",
      rows: stalls,
      limit: 8,
      sort: { key: "total_ns", down: true },
      columns: columnsOf("stalls", "name num_events longest_ns total_ns"),
    });
}

/** @param {page.Rank} rank */
function showHeadroom({ headroom, span_ns: span }) {
  byId("headroom-box").hidden = !headroom;
  if (!headroom) return;
  showFacts("headroom-facts", [
    ["span", "span", duration(span)],
    ["headroom", "ideal step", duration(headroom.ideal_ns)],
    ["headroom", "headroom", `${duration(headroom.headroom_ns)} (${percent(headroom.headroom_ns / (span || 1))})`],
    [null, "ideal step is", boundWords(headroom.bound_by)],
    ["chain", "longest dependent chain", duration(headroom.longest_chain_ns)],
  ]);
  byId("headroom-note").textContent = headroom.assumption ? `Assumes: ${headroom.assumption}` : "";
}

/**
 * Lines of a name, with its definition where there is one, and a value.
 * @param {string} id
 * @param {[def: string | null, label: string, value: string][]} rows
 */
function showFacts(id, rows) {
  fill(
    byId(id),
    rows.map(([def, label, value]) => fact(def ? defined(def, label) : label, value)),
  );
}
