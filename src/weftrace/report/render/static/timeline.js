// The timeline: every stream and host thread, at any zoom. Holds the view, what is searched, selected and measured.

import { byId, fill, h, oncePerFrame, onScroll } from "render/dom.js";
import { duration, grouped, plural } from "render/format.js";
import { attachGestures, keysOver, moveByKey } from "render/gestures.js";
import { onTheme, palette } from "render/theme.js";
import { hideTip, showTip, tipRows } from "render/tooltip.js";
import { Viewport } from "render/viewport.js";
import { MINI, paintPinned, pinnedBox, pinnedOf } from "./pinned.js";
import { gapAt, gapTip } from "./gaps.js";
import { durationSums, eventAt, nameWriter, shadesFor } from "render/rows.js";
import { inOrder, search } from "./search.js";
import { allRows, isOfDevice, labelColumn, layout, rowOf } from "./tracks.js";
import { showTimelineLegend } from "./timeline_legend.js";
import { paintTracks } from "./tracks_paint.js";
import { FONT, Sheet } from "render/scene.js";
import { zoomButtons } from "render/zooming.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 *
 * A rank's timeline and what is derived from it. look, write: for the theme in force.
 * @typedef {object} Held
 * @property {page.Rank} rank
 * @property {Timeline} timeline
 * @property {import("./tracks.js").Row[]} rows
 * @property {Float64Array} sums
 * @property {import("./pinned.js").Pinned} pinned
 * @property {import("./tracks.js").Layout} placed
 * @property {import("render/rows.js").Look | null} look
 * @property {import("render/rows.js").NameWriter | null} write
 */

/**
 * What the timeline tells.
 * @typedef {object} Handlers
 * @property {(view: Viewport) => void} onView
 * @property {(timeline: Timeline | null, event: number) => void} onEvent an event was selected, or none: -1
 * @property {(timeline: Timeline | null, gap: number) => void} onGap a gap was selected, or none: -1
 * @property {(timeline: Timeline | null, range: [number, number] | null) => void} onRange
 */

/** @type {Record<string, string>} */
const LEFT_OUT_WORDS = {
  device: "device event",
  annotation: "annotation",
  host: "host range",
  far: "event more than 50 days from the rest",
  track: "event of threads beyond the 300 busiest rows",
};
const MISSING = "This page does not have this rank's timeline. Name the rank when you write the report to include it.";

/**
 * The timeline in its section. What it returns shows ranks and moves it.
 * @param {Handlers} handlers
 */
export function timelineView({ onView, onEvent, onGap, onRange }) {
  const frame = byId("timeline-frame");
  const body = byId("timeline-body");
  const cell = byId("timeline-cell");
  const canvas = byId("timeline-canvas", HTMLCanvasElement);
  const axis = byId("timeline-axis", HTMLCanvasElement);
  const box = byId("search", HTMLInputElement);
  const matches = byId("search-count");
  const rangeTool = byId("range-tool");
  const following = byId("search-next", HTMLButtonElement);
  const previous = byId("search-prev", HTMLButtonElement);
  const view = new Viewport(0, 1);
  /** @type {Held | null} */
  let data = null;
  let hovered = -1;
  let selected = -1;
  let gap = -1;
  /** @type {[number, number] | null} */
  let range = null;
  /** @type {import("./search.js").Found | null} */
  let found = null;
  let painted = 0;
  /** @type {Set<number>} */
  const closed = new Set();
  const draw = oncePerFrame(() => {
    if (data) paint(data);
  });
  const width = () => cell.clientWidth;
  const ranging = () => rangeTool.getAttribute("aria-pressed") === "true";

  view.onChange(() => {
    canvas.dataset.start = String(view.start);
    canvas.dataset.end = String(view.end);
    onView(view);
    draw();
  });
  onTheme(() => {
    if (data) data.look = null;
    showLegend();
    draw();
  });
  new ResizeObserver(draw).observe(body);
  onScroll(body, () => {
    hideTip();
    draw();
  });
  listenPinned();
  listenTracks();
  listenKeys();
  listenButtons();

  /** On the pinned part a drag always selects a range, and a click opens a phase. */
  function listenPinned() {
    attachGestures(axis, view, {
      left: () => 0,
      width,
      ranging: () => true,
      range: setRange,
      hover: (x, y, event) => {
        const under = data && pinnedBox(data.pinned, view, width(), x, y);
        axis.classList.toggle("pointing", Boolean(under));
        if (!data || !under) {
          hideTip();
          return;
        }
        const rows = tipRows(under.name, palette()[data.pinned.mini.hues.of(under)], [
          ["lane", under.lane],
          ["from", duration(under.start_ns, 5)],
          ["takes", duration(under.end_ns - under.start_ns)],
        ]);
        showTip(event.clientX, event.clientY, ...rows);
      },
      leave: hideTip,
      click: (x, y) => {
        const under = data && pinnedBox(data.pinned, view, width(), x, y);
        if (under) view.glide(under.start_ns, under.end_ns);
      },
    });
  }

  function listenTracks() {
    attachGestures(canvas, view, {
      left: () => 0,
      width,
      ranging,
      hover: (x, y, event) => {
        const under = at(x, y);
        if (under !== hovered) {
          hovered = under;
          draw();
        }
        const wait = under < 0 ? waitAt(x, y) : -1;
        canvas.classList.toggle("pointing", under >= 0 || wait >= 0);
        if (data && under >= 0) showTip(event.clientX, event.clientY, ...eventTip(data.timeline, under));
        else if (data && wait >= 0) {
          showTip(event.clientX, event.clientY, ...gapTip(data.timeline.waits.of(wait), palette().idle));
        } else hideTip();
      },
      leave: () => {
        hovered = -1;
        hideTip();
        draw();
      },
      click: (x, y) => {
        const under = at(x, y);
        select(under);
        if (under < 0) selectGap(waitAt(x, y));
      },
      double: () => {
        if (selected >= 0) zoomToEvent(selected); // the first click picked it; what is under the second may have moved
      },
      range: setRange,
      scroll: (dy) => {
        body.scrollTop += dy;
      },
    });
  }

  function listenKeys() {
    /** @type {Record<string, () => void>} */
    const own = {
      Escape: () => {
        select(-1);
        setRange(null);
      },
      n: () => jump(1),
      N: () => jump(-1),
      m: () => setRange(view.start, view.end, true),
      f: () => (selected >= 0 ? zoomToEvent(selected) : view.glide(...view.home)),
      ArrowDown: () => {
        body.scrollTop += 60;
      },
      ArrowUp: () => {
        body.scrollTop -= 60;
      },
    };
    keysOver(frame, (event) => {
      if (data && own[event.key]) {
        own[event.key]();
        event.preventDefault();
      } else moveByKey(view, event);
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
      if (event.key !== "/" || typing) return;
      event.preventDefault();
      box.focus();
      box.select();
    });
  }

  function listenButtons() {
    box.addEventListener("input", () => find(box.value));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") jump(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        box.value = "";
        find("");
      }
    });
    following.addEventListener("click", () => jump(1));
    previous.addEventListener("click", () => jump(-1));
    zoomButtons("timeline", view);
    byId("range-view").addEventListener("click", () => {
      if (data) setRange(view.start, view.end, true);
    });
    rangeTool.addEventListener("click", () => rangeTool.setAttribute("aria-pressed", String(!ranging())));
  }

  /**
   * @param {page.Rank} rank
   * @param {Timeline | null} timeline
   */
  function show(rank, timeline) {
    const present = Boolean(timeline?.num);
    byId("timeline-missing").hidden = present;
    byId("timeline-present").hidden = !present;
    closed.clear();
    data = null;
    select(-1);
    setRange(null);
    if (!timeline?.num) {
      byId("timeline-missing").textContent = timeline ? "The trace holds no events to draw." : MISSING;
      return;
    }
    const rows = allRows(timeline);
    const pinned = pinnedOf(rank, timeline);
    const placed = layout(timeline, rows, closed);
    data = { rank, timeline, rows, sums: durationSums(timeline), pinned, placed, look: null, write: null };
    frame.style.setProperty("--top", `${pinned.height}px`);
    const names = pinned.rows.map(({ name, y }) =>
      h("span", { text: name, style: { top: `${y}px`, height: `${MINI}px` } }),
    );
    fill(byId("timeline-top"), names);
    showPartial(timeline);
    showLabels(data);
    const span = rank.span_ns || timeline.endNs - timeline.firstNs;
    const from = rank.span_ns ? 0 : timeline.firstNs;
    view.reset(Math.min(timeline.firstNs, 0), Math.max(timeline.endNs, span), [from, from + span]);
    find(box.value);
    paint(data);
  }

  function showLegend() {
    if (data) showTimelineLegend(data.timeline, data.pinned, found !== null);
  }

  /** @param {Held} held */
  function showLabels(held) {
    labelColumn(byId("timeline-gutter"), held.placed, held.rank.streams, (group) => {
      if (closed.has(group)) closed.delete(group);
      else closed.add(group);
      place(held);
      draw();
    });
  }

  /** @param {Held} held */
  function place(held) {
    held.placed = layout(held.timeline, held.rows, closed);
    showLabels(held);
  }

  /** @param {string} text */
  function find(text) {
    found = data ? search(data.timeline, text) : null;
    const num = found?.num === 1 ? "1 match" : `${grouped(found?.num ?? 0)} matches`;
    matches.textContent = found ? `${num}, ${plural(found.names, "name")}` : "";
    matches.classList.toggle("none", found?.num === 0);
    following.disabled = !found?.num;
    previous.disabled = !found?.num;
    showLegend();
    draw();
  }

  /**
   * To the next (1) or previous (-1) match by time, from the selected event or the left edge of the view.
   * @param {number} step
   */
  function jump(step) {
    if (!data || !found?.num) return;
    const order = inOrder(data.timeline, found);
    const { start } = data.timeline;
    const now = found.hits[selected + 1] > found.hits[selected] ? order.indexOf(selected) : -1;
    let next = now + step;
    if (now < 0) {
      const ahead = order.findIndex((event) => start[event] >= view.start);
      next = step > 0 ? Math.max(ahead, 0) : ahead - 1; // past the last one begins again with the first
    }
    next = (next + order.length) % order.length;
    select(order[next]);
    reveal(order[next]);
    matches.textContent = `${grouped(next + 1)} of ${grouped(found.num)}`;
  }

  /**
   * Brings an event into view: opens its group, scrolls to its row, and pans or zooms only as far as needed.
   * @param {number} event
   */
  function reveal(event) {
    if (!data) return;
    const { timeline } = data;
    const row = rowOf(data.rows, event);
    if (closed.delete(row.group)) place(data);
    const line = data.placed.yOf.get(row);
    const visible = body.clientHeight - data.pinned.height;
    const { scrollTop } = body;
    const hidden = line && (line.y < scrollTop || line.y + line.height > scrollTop + visible);
    if (hidden) body.scrollTop = Math.max(0, line.y - visible / 2);
    const start = timeline.start[event];
    const dur = timeline.dur[event];
    const length = Math.min(view.length, Math.max(dur * 60, 2000));
    if (length >= view.length && start >= view.start && start + dur <= view.end) return;
    const half = Math.max(length, dur * 1.3) / 2;
    view.glide(start + dur / 2 - half, start + dur / 2 + half);
  }

  /** @param {number} event */
  function zoomToEvent(event) {
    if (!data) return;
    const start = data.timeline.start[event];
    const dur = Math.max(1, data.timeline.dur[event]);
    view.glide(start - 0.6 * dur, start + 1.6 * dur);
  }

  /** @param {number} event */
  function select(event) {
    selected = event;
    onEvent(data?.timeline ?? null, event);
    selectGap(-1);
    draw();
  }

  /** @param {number} number of a gap, or -1 */
  function selectGap(number) {
    if (number < 0 && gap < 0) return;
    gap = number;
    onGap(data?.timeline ?? null, gap);
    draw();
  }

  /**
   * A range from two times, in whole ns; none for null. finished: it is not being drawn any more.
   * @param {number | null} from
   * @param {number} [to]
   * @param {boolean} [finished]
   */
  function setRange(from, to, finished) {
    range = from === null || to === undefined ? null : [Math.round(from), Math.round(to)];
    if (!range || finished) onRange(data?.timeline ?? null, range);
    draw();
  }

  /**
   * The event at a pixel of the canvas, or -1.
   * @param {number} x
   * @param {number} y
   */
  function at(x, y) {
    if (!data) return -1;
    const inner = y + body.scrollTop;
    const line = data.placed.lines.find((each) => inner >= each.y && inner < each.y + each.height);
    const time = view.start + (x / width()) * view.length;
    const slack = (2 * view.length) / width();
    for (const row of line?.rows ?? []) {
      const event = eventAt(data.timeline, row, time, slack);
      if (event >= 0) return event;
    }
    return -1;
  }

  /**
   * The gap of the device at a pixel of one of its streams, or -1.
   * @param {number} x
   * @param {number} y
   */
  function waitAt(x, y) {
    if (!data) return -1;
    const inner = y + body.scrollTop;
    const line = data.placed.lines.find((each) => inner >= each.y && inner < each.y + each.height);
    if (!line || !isOfDevice(data.timeline, line, data.rank.device)) return -1;
    return gapAt(data.timeline.waits, view.start + (x / width()) * view.length);
  }

  /** @param {Held} held */
  function paint(held) {
    if (width() < 10) return;
    const began = performance.now();
    const { timeline, rows, placed, sums, pinned } = held;
    const visible = Math.max(40, Math.min(body.clientHeight - pinned.height, placed.height));
    const sheet = new Sheet(canvas, view, width(), visible);
    if (!held.look) held.write = null;
    held.look ??= shadesFor(timeline, palette());
    held.write ??= nameWriter(sheet.context, timeline, FONT);
    paintPinned(new Sheet(axis, view, width(), pinned.height), pinned, range);
    paintTracks(sheet, {
      timeline,
      rows,
      placed,
      sums,
      look: held.look,
      write: held.write,
      top: body.scrollTop,
      hits: found?.hits ?? null,
      hovered,
      selected,
      range,
      device: held.rank.device,
      gap,
    });
    painted = performance.now() - began;
  }

  return {
    show,
    view,
    /**
     * @param {number} from
     * @param {number} to
     */
    zoomTo: (from, to) => view.glide(from, to),
    /** @param {number} event */
    select: (event) => {
      select(event);
      reveal(event);
    },
    clear: () => select(-1),
    gap: selectGap,
    range: setRange,
    /** @param {string} text */
    find: (text) => {
      box.value = text;
      find(text);
    },
    /** For tests and the console: the last frame's cost and what is held. */
    stats: () => ({
      paint_ms: painted,
      selected,
      range,
      matches: found?.num ?? 0,
      lines: data?.placed.lines.length ?? 0,
    }),
    /**
     * Where an event is on the screen, in pixels of the window; for tests.
     * @param {number} event
     */
    place: (event) => {
      const line = data?.placed.yOf.get(rowOf(data.rows, event));
      if (!data || !line) return null;
      const box = canvas.getBoundingClientRect();
      const start = data.timeline.start[event];
      const end = start + data.timeline.dur[event];
      const middle = (Math.max(start, view.start) + Math.min(end, view.end)) / 2;
      return {
        x: box.left + ((middle - view.start) / view.length) * width(),
        y: box.top + line.y - body.scrollTop + line.height / 2,
      };
    },
  };
}

/**
 * Says what is not drawn.
 * @param {Timeline} timeline
 */
function showPartial({ left_out: out, shortened_names: cut, num }) {
  const missing = Object.entries(out)
    .filter(([kind, n]) => n && kind !== "python_function")
    .map(([kind, n]) => plural(n, LEFT_OUT_WORDS[kind]));
  const parts = [];
  if (missing.length) {
    parts.push(
      `This timeline shows ${plural(num, "event")}, the longest of each kind. Left out: ${missing.join(", ")}.`,
    );
  }
  if (out.device) parts.push("Breakdowns of ranges count only the device events shown here.");
  if (out.python_function) parts.push(`${plural(out.python_function, "Python stack frame")} not drawn.`);
  if (cut) parts.push(`${plural(cut, "long name")} shortened.`);
  const notice = byId("timeline-partial");
  notice.textContent = parts.join(" ");
  notice.hidden = !parts.length;
  notice.className = `notice ${missing.length ? "warn" : "aside"}`;
}

/**
 * @param {Timeline} timeline
 * @param {number} event
 */
function eventTip(timeline, event) {
  const kind = timeline.className[timeline.kind[event]];
  return tipRows(timeline.names[timeline.name[event]].slice(0, 240), palette()[kind], [
    ["class", kind],
    ["from", duration(timeline.start[event], 6)],
    ["takes", duration(timeline.dur[event])],
  ]);
}
