// The lane picture: which communication lies behind which computation. A band of boxes for each lane, one box a phase,
// as in DeepSeek's published profiles; under the compute band a strip that says what became of the communication:
// hidden, exposed, or the device idle.

import { boxAtTime, classOf, directionOf, laneBoxes, phaseOf } from "./boxes.js";
import { byId, fill, h } from "./dom.js";
import { duration, ofWhole, percent } from "./format.js";
import { difference, lengthWithin, union } from "./intervals.js";
import { laneGeometry, paintLanes, STRIP } from "./lanes_paint.js";
import { colorKey, key, signKey } from "./legends.js";
import { palette } from "./theme.js";
import { defined, tipRows } from "./tooltip.js";
import { Viewport } from "./viewport.js";
import { zoomButtons, zooming } from "./zooming.js";

/**
 * @typedef {import("./boxes.js").Box} Box
 * @typedef {import("./lanes_paint.js").Picture} Picture
 * Unions of a timeline's events.
 * @typedef {Record<"compute" | "communication" | "hidden" | "exposed" | "busy", number[]>} Unions
 */

const ROOMY = 80; // pixels: in a lower band its label does not name the streams

/** What a box is, where it is not the whole of its phase. */
const PARTS = {
  issue: "the kernel that issues the messages",
  transfer: "messages in flight: no SM is held",
  receive: "the kernel that receives the messages",
};

/**
 * What the picture is told by, and tells.
 * @template Timeline
 * @typedef {object} Handlers
 * @property {(timeline: Timeline) => Unions} accounts
 * @property {(box: Box) => void} onBox a box was chosen
 * @property {(from: number, to: number, finished: boolean) => void} onRange a range was drawn
 */

/**
 * The lane picture in its section: {show(rank, timeline), view, mark(window), range(range), boxes(), place(box),
 * extent()}.
 * @template {{ num: number, left_out: Record<string, number>, unrecorded?: number[] }} Timeline
 * @param {Handlers<Timeline>} handlers
 * @param {string} [at] what its elements' ids begin with; of several on one page, one alone has buttons and a lead
 */
export function lanePicture({ accounts, onBox, onRange }, at = "lanes") {
  const canvas = byId(`${at}-canvas`, HTMLCanvasElement);
  const frame = byId(`${at}-frame`);
  const view = new Viewport(0, 1);
  /** @type {Picture | null} */
  let picture = null;
  /** @type {Box | null} */
  let hovered = null;
  /** @type {Box | null} */
  let focused = null;
  /** @type {[number, number] | null} */
  let marked = null;
  /** @type {[number, number] | null} */
  let ranged = null;
  const { draw, now, width } = zooming({
    canvas,
    frame,
    view,
    paint: (wide) => {
      if (picture?.boxes.length) paintLanes(canvas, { picture, view, width: wide, hovered, focused, ranged, marked });
    },
    point: (x, y) => {
      hovered = boxAt(x, y);
      return hovered && picture ? boxTip(picture, hovered) : stripTip(x, y);
    },
    pointing: () => hovered !== null,
    leave: () => {
      hovered = null;
    },
    click: (x, y) => {
      const box = boxAt(x, y);
      if (box) choose(box);
    },
    double: () => {
      const length = focused ? focused.end_ns - focused.start_ns : 0;
      if (focused) view.glide(focused.start_ns - length, focused.end_ns + length);
    },
    range: onRange,
    restyle: () => {
      if (picture) showLegend(byId(`${at}-legend`), picture);
    },
    key: (event) => !picture || (document.activeElement === canvas && stepByKey(picture, event)),
  });
  zoomButtons(at, view);
  canvas.addEventListener("blur", () => {
    focused = null;
    draw();
  });

  /**
   * @param {page.Lanes} rank
   * @param {Timeline | null} timeline
   * @param {page.Lane[]} [beside] lanes of another picture, which has the same colours
   */
  function show(rank, timeline, beside = []) {
    const lanes = laneBoxes(rank, timeline?.num && !timeline.left_out.device ? accounts(timeline) : null, beside);
    picture = { rank, ...lanes, ...fates(rank, timeline), at: laneGeometry(lanes.lanes.length, lanes.between) };
    hovered = null;
    focused = null;
    marked = null;
    ranged = null;
    const empty = picture.boxes.length === 0;
    byId(`${at}-empty`).hidden = !empty;
    const lead = document.getElementById(`${at}-lead`);
    if (lead) lead.hidden = rank.communication_ns === 0 || rank.basis === "host"; // it speaks of a device
    byId(`${at}-picture`).hidden = empty;
    if (empty) return;
    showLabels(byId(`${at}-gutter`), picture);
    showLegend(byId(`${at}-legend`), picture);
    canvas.setAttribute("aria-label", described(picture));
    view.reset(0, rank.span_ns);
    now();
  }

  /**
   * What the strip shows: exact from the timeline's events; from the document's stretches where there is no timeline.
   * @param {page.Lanes} rank
   * @param {Timeline | null} timeline
   */
  function fates(rank, timeline) {
    if (timeline?.num) {
      const of = accounts(timeline);
      const { unrecorded = [] } = timeline;
      const idle = difference(difference([0, rank.span_ns], of.busy), unrecorded);
      return { hidden: of.hidden, exposed: of.exposed, idle, unrecorded };
    }
    const communication = rank.lanes.find(({ lane }) => lane === "communication")?.busy ?? [];
    const [busy, exposed, ran] = [rank.busy, rank.exposed, rank.hidden ?? communication].map((list) => union(list));
    return { hidden: difference(ran, exposed), exposed, idle: difference([0, rank.span_ns], busy), unrecorded: [] };
  }

  /** @param {Box} box */
  function choose(box) {
    focused = box;
    byId(`${at}-live`).textContent = boxWords(box);
    onBox(box);
    draw();
  }

  /**
   * Moves the focus between boxes; says whether the key was one of these.
   * @param {Picture} shown
   * @param {KeyboardEvent} event
   */
  function stepByKey(shown, event) {
    if (event.key === "Enter" && focused) {
      choose(focused);
      return true;
    }
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (sideways) focused = beside(shown, focused, sideways, view.start);
    else if (down) focused = across(shown, focused, down, view.start);
    else return false;
    event.preventDefault();
    if (focused) {
      const outside = focused.start_ns < view.start || focused.end_ns > view.end;
      if (outside) view.pan(focused.start_ns - view.start - 0.1 * view.length);
      byId(`${at}-live`).textContent = boxWords(focused);
    }
    draw();
    return true;
  }

  /** @param {number} x */
  const timeAt = (x) => view.start + (x / width()) * view.length;

  /**
   * @param {number} x
   * @param {number} y
   */
  function boxAt(x, y) {
    if (!picture) return null;
    const { tops, band } = picture.at;
    const row = tops.findIndex((top) => y >= top && y < top + band);
    return row < 0 ? null : boxAtTime(picture.byRow[row], timeAt(x), 1.5 * (view.length / width()));
  }

  /**
   * Where a box is in the window.
   * @param {Box} box
   */
  function place(box) {
    const at = canvas.getBoundingClientRect();
    const middle = ((box.start_ns + box.end_ns) / 2 - view.start) / view.length;
    const { tops, band } = picture?.at ?? laneGeometry(1, 0);
    return { x: at.left + middle * width(), y: at.top + tops[box.row] + band / 2 };
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  function stripTip(x, y) {
    if (!picture || picture.lanes.length < 2) return null;
    if (y < picture.at.strip || y > picture.at.strip + STRIP) return null;
    const time = timeAt(x);
    const slack = view.length / width();
    /** @param {number[]} flat */
    const inside = (flat) => lengthWithin(flat, time - slack, time + slack) > 0;
    const colors = palette();
    if (inside(picture.exposed)) {
      const why = "no compute kernel ran: the GPU waits for the network";
      return tipRows("Communication exposed", colors.exposed, [["", why]]);
    }
    if (inside(picture.hidden)) {
      return tipRows("Communication hidden", colors.hidden, [["", "a compute kernel ran at the same time"]]);
    }
    if (inside(picture.unrecorded)) {
      return tipRows("Unrecorded", colors.unrecorded, [["", "work ran that is missing from the file"]]);
    }
    return inside(picture.idle) ? tipRows("Idle", colors.idle, [["", "nothing ran on the device"]]) : null;
  }

  return {
    show,
    view,
    /** @param {[number, number] | null} window */
    mark: (window) => {
      marked = window;
      draw();
    },
    /** @param {[number, number] | null} range */
    range: (range) => {
      ranged = range;
      draw();
    },
    boxes: () => picture?.boxes ?? [],
    place,
    /** Where its bands begin and end, in pixels from its top. */
    extent: () => {
      const { tops, band } = picture?.at ?? laneGeometry(1, 0);
      return [tops[0] ?? 0, (tops.at(-1) ?? 0) + band];
    },
  };
}

/**
 * The box after (1) or before (-1) another in its lane; from none, the first in view.
 * @param {Picture} picture
 * @param {Box | null} from
 * @param {number} step
 * @param {number} viewStart
 */
function beside({ byRow }, from, step, viewStart) {
  const line = byRow[from?.row ?? 0];
  const at = from ? line.indexOf(from) + step : line.findIndex((box) => box.end_ns > viewStart);
  return line[Math.min(Math.max(at, 0), line.length - 1)] ?? from;
}

/**
 * The box of the lane below (1) or above (-1) that is nearest in time.
 * @param {Picture} picture
 * @param {Box | null} from
 * @param {number} step
 * @param {number} viewStart
 */
function across({ byRow }, from, step, viewStart) {
  const row = Math.min(Math.max((from?.row ?? 0) + step, 0), byRow.length - 1);
  const middle = from ? (from.start_ns + from.end_ns) / 2 : viewStart;
  /** @param {Box} box */
  const away = (box) => Math.abs(box.start_ns + box.end_ns - 2 * middle);
  const [first, ...others] = byRow[row];
  return others.reduce((best, box) => (away(box) < away(best) ? box : best), first) ?? from;
}

/**
 * @param {HTMLElement} gutter
 * @param {Picture} picture
 */
function showLabels(gutter, { rank, lanes, at }) {
  const labels = lanes.map((lane, row) =>
    h(
      "div",
      { class: "lane-label", style: { top: `${at.tops[row]}px`, height: `${at.band}px` } },
      h("b", { text: lane.lane }),
      lane.sms === null
        ? null
        : h("span", { class: "lane-sms" }, `${lane.sms_exact ? "" : "≤ "}${lane.sms} `, defined("sms", lane.sm_unit)),
      h("span", { class: "muted", text: `${ofWhole(lane.busy_ns, rank.span_ns)} busy` }),
      at.band < ROOMY ? null : h("span", { class: "faint", text: streamWords(lane.streams) }),
    ),
  );
  const strip = h(
    "div",
    { class: "lane-label strip-label", style: { top: `${at.strip}px`, height: `${STRIP}px` } },
    h("span", { text: "communication is" }),
  );
  fill(gutter, labels, lanes.length > 1 ? strip : null);
}

/** @param {number[]} streams */
function streamWords(streams) {
  return streams.length ? `stream${streams.length > 1 ? "s" : ""} ${streams.join(", ")}` : "";
}

/**
 * @param {HTMLElement} legend
 * @param {Picture} picture
 */
function showLegend(legend, { hues, rank, boxes, unrecorded }) {
  const colors = palette();
  /** @param {"exposed" | "idle"} fate */
  const hatched = (fate) => key({ class: `swatch hatch-${fate}` }, defined(fate, fate));
  const communicates = rank.communication_ns > 0;
  fill(
    legend,
    hues.legend.map(([role, label]) => colorKey(colors[role], label)),
    communicates ? colorKey(colors.hidden, defined("hidden", "hidden")) : null,
    communicates ? hatched("exposed") : null,
    hatched("idle"),
    unrecorded.length ? key({ class: "swatch hatch-unrecorded" }, defined("idle_unrecorded", "unrecorded")) : null,
    boxes.some((box) => box.part === "issue") ? signKey("▾", "messages are issued") : null,
    boxes.some((box) => box.part === "receive") ? signKey("▴", "messages are received") : null,
    rank.arrows?.length ? signKey("↓", "waits for; faint if something else held it longer") : null,
  );
}

/**
 * @param {Picture} picture
 * @param {Box} box
 */
function boxTip({ rank, lanes, hues, exposed }, box) {
  const phase = phaseOf(rank, box);
  const direction = directionOf(box)?.[1] ?? box.direction;
  const communicates = classOf(box.lane) === "communication" || box.part !== undefined;
  const hidden = phase ? phase.hidden_ns / (phase.hidden_ns + phase.exposed_ns || 1) : 0;
  const exposedNs = phase ? phase.exposed_ns : lengthWithin(exposed, box.start_ns, box.end_ns);
  return tipRows(box.name, palette()[hues.of(box)], [
    box.part ? ["", PARTS[box.part]] : null,
    box.layer === null ? null : ["layer", `${box.layer}`],
    box.micro_batch === null ? null : ["micro-batch", `${box.micro_batch}`],
    phase ? ["occurrence", `${box.index + 1}`] : null,
    ["lane", direction ? `${box.lane}, ${direction}` : box.lane],
    ["from", duration(box.start_ns, 5)],
    ["busy", ofWhole(box.busy_ns, box.end_ns - box.start_ns)],
    phase && communicates ? ["hidden", `${duration(phase.hidden_ns)} (${percent(hidden)})`] : null,
    communicates ? ["exposed", duration(exposedNs)] : null,
    phase && communicates ? ["moves data", duration(phase.data_ns)] : null,
    box.sms === null || box.sms === undefined ? null : [lanes[box.row].sm_unit, `${box.sms}`],
    phase && phase.stream !== null && phase.stream !== undefined ? ["stream", `${phase.stream}`] : null,
    rank.phases ? ["", "click for details"] : null,
  ]);
}

/** @param {Box} box */
function boxWords(box) {
  const busy = ofWhole(box.busy_ns, box.end_ns - box.start_ns);
  return `${box.name}, ${box.lane} lane, from ${duration(box.start_ns)}, ${busy} busy`;
}

/** @param {Picture} picture */
function described({ rank, lanes }) {
  const of = lanes.map((lane) => {
    const sms = lane.sms === null ? "" : ` on ${lane.sms} ${lane.sm_unit}`;
    return `${lane.lane}${sms}: ${lane.boxes.length} boxes`;
  });
  const exposed = `Exposed communication ${duration(rank.exposed_communication_ns)}.`;
  const keys = "Arrow keys move between boxes, Enter shows the details of one.";
  return `Lane picture of ${duration(rank.span_ns)}. ${of.join("; ")}. ${exposed} ${keys}`;
}
