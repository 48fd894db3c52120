// The timeline: every stream and host thread, at any zoom. Holds the view, what is searched, selected and measured.

import { accounts } from "./account.js";
import { drawAxis } from "render/axis.js";
import { boxAtTime, eachBox, laneBoxes } from "render/boxes.js";
import { byId, fill, h, oncePerFrame, sizedContext } from "render/dom.js";
import { duration, grouped, plural, shortName } from "render/format.js";
import { attachGestures, keysOver, moveByKey } from "render/gestures.js";
import { paintFates } from "render/hatch.js";
import { difference } from "render/intervals.js";
import { durationSums, eventAt, nameWriter, paintRow, shadesFor } from "./rows.js";
import { inOrder, search } from "./search.js";
import { inkOn, onTheme, palette, SANS } from "render/theme.js";
import { hideTip, showTip, tipRows } from "render/tooltip.js";
import { allRows, labelColumn, layout, rowOf } from "./tracks.js";
import { Viewport } from "render/viewport.js";

const FONT = `11px ${SANS}`;
const AXIS = 24;
const MINI = 17;
const STRIP = 9; // pinned above the tracks: the time axis, and the lane picture in small
const LEFT_OUT_WORDS = {
  device: "device event",
  annotation: "annotation",
  host: "host range",
  far: "event more than 50 days from the rest",
};

/**
 * The timeline in its section. onView(view), onEvent(timeline, event or null), onRange(timeline, from, to or null).
 * Returns {show(rank, timeline), view, zoomTo(from, to), select(event), clear(), range(from, to, finished), find(text), stats()}.
 */
export function timelineView({ onView, onEvent, onRange }) {
  const frame = byId("timeline-frame");
  const body = byId("timeline-body");
  const cell = byId("timeline-cell");
  const gutter = byId("timeline-gutter");
  const canvas = byId("timeline-canvas");
  const axis = byId("timeline-axis");
  const box = byId("search");
  const matches = byId("search-count");
  const rangeTool = byId("range-tool");
  const view = new Viewport(0, 1);
  let data = null; // the rank's timeline and what is derived from it
  let hovered = -1;
  let selected = -1;
  let range = null;
  let found = null;
  let painted = 0;
  const closed = new Set();
  const draw = oncePerFrame(() => data && paint());
  const width = () => cell.clientWidth;

  view.onChange(() => {
    frame.dataset.start = view.start;
    frame.dataset.end = view.end;
    onView(view);
    draw();
  });
  onTheme(() => {
    if (data) data.look = null;
    draw();
  });
  new ResizeObserver(draw).observe(body);
  body.addEventListener(
    "scroll",
    () => {
      hideTip();
      draw();
    },
    { passive: true },
  );

  // On the pinned part a drag always selects a range, and a click opens a phase.
  attachGestures(axis, view, {
    left: () => 0,
    width,
    ranging: () => true,
    range: setRange,
    hover: (x, y, event) => {
      const box = miniAt(x, y);
      axis.classList.toggle("pointing", Boolean(box));
      if (box)
        showTip(
          event.clientX,
          event.clientY,
          ...tipRows(box.name, palette()[data.mini.hues.of(box)], [
            ["lane", box.lane],
            ["from", duration(box.start_ns, 5)],
            ["takes", duration(box.end_ns - box.start_ns, 4)],
          ]),
        );
      else hideTip();
    },
    leave: hideTip,
    click: (x, y) => {
      const box = miniAt(x, y);
      if (box) view.glide(box.start_ns, box.end_ns);
    },
  });
  const ranging = () => rangeTool.getAttribute("aria-pressed") === "true";
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
      canvas.classList.toggle("pointing", under >= 0);
      if (under >= 0) showTip(event.clientX, event.clientY, ...eventTip(under));
      else hideTip();
    },
    leave: () => {
      hovered = -1;
      hideTip();
      draw();
    },
    click: (x, y) => select(at(x, y)),
    double: (x, y) => {
      const under = at(x, y);
      if (under >= 0) zoomToEvent(under);
    },
    range: setRange,
    scroll: (dy) => {
      body.scrollTop += dy;
    },
  });
  keysOver(frame, (event) => {
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
    }[event.key];
    if (own && data) {
      own();
      event.preventDefault();
    } else moveByKey(view, event);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
  box.addEventListener("input", () => find(box.value));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") jump(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      box.value = "";
      find("");
    }
  });
  byId("search-next").addEventListener("click", () => jump(1));
  byId("search-prev").addEventListener("click", () => jump(-1));
  byId("timeline-fit").addEventListener("click", () => view.glide(...view.home));
  byId("timeline-in").addEventListener("click", () => view.zoom(0.6));
  byId("timeline-out").addEventListener("click", () => view.zoom(1 / 0.6));
  byId("range-view").addEventListener("click", () => data && setRange(view.start, view.end, true));
  rangeTool.addEventListener("click", () => rangeTool.setAttribute("aria-pressed", String(!ranging())));

  function show(rank, timeline) {
    byId("timeline-missing").hidden = Boolean(timeline?.num);
    byId("timeline-present").hidden = !timeline?.num;
    closed.clear();
    data = null;
    select(-1);
    setRange(null);
    if (!timeline?.num) {
      byId("timeline-missing").textContent = timeline
        ? "The trace holds no events to draw."
        : "This page does not hold this rank's timeline. Name the rank when writing the report, and it will.";
      return;
    }
    data = {
      rank,
      timeline,
      rows: allRows(timeline),
      sums: durationSums(timeline),
      look: null,
      ...pinned(rank, timeline),
    };
    partial();
    place();
    const span = rank.span_ns || timeline.endNs - timeline.firstNs;
    const from = rank.span_ns ? 0 : timeline.firstNs;
    view.reset(Math.min(timeline.firstNs, 0), Math.max(timeline.endNs, span), [from, from + span]);
    find(box.value);
    paint();
  }

  /** What is drawn above the tracks: the lanes' boxes and, where there is device work, what became of the communication. */
  function pinned(rank, timeline) {
    const mini = laneBoxes(rank);
    const of = accounts(timeline);
    const rows = mini.boxes.length
      ? mini.lanes.map((lane, row) => [lane.lane, AXIS + row * (MINI + STRIP + 2), MINI])
      : [];
    const fates = {
      hidden: of.hidden,
      exposed: of.exposed,
      idle: difference([0, rank.span_ns], of.busy),
      y: AXIS + (rows.length ? MINI + 1 : 0),
    };
    const top = Math.max(fates.y + STRIP + 2, ...rows.map(([, y, height]) => y + height + 2));
    frame.style.setProperty("--top", `${top}px`);
    fill(
      byId("timeline-top"),
      rows.map(([name, y, height]) => h("span", { text: name, style: { top: `${y}px`, height: `${height}px` } })),
    );
    return { mini, fates, top, miniRows: rows };
  }

  function miniAt(x, y) {
    const row = data ? data.miniRows.findIndex(([, top, height]) => y >= top && y < top + height) : -1;
    return row < 0
      ? null
      : boxAtTime(data.mini.byRow[row], view.start + (x / width()) * view.length, view.length / width());
  }

  /** Says what is not drawn. */
  function partial() {
    const { left_out: out, shortened_names: cut, num } = data.timeline;
    const missing = Object.entries(out)
      .filter(([kind, n]) => n && kind !== "python_function")
      .map(([kind, n]) => plural(n, LEFT_OUT_WORDS[kind]));
    const parts = [];
    if (missing.length)
      parts.push(`Drawn: ${plural(num, "event")}, the longest of each kind. Left out: ${missing.join(", ")}.`);
    if (out.device) parts.push("Breakdowns of ranges count only the device events drawn here.");
    if (out.python_function) parts.push(`${plural(out.python_function, "Python stack frame")} not drawn.`);
    if (cut) parts.push(`${plural(cut, "long name")} shortened.`);
    const notice = byId("timeline-partial");
    notice.textContent = parts.join(" ");
    notice.hidden = !parts.length;
    notice.className = `notice ${missing.length ? "warn" : "aside"}`;
  }

  function place() {
    data.placed = layout(data.timeline, data.rows, closed);
    labelColumn(gutter, data.placed, data.rank.streams, (group) => {
      if (closed.has(group)) closed.delete(group);
      else closed.add(group);
      place();
      draw();
    });
  }

  function find(text) {
    found = data ? search(data.timeline, text) : null;
    matches.textContent = found
      ? `${found.num === 1 ? "1 match" : `${grouped(found.num)} matches`}, ${plural(found.names, "name")}`
      : "";
    matches.classList.toggle("none", Boolean(found) && found.num === 0);
    byId("search-next").disabled = byId("search-prev").disabled = !found?.num;
    draw();
  }

  /** To the next (1) or previous (-1) match by time, from the selected event or the left edge of the view. */
  function jump(step) {
    if (!found?.num) return;
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

  /** Brings an event into view: opens its group, scrolls to its row, and pans or zooms only as far as needed. */
  function reveal(event) {
    const row = rowOf(data.rows, event);
    if (closed.delete(row.group)) place();
    const line = data.placed.yOf.get(row);
    const visible = body.clientHeight - data.top;
    if (line.y < body.scrollTop || line.y + line.height > body.scrollTop + visible)
      body.scrollTop = Math.max(0, line.y - visible / 2);
    const start = data.timeline.start[event];
    const dur = data.timeline.dur[event];
    const length = Math.min(view.length, Math.max(dur * 60, 2000));
    const middle = start + dur / 2;
    if (length < view.length || start < view.start || start + dur > view.end)
      view.glide(middle - Math.max(length, dur * 1.3) / 2, middle + Math.max(length, dur * 1.3) / 2);
  }

  function zoomToEvent(event) {
    const start = data.timeline.start[event];
    const dur = Math.max(1, data.timeline.dur[event]);
    view.glide(start - 0.6 * dur, start + 1.6 * dur);
  }

  function select(event) {
    selected = event;
    onEvent(data?.timeline ?? null, event);
    draw();
  }

  function setRange(from, to, finished) {
    range = from === null || from === undefined ? null : [Math.round(from), Math.round(to)];
    if (!range || finished) onRange(data?.timeline ?? null, range);
    draw();
  }

  function at(x, y) {
    if (!data) return -1;
    const inner = y + body.scrollTop;
    const line = data.placed.lines.find((candidate) => inner >= candidate.y && inner < candidate.y + candidate.height);
    if (!line) return -1;
    const time = view.start + (x / width()) * view.length;
    const slack = (2 * view.length) / width();
    for (const row of line.rows) {
      const event = eventAt(data.timeline, row, time, slack);
      if (event >= 0) return event;
    }
    return -1;
  }

  function eventTip(event) {
    const { timeline } = data;
    return tipRows(
      timeline.names[timeline.name[event]].slice(0, 240),
      palette()[timeline.className[timeline.kind[event]]],
      [
        ["class", timeline.className[timeline.kind[event]]],
        ["from", duration(timeline.start[event], 6)],
        ["takes", duration(timeline.dur[event], 4)],
      ],
    );
  }

  function paint() {
    if (width() < 10) return;
    const began = performance.now();
    const colors = palette();
    const visible = Math.max(40, Math.min(body.clientHeight - data.top, data.placed.height));
    const context = sizedContext(canvas, width(), visible);
    if (!data.look) {
      data.look = shadesFor(data.timeline, colors);
      data.write = nameWriter(context, data.timeline, FONT);
    }
    paintTop(colors);
    context.clearRect(0, 0, width(), visible);
    drawAxis(context, {
      view,
      left: 0,
      width: width(),
      height: 6,
      bottom: visible,
      colors: { ...colors, muted: "transparent" },
      font: FONT,
    });
    const top = body.scrollTop;
    const options = { view, width: width(), look: data.look, sums: data.sums, hits: found?.hits ?? null };
    for (const line of data.placed.lines) {
      if (line.y + line.height < top || line.y > top + visible) continue;
      for (const row of line.rows) {
        paintRow(context, data.timeline, row, {
          ...options,
          y: line.y - top + 1,
          height: line.height - 2,
          label: line.kind === "closed" ? null : data.write,
        });
      }
    }
    paintRange(context, visible, colors);
    paintPicked(context, top, colors);
    painted = performance.now() - began;
  }

  /** The pinned part: the axis, and the lane picture in small, at this zoom. */
  function paintTop(colors) {
    const context = sizedContext(axis, width(), data.top);
    context.clearRect(0, 0, width(), data.top);
    drawAxis(context, { view, left: 0, width: width(), height: AXIS, bottom: AXIS, colors, font: FONT });
    data.miniRows.forEach(([, y, height], row) => {
      eachBox(data.mini.byRow[row], view, width(), (box, x0, x1) => {
        const color = colors[data.mini.hues.of(box)];
        context.fillStyle = color;
        context.fillRect(x0, y, Math.max(1, x1 - x0 - (x1 - x0 > 3 ? 1 : 0)), height);
        const left = Math.max(0, x0);
        const room = Math.min(width(), x1) - left - 6;
        const text = shortName(box.name);
        context.font = FONT;
        if (room < 18 || context.measureText(text).width > room) return;
        context.fillStyle = inkOn(color);
        context.textAlign = "left";
        context.textBaseline = "middle";
        context.fillText(text, left + 4, y + height / 2 + 0.5);
      });
    });
    paintFates(context, data.fates, view, width(), data.fates.y, STRIP, colors);
    if (!range) return;
    context.fillStyle = colors.accent;
    context.fillRect(
      ((range[0] - view.start) / view.length) * width(),
      0,
      ((range[1] - range[0]) / view.length) * width(),
      3,
    );
  }

  function paintRange(context, height, colors) {
    if (!range) return;
    const [x0, x1] = range.map((ns) => ((ns - view.start) / view.length) * width());
    context.fillStyle = colors.accent;
    context.globalAlpha = 0.14;
    context.fillRect(x0, 0, x1 - x0, height);
    context.globalAlpha = 1;
    context.fillRect(x0 - 0.5, 0, 1.5, height);
    context.fillRect(x1 - 0.5, 0, 1.5, height);
    const text = duration(range[1] - range[0], 4);
    context.font = `600 ${FONT}`;
    const w = context.measureText(text).width + 12;
    const middle = (Math.max(0, x0) + Math.min(width(), x1)) / 2;
    context.beginPath();
    context.roundRect(middle - w / 2, 4, w, 18, 9);
    context.fill();
    context.fillStyle = colors.panel;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, middle, 13.5);
  }

  /** Outlines of the hovered and the selected event, and the line from a kernel to its launch. */
  function paintPicked(context, top, colors) {
    const rectOf = (event) => {
      const line = data.placed.yOf.get(rowOf(data.rows, event));
      if (!line) return null; // in a closed group
      const x = ((data.timeline.start[event] - view.start) / view.length) * width();
      return { x, y: line.y - top, w: Math.max(2, (data.timeline.dur[event] / view.length) * width()), h: line.height };
    };
    for (const [event, color, thick] of [
      [hovered, colors.text, 1.25],
      [selected, colors.accent, 2.5],
    ]) {
      const rect = event >= 0 ? rectOf(event) : null;
      if (!rect) continue;
      context.strokeStyle = color;
      context.lineWidth = thick;
      context.strokeRect(rect.x - 0.5, rect.y + 0.5, rect.w + 0.5, rect.h - 1);
    }
    context.lineWidth = 1;
    const launch = launchOf(selected);
    const from = launch >= 0 ? rectOf(launch) : null;
    const to = from ? rectOf(selected) : null;
    if (!to) return;
    context.strokeStyle = colors.accent;
    context.lineWidth = 1.5;
    context.setLineDash([5, 3]);
    context.beginPath();
    const x0 = from.x + from.w / 2;
    const y0 = from.y < to.y ? from.y + from.h : from.y;
    const y1 = from.y < to.y ? to.y : to.y + to.h;
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, (y0 + y1) / 2, to.x, (y0 + y1) / 2, to.x, y1);
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  /** The host call that launched a device event, or -1. */
  function launchOf(event) {
    return event >= 0 && event < data.timeline.numDevice ? data.timeline.launch[event] - 1 : -1;
  }

  return {
    show,
    view,
    zoomTo: (from, to) => view.glide(from, to),
    select: (event) => {
      select(event);
      reveal(event);
    },
    clear: () => select(-1),
    range: setRange,
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
    /** Where an event is on the screen, in pixels of the window; for tests. */
    place: (event) => {
      const at = canvas.getBoundingClientRect();
      const line = data.placed.yOf.get(rowOf(data.rows, event));
      const start = data.timeline.start[event];
      const end = start + data.timeline.dur[event];
      const middle = (Math.max(start, view.start) + Math.min(end, view.end)) / 2;
      return {
        x: at.left + ((middle - view.start) / view.length) * width(),
        y: at.top + line.y - body.scrollTop + line.height / 2,
      };
    },
  };
}
