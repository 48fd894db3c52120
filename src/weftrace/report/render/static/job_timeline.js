// The timeline of a job: all its ranks on one axis. Holds the view, the order of rows, and what is pointed at.

import { byId, choiceButtons, fill, onScroll, sizedContext } from "render/dom.js";
import { duration, percent, plural } from "render/format.js";
import { fillOf } from "render/fills.js";
import { intersection, lengthWithin, union } from "render/intervals.js";
import { Sheet } from "render/scene.js";
import { hideTip, tipRows } from "render/tooltip.js";
import { Viewport } from "render/viewport.js";
import { zoomButtons, zooming } from "render/zooming.js";
import { costliestOfSteps, most, originsOf } from "./job.js";
import { FONT, HEAD, heightsOf, paintJob, sharesOf } from "./job_paint.js";
import { windowOf } from "./step_map.js";

/**
 * @typedef {import("./job.js").Job} Job
 * @typedef {import("./job.js").JobRank} JobRank
 * @typedef {import("./job_paint.js").Row} Row
 */

const MOST_MARKS = 8; // of the collectives in view that were waited for most ...
const WORTH_MARKING = 0.1; // ... and for this much of the longest wait among them
const MOST_HIGH = 570;
const LEAST_SHARE = 1e-6; // of a stretch: less is rounding
const MOST_NAME = 132;

/** @type {{ key: "rank" | "late" | "slow" | "waited", word: string, value: ((row: Row) => number) | null }[]} */
const ORDERS = [
  { key: "rank", word: "by rank", value: null },
  { key: "slow", word: "highest cost first", value: (row) => row.alone ?? 0 },
  { key: "late", word: "latest first", value: (row) => row.late?.origin_ns ?? 0 },
  { key: "waited", word: "most waiting first", value: (row) => row.late?.suffered_ns ?? 0 },
];

/**
 * The timeline in its section. onOpen(rank, window): a rank was chosen, and the stretch of the job's time in view.
 * @param {Job} job
 * @param {(rank: JobRank, window: [number, number] | null) => void} onOpen
 */
export function jobTimeline(job, onOpen) {
  const body = byId("job-body");
  const canvas = byId("job-canvas", HTMLCanvasElement);
  const view = new Viewport(0, 1);
  const inOrder = job.ranks.map((member) => rowOf(member, job.slowdown));
  const stepMarks = marksOfSteps(job);
  const originOf = originsOf(job);
  const at = heightsOf(inOrder.length);
  const high = HEAD + inOrder.length * at.row;
  const left = gutter();
  let rows = inOrder;
  let opened = -1;
  let hovered = -1;
  const { draw, width } = zooming({
    canvas,
    frame: body,
    view,
    left,
    paint,
    point: (x, y) => {
      hovered = placeAt(y);
      return hovered >= 0 && x >= left ? tip(rows[hovered], x) : null;
    },
    pointing: () => hovered >= 0,
    leave: () => {
      hovered = -1;
    },
    click: (x, y) => {
      const place = placeAt(y);
      if (place >= 0) onOpen(rows[place], x < left ? null : [view.start, view.end]);
    },
    scroll: (dy) => {
      body.scrollTop += dy;
    },
    key: (event) => {
      const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      const opens = event.key === "Enter" && document.activeElement === canvas && hovered >= 0;
      if (down) step(down);
      else if (opens) onOpen(rows[hovered], [view.start, view.end]);
      if (down || opens) event.preventDefault();
      return Boolean(down) || opens;
    },
  });

  byId("job-scroll").style.setProperty("height", `${high}px`);
  body.style.setProperty("max-height", `${MOST_HIGH}px`);
  onScroll(body, () => {
    hideTip();
    draw();
  });
  canvas.addEventListener("blur", () => {
    hovered = -1;
    draw();
  });
  byId("job-flags").textContent = stepMarks.length
    ? "a step ends: the rank that alone makes it longest, and by how long; in a part of a step, the " +
      "rank that caused the waiting"
    : "waiting ends: the rank that caused it, and how long the others waited in total";
  zoomButtons("job", view);
  sorters("rank");
  canvas.setAttribute("aria-label", described(job));
  byId("job-rows").textContent =
    high > MOST_HIGH ? `${plural(rows.length, "rank")}, ${at.row} pixels each: scroll for the rest.` : "";
  view.reset(job.start, job.end);

  /** As wide as the longest name needs, within reason. */
  function gutter() {
    const context = sizedContext(canvas, 1, 1);
    context.font = `600 ${FONT}`;
    const widest = Math.max(...job.ranks.map(({ name }) => context.measureText(name).width));
    return Math.ceil(Math.min(MOST_NAME, widest)) + 18;
  }

  /** @param {number} down */
  function step(down) {
    const from = hovered < 0 ? rows.findIndex(({ position }) => position === opened) : hovered;
    hovered = Math.max(0, Math.min(rows.length - 1, from + down));
    const y = hovered * at.row;
    if (y < body.scrollTop) body.scrollTop = y;
    if (y + at.row > body.scrollTop + body.clientHeight - HEAD) body.scrollTop = y + at.row - body.clientHeight + HEAD;
    byId("job-live").textContent = `${rows[hovered].name}: ${sharesIn(rows[hovered], view)
      .map(([word, value]) => `${word} ${value}`)
      .join(", ")}`;
    draw();
  }

  /** @param {string} current */
  function sorters(current) {
    const known = {
      rank: true,
      slow: Boolean(job.slowdown),
      late: Boolean(job.lateness),
      waited: Boolean(job.lateness),
    };
    const orders = ORDERS.filter(({ key }) => known[key]);
    /** @param {(typeof ORDERS)[number]} order */
    const choose = ({ key, value }) => {
      rows = value ? [...inOrder].sort((a, b) => value(b) - value(a)) : inOrder;
      hovered = -1;
      sorters(key);
      draw();
    };
    const isChosen = (/** @type {(typeof ORDERS)[number]} */ { key }) => key === current;
    fill(
      byId("job-order"),
      orders.length > 1
        ? choiceButtons(
            orders,
            ({ word }) => word,
            isChosen,
            choose,
            ({ key }) => ({ order: key }),
          )
        : null,
    );
  }

  /** @param {number} y */
  function placeAt(y) {
    const place = Math.floor((y - HEAD + body.scrollTop) / at.row);
    return y >= HEAD && place < rows.length ? place : -1;
  }

  /**
   * @param {Row} row
   * @param {number} x
   */
  function tip(row, x) {
    const ns = view.length / width();
    const start = view.start + Math.floor(x - left) * ns;
    return tipRows(row.name, null, [
      ["at", duration(start, 5)],
      ["of the next", duration(ns)],
      ...sharesIn(row, { start, length: ns }),
      ["", "click: open this rank here"],
    ]);
  }

  /** Who makes the steps in view longer, by the job's replay; else with whom the waiting in collectives began. */
  function marks() {
    const places = new Map(rows.map((row, place) => [row.position, place]));
    const ends = stepMarks.filter(({ time }) => time >= view.start && time <= view.end).slice(0, MOST_MARKS);
    if (ends.length) return ends.map((mark) => ({ ...mark, place: places.get(mark.position) ?? 0 }));
    const seen = (job.lateness?.worst ?? []).filter(
      ({ start_ns: time, waiting_ns: waited }) => time >= view.start && time <= view.end && waited > 0,
    );
    const least = WORTH_MARKING * (seen[0]?.waiting_ns ?? 0);
    return seen
      .filter(({ waiting_ns: waited }) => waited >= least)
      .slice(0, MOST_MARKS)
      .map((worst) => {
        const { position, name } = originOf(worst) ?? job.ranks[worst.last];
        const text = `${name}, ${duration(worst.waiting_ns)} waited`;
        return { time: worst.start_ns, place: places.get(position) ?? 0, text };
      });
  }

  /** @param {number} wide */
  function paint(wide) {
    const height = Math.min(high, MOST_HIGH, Math.max(HEAD, body.clientHeight));
    const chosen = rows.findIndex(({ position }) => position === opened);
    const sheet = new Sheet(canvas, view, wide, height, left);
    paintJob(sheet, { rows, scrolled: body.scrollTop, at, marks: marks(), chosen, hovered });
  }

  return {
    view,
    /** @param {number} position of the rank that is open */
    open: (position) => {
      opened = position;
      draw();
    },
    /**
     * @param {number} from
     * @param {number} to
     */
    zoomTo: (from, to) => view.glide(from, to),
    /** What is drawn where, in pixels of the canvas; for tests. */
    drawn: () => ({
      left,
      width: width(),
      rows: rows.map(({ position, name }, place) => {
        const y = HEAD + place * at.row - body.scrollTop;
        return { position, name, y, upper: at.upper, lower: at.lower };
      }),
    }),
  };
}

/**
 * At the end of each step the rank that makes it longest, the most first.
 * @param {Job} job
 */
function marksOfSteps(job) {
  return [...costliestOfSteps(job)]
    .flatMap(([step, { member, longer }]) => {
      const window = windowOf(member, step);
      const text = `${member.name}: step ${step} ${duration(longer)} longer`;
      return window ? [{ time: window[1], position: member.position, longer, text }] : [];
    })
    .sort((one, other) => other.longer - one.longer);
}

/**
 * @param {JobRank} member
 * @param {page.Slowdown | null} slowdown
 * @returns {Row}
 */
function rowOf(member, slowdown) {
  const { rank } = member;
  /** @param {string} name */
  const lane = (name) => rank.lanes.find((each) => each.lane === name)?.busy ?? [];
  const waits = rank.waits ?? [];
  return {
    ...member,
    alone: slowdown?.workers[member.worker]?.slowdown ?? null,
    compute: fillOf(lane("compute")),
    communication: fillOf(lane("communication")),
    exposed: fillOf(rank.exposed),
    busy: fillOf(rank.busy),
    waits: fillOf(waits),
    waitsWithin: mostlyWithin(waits, lane("communication")),
  };
}

/**
 * Whether stretches lie within others. Waits do not lie within communication where a profiler shows the transfer only:
 * there a rank waits from the end of its work to the start of the event.
 * @param {number[][]} stretches
 * @param {number[][]} others
 */
function mostlyWithin(stretches, others) {
  const [inner, outer] = [stretches, others].map((list) => union(list));
  /** @param {number[]} flat */
  const length = (flat) => lengthWithin(flat, -Infinity, Infinity);
  return 2 * length(intersection(inner, outer)) >= length(inner);
}

/**
 * What a rank did in a stretch of the job's time, in words.
 * @param {Row} row
 * @param {{ start: number, length: number }} stretch
 * @returns {[string, string][]}
 */
function sharesIn(row, stretch) {
  const { compute, copies, communication, waiting } = sharesOf(row, stretch, 1);
  const from = stretch.start - row.shift;
  const outside = from + stretch.length <= 0 || from >= row.rank.span_ns;
  if (outside) return [["", "before its first event, or after its last"]];
  /** @type {[string, string][]} */
  const shares = [
    ["computing", percent(compute[0])],
    ["communicating", percent(communication[0])],
    [row.waitsWithin ? "of it waiting for others" : "waiting for others", percent(waiting[0])],
  ];
  return copies[0] > LEAST_SHARE ? [...shares, ["copying, nothing else runs", percent(copies[0])]] : shares;
}

/** @param {Job} job */
function described({ ranks, start, end, lateness }) {
  const late = lateness?.ranks.length ? most(lateness.ranks, (rank) => rank.origin_ns) : null;
  const who = late?.origin_ns ? `Latest: ${late.name}, ${duration(late.origin_ns)}.` : "";
  const keys = "W and S zoom, A and D move, up and down choose a rank, Enter opens it.";
  return `${plural(ranks.length, "rank")} over ${duration(end - start)} of one clock, one row per rank. ${who} ${keys}`;
}
