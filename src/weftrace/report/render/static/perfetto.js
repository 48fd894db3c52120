// The page's events as a Chrome trace: saved as a file, or handed to the tab of ui.perfetto.dev. The recorded file is
// not in the page; what its timeline draws is, with streams, threads, names, times and launches.

import { byId } from "render/dom.js";
import { saveFile } from "render/exports.js";
import { grouped, plural } from "render/format.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 * @typedef {{ ph: string, name: string, pid: number, tid?: number, ts?: number, [more: string]: unknown }} ChromeEvent
 */

const PERFETTO = "https://ui.perfetto.dev";
const KNOCK_MS = 100;
const PATIENCE_MS = 20_000;
/** @type {Record<string, string>} Categories of PyTorch's profiler, by class; other device work is a kernel. */
const ON_HOST = { annotation: "user_annotation", launch: "cuda_runtime" };
/** @type {Record<string, string>} What work counts as, by class; read back, as the same, whatever its name. */
const COUNTS_AS = {
  compute: "compute",
  fused: "fused",
  communication: "communication",
  barrier: "communication",
  memory: "memory",
};

/**
 * A Chrome trace of the events that the page holds. Times count from the first of them. Of a plain trace, whose ranges
 * stand for work, ranges that count become kernels.
 * @param {Timeline} timeline
 * @param {page.Rank["basis"]} basis what the rank's numbers are of
 */
export function chromeTrace(timeline, basis) {
  /** @type {ChromeEvent[]} */
  const events = timeline.groups.map(({ label }, pid) => ({
    ph: "M",
    name: "process_name",
    pid,
    args: { name: label },
  }));
  const lines = linesOf(timeline);
  for (const { pid, tid, label } of lines) {
    events.push({ ph: "M", name: "thread_name", pid, tid, args: { name: label } });
    events.push({ ph: "M", name: "thread_sort_index", pid, tid, args: { sort_index: tid } });
  }
  const called = new Set(timeline.launch);
  /** @param {number} i */
  const works = (i) =>
    i < timeline.numDevice || (basis === "ranges" && timeline.className[timeline.kind[i]] in COUNTS_AS);
  for (const line of lines) {
    for (let i = line.first; i < line.first + line.count; i += 1) {
      events.push(...eventsOf(timeline, line, i, called, works(i)));
    }
  }
  return { displayTimeUnit: "ns", traceEvents: events };
}

/**
 * A row of a stream is a line of its own, for a line's events may nest but not overlap; a thread's rows are one line.
 * @typedef {Timeline["tracks"][number]} Track
 * @typedef {{ track: Track, pid: number, tid: number, label: string, first: number, count: number }} Line
 * @param {Timeline} timeline
 * @returns {Line[]}
 */
function linesOf(timeline) {
  let tid = 0;
  return timeline.tracks.flatMap((track) =>
    track.rows.map(([first, count], row) => {
      if (row === 0 || track.kind === "stream") tid += 1;
      const label = row > 0 && track.kind === "stream" ? `${track.label} (${row + 1})` : track.label;
      return { track, pid: track.group, tid, label, first, count };
    }),
  );
}

/**
 * An event, and the arrow between it and its launch.
 * @param {Timeline} timeline
 * @param {Line} line
 * @param {number} i
 * @param {Set<number>} called 1 + each call that launched something
 * @param {boolean} works it is work of a device, or stands for it
 * @returns {ChromeEvent[]}
 */
function eventsOf(timeline, { track, pid, tid }, i, called, works) {
  const kind = timeline.className[timeline.kind[i]];
  const correlation = i < timeline.numDevice ? timeline.launch[i] : called.has(i + 1) ? i + 1 : 0;
  const ts = (timeline.start[i] - timeline.firstNs) / 1000;
  const on = track.kind === "thread" ? (works ? { device: 0, stream: tid } : {}) : track;
  const counts = kind in COUNTS_AS && works ? { weftrace: { kind: COUNTS_AS[kind] } } : {};
  /** @type {ChromeEvent} */
  const event = {
    ph: "X",
    name: timeline.names[timeline.name[i]],
    cat: works && track.kind === "thread" ? "kernel" : categoryOf(track.kind, kind),
    pid,
    tid,
    ts,
    dur: timeline.dur[i] / 1000,
    args: { device: on.device, stream: on.stream, ...(correlation ? { correlation } : {}), class: kind, ...counts },
  };
  if (!correlation) return [event];
  const arrow = { name: "ac2g", cat: "ac2g", id: correlation, pid, tid, ts };
  return [event, i < timeline.numDevice ? { ...arrow, ph: "f", bp: "e" } : { ...arrow, ph: "s" }];
}

/**
 * @param {string} track
 * @param {string} kind
 */
function categoryOf(track, kind) {
  if (track === "notes") return "gpu_user_annotation";
  if (track === "thread") return ON_HOST[kind] ?? "cpu_op";
  return kind === "memory" ? "gpu_memcpy" : "kernel";
}

/**
 * The menu of the timeline: open in Perfetto, save as a Chrome trace. held() is the timeline shown, rank() whose it is.
 * @param {() => Timeline | null | undefined} held
 * @param {() => page.Rank} rank
 * @param {() => string} title
 */
export function startPerfetto(held, rank, title) {
  const said = byId("trace-said");
  byId("trace-menu").addEventListener("toggle", () => {
    const num = grouped(held()?.num ?? 0);
    said.textContent = `The ${num} events of this page go only to a tab of your browser; nothing is uploaded.`;
  });
  byId("trace-save").addEventListener("click", () => {
    const timeline = held();
    if (timeline) saveFile("weftrace-timeline.json", "application/json", textOf(timeline, rank()));
  });
  byId("trace-perfetto").addEventListener("click", async () => {
    const timeline = held();
    if (!timeline) return;
    said.textContent = "Opening ui.perfetto.dev …";
    said.textContent = await handOver(timeline, textOf(timeline, rank()), title());
  });
}

/**
 * @param {Timeline} timeline
 * @param {page.Rank} rank
 */
function textOf(timeline, { basis }) {
  return JSON.stringify(chromeTrace(timeline, basis));
}

/**
 * Opens Perfetto, knocks until it answers, and hands it the events. Says how that went.
 * @param {Timeline} timeline
 * @param {string} text
 * @param {string} title
 */
async function handOver(timeline, text, title) {
  const instead = "“Save as Chrome trace” needs no network: open that file in Perfetto yourself.";
  if (!navigator.onLine) return `There is no network. ${instead}`;
  const tab = window.open(PERFETTO);
  if (!tab) return "The browser blocked the tab: allow pop-ups here, or save the trace and open it yourself.";
  if (!(await answers(tab))) return `ui.perfetto.dev did not answer: is there a network? ${instead}`;
  const buffer = new TextEncoder().encode(text).buffer;
  tab.postMessage({ perfetto: { buffer, title, fileName: "weftrace-timeline.json" } }, PERFETTO);
  return `Sent ${plural(timeline.num, "event")}. Perfetto shows them once you trust this page.`;
}

/**
 * Whether the tab answers PING with PONG before patience ends.
 * @param {Window} tab
 * @returns {Promise<boolean>}
 */
function answers(tab) {
  return new Promise((done) => {
    /** @param {boolean} answered */
    const finish = (answered) => {
      clearInterval(knocking);
      clearTimeout(waiting);
      window.removeEventListener("message", heard);
      done(answered);
    };
    /** @param {MessageEvent} event */
    const heard = (event) => {
      if (event.source === tab && event.data === "PONG") finish(true);
    };
    const knocking = setInterval(() => (tab.closed ? finish(false) : tab.postMessage("PING", PERFETTO)), KNOCK_MS);
    const waiting = setTimeout(() => finish(false), PATIENCE_MS);
    window.addEventListener("message", heard);
  });
}
