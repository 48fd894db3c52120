// The lane picture: which communication lies behind which computation. Two bands of boxes, one a phase, as in DeepSeek's
// published profiles; between them a strip that says what became of the communication: hidden, exposed, or the device idle.

import { drawAxis } from "./axis.js";
import { boxAtTime, eachBox, laneBoxes, phaseOf } from "./boxes.js";
import { byId, fill, h, oncePerFrame, sizedContext } from "./dom.js";
import { duration, percent, shortName } from "./format.js";
import { attachGestures, keysOver, moveByKey } from "./gestures.js";
import { eachStretch, hatch, joined, paintFates } from "./hatch.js";
import { difference, lengthWithin, union } from "./intervals.js";
import { inkOn, mix, onTheme, palette, SANS } from "./theme.js";
import { defined, hideTip, showTip, tipRows } from "./tooltip.js";
import { Viewport } from "./viewport.js";

const AXIS = 24;
const CALLOUTS = 22;
const BAND = 92;
const STRIP = 22;
const GAP = 5;
const FOOT = 8;
const DIRECTION_NAMES = { F: "forward", B: "backward", W: "weight gradient", I: "input gradient" };
const NUM_CALLOUTS = 6;

/**
 * The lane picture in its section. accounts(timeline): its hidden, exposed and busy unions. onBox(box): a box was chosen; onRange(from, to, finished): a range was drawn.
 * Returns {show(rank, timeline), view, mark(window), range(from, to), boxes(), place(box)}.
 */
export function lanePicture({ accounts, onBox, onRange }) {
  const canvas = byId("lanes-canvas");
  const frame = byId("lanes-frame");
  const gutter = byId("lanes-gutter");
  const live = byId("lanes-live");
  const view = new Viewport(0, 1);
  let picture = null;
  let hovered = null;
  let focused = null;
  let marked = null;
  let ranged = null;
  const draw = oncePerFrame(() => picture && paint());
  const width = () => frame.clientWidth;

  view.onChange(() => {
    frame.dataset.start = view.start;
    frame.dataset.end = view.end;
    draw();
  });
  onTheme(() => {
    if (picture) legend();
    draw();
  });
  new ResizeObserver(draw).observe(frame);
  byId("lanes-fit").addEventListener("click", () => view.glide(...view.home));
  byId("lanes-in").addEventListener("click", () => view.zoom(0.6));
  byId("lanes-out").addEventListener("click", () => view.zoom(1 / 0.6));

  attachGestures(canvas, view, {
    left: () => 0,
    width,
    hover: (x, y, event) => {
      hovered = boxAt(x, y);
      canvas.classList.toggle("pointing", Boolean(hovered));
      if (hovered) showTip(event.clientX, event.clientY, ...boxTip(hovered));
      else {
        const tip = stripTip(x, y);
        if (tip) showTip(event.clientX, event.clientY, ...tip);
        else hideTip();
      }
      draw();
    },
    leave: () => {
      hovered = null;
      hideTip();
      draw();
    },
    click: (x, y) => {
      const box = boxAt(x, y);
      if (box) choose(box);
    },
    double: (x, y) => {
      const box = boxAt(x, y);
      if (box) view.glide(box.start_ns - (box.end_ns - box.start_ns), box.end_ns + (box.end_ns - box.start_ns));
    },
    range: onRange,
  });
  keysOver(frame, (event) => {
    if (!picture || (document.activeElement === canvas && stepByKey(event))) return;
    moveByKey(view, event);
  });
  canvas.addEventListener("blur", () => {
    focused = null;
    draw();
  });

  function show(rank, timeline) {
    picture = { rank, ...laneBoxes(rank), ...strips(rank, timeline) };
    const { boxes } = picture;
    hovered = focused = marked = ranged = null;
    byId("lanes-empty").hidden = boxes.length > 0;
    byId("lanes-lead").hidden = rank.communication_ns === 0;
    byId("lanes-picture").hidden = boxes.length === 0;
    if (boxes.length === 0) return;
    labels();
    legend();
    canvas.setAttribute("aria-label", described(picture));
    view.reset(0, rank.span_ns);
    paint();
  }

  /** What the strip shows: exact from the timeline's events; from the report's stretches where there is no timeline. */
  function strips(rank, timeline) {
    if (timeline?.num) {
      const of = accounts(timeline);
      return { hidden: of.hidden, exposed: of.exposed, idle: difference([0, rank.span_ns], of.busy) };
    }
    return { hidden: [], exposed: union(rank.exposed), idle: [] };
  }

  function choose(box) {
    focused = box;
    live.textContent = boxWords(box);
    onBox(box);
    draw();
  }

  function stepByKey(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 0, ArrowDown: 0 };
    if (event.key === "Enter" && focused) {
      choose(focused);
      return true;
    }
    if (!(event.key in moves)) return false;
    event.preventDefault();
    const row = focused ? focused.row : 0;
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const other =
        picture.byRow[Math.min(Math.max(row + (event.key === "ArrowDown" ? 1 : -1), 0), picture.byRow.length - 1)];
      const middle = focused ? (focused.start_ns + focused.end_ns) / 2 : view.start;
      focused =
        other.reduce(
          (best, box) =>
            !best ||
            Math.abs(box.start_ns + box.end_ns - 2 * middle) < Math.abs(best.start_ns + best.end_ns - 2 * middle)
              ? box
              : best,
          null,
        ) ?? focused;
    } else {
      const line = picture.byRow[row];
      const at = focused ? line.indexOf(focused) + moves[event.key] : line.findIndex((box) => box.end_ns > view.start);
      focused = line[Math.min(Math.max(at, 0), line.length - 1)] ?? focused;
    }
    if (focused) {
      if (focused.start_ns < view.start || focused.end_ns > view.end)
        view.pan(focused.start_ns - view.start - 0.1 * view.length);
      live.textContent = boxWords(focused);
    }
    draw();
    return true;
  }

  // Where things are. x in CSS pixels of the canvas.
  const xOf = (ns) => ((ns - view.start) / view.length) * width();
  const bandTop = (row) => AXIS + CALLOUTS + row * (BAND + 2 * GAP + STRIP);
  const stripTop = () => bandTop(0) + BAND + GAP;
  const heightAll = () => bandTop(Math.max(picture.lanes.length, 1) - 1) + BAND + FOOT;

  function boxAt(x, y) {
    const row = picture ? picture.lanes.findIndex((_, r) => y >= bandTop(r) && y < bandTop(r) + BAND) : -1;
    if (row < 0) return null;
    const slack = 1.5 * (view.length / width());
    const time = view.start + (x / width()) * view.length;
    return boxAtTime(picture.byRow[row], time, slack);
  }

  function place(box) {
    const at = canvas.getBoundingClientRect();
    return { x: at.left + (xOf(box.start_ns) + xOf(box.end_ns)) / 2, y: at.top + bandTop(box.row) + BAND / 2 };
  }

  function paint() {
    if (!picture?.boxes.length || width() < 10) return;
    const colors = palette();
    const context = sizedContext(canvas, width(), heightAll());
    context.clearRect(0, 0, width(), heightAll());
    drawAxis(context, {
      view,
      left: 0,
      width: width(),
      height: AXIS,
      bottom: heightAll() - FOOT,
      colors,
      font: `11px ${SANS}`,
    });
    picture.lanes.forEach((_, row) => {
      context.fillStyle = colors.raised;
      context.fillRect(0, bandTop(row), width(), BAND);
    });
    for (const line of picture.byRow) paintBoxes(context, line, colors);
    paintStops(context, colors);
    paintExposed(context, colors);
    for (const line of picture.byRow) paintNames(context, line, colors);
    paintStrip(context, colors);
    paintOverlays(context, colors);
  }

  function paintBoxes(context, line, colors) {
    eachBox(line, view, width(), (box, x0, x1) => {
      const y = bandTop(box.row);
      const color = colors[picture.hues.of(box)];
      const w = Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0));
      context.fillStyle = box === hovered ? mix(color, inkOn(color), 0.14) : color;
      context.beginPath();
      context.roundRect(x0, y, w, BAND, Math.min(4, w / 3));
      context.fill();
      if (box === hovered || box === focused) {
        context.strokeStyle = colors.text;
        context.lineWidth = 2;
        context.stroke();
        context.lineWidth = 1;
      }
    });
  }

  function paintNames(context, line, colors) {
    eachBox(line, view, width(), (box, x0, x1) => {
      paintName(
        context,
        box,
        Math.max(0, x0),
        Math.min(width(), x1),
        bandTop(box.row),
        inkOn(colors[picture.hues.of(box)]),
      );
    });
  }

  /** A box's name: on one line, else broken before its bracket, else upright; with its time where there is room. */
  function paintName(context, box, x0, x1, y, ink) {
    const room = x1 - x0;
    if (room < 11) return;
    const name = shortName(box.name);
    const time = duration(box.end_ns - box.start_ns, 2);
    const cut = name.lastIndexOf("(");
    const broken = cut > 0 ? [name.slice(0, cut), name.slice(cut)] : [name];
    const wide = (text, font) => {
      context.font = font;
      return context.measureText(text).width;
    };
    const bold = (size) => `600 ${size}px ${SANS}`;
    context.fillStyle = ink;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const middle = (x0 + x1) / 2;
    const write = (lines, size) => {
      const withTime = wide(time, `400 11px ${SANS}`) <= room - 6;
      const step = size + 3;
      const top = y + BAND / 2 - ((lines.length - 1) * step + (withTime ? 17 : 0)) / 2;
      context.font = bold(size);
      lines.forEach((text, i) => context.fillText(text, middle, top + i * step));
      if (!withTime) return;
      context.font = `400 11px ${SANS}`;
      context.globalAlpha = 0.85;
      context.fillText(time, middle, top + (lines.length - 1) * step + 18);
      context.globalAlpha = 1;
    };
    // One size where it fits, so that width says time and type says nothing.
    if (wide(name, bold(12)) <= room - 6) {
      write([name], 12);
      return;
    }
    for (const size of [12, 11]) {
      if (Math.max(...broken.map((text) => wide(text, bold(size)))) <= room - 4) {
        write(broken, size);
        return;
      }
    }
    const size = room > 15 ? 12 : 9;
    context.font = bold(size);
    if (context.measureText(name).width > BAND - 8) return;
    context.save();
    context.translate(middle, y + BAND / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(name, 0, 0.5);
    context.restore();
  }

  /** Idle: nothing ran, so both bands show it, also inside the box of a phase that stood still. */
  function paintStops(context, colors) {
    const pattern = hatch(context, colors.idle);
    eachStretch(picture.idle, view, 0, width(), (x, w) => {
      if (w < 2) return;
      picture.lanes.forEach((_, row) => {
        context.globalAlpha = 0.72;
        context.fillStyle = colors.raised;
        context.fillRect(x, bandTop(row), w, BAND);
        context.globalAlpha = 1;
        context.fillStyle = pattern;
        context.fillRect(x, bandTop(row), w, BAND);
      });
    });
  }

  /** Exposed communication: a red hatch where the compute band stands still, and the cost written above the worst. */
  function paintExposed(context, colors) {
    const pattern = hatch(context, colors.exposed);
    const computeRow = picture.lanes.findIndex((lane) => lane.lane === "compute");
    const stretches = [];
    eachStretch(picture.exposed, view, 0, width(), (x, w) => {
      if (w < 1.5) return;
      const y = bandTop(Math.max(computeRow, 0));
      context.fillStyle = mix(colors.raised, colors.exposed, 0.16);
      context.globalAlpha = 0.9;
      context.fillRect(x, y, w, BAND);
      context.globalAlpha = 1;
      context.fillStyle = pattern;
      context.fillRect(x, y, w, BAND);
      context.strokeStyle = colors.exposed;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), BAND - 1);
      stretches.push([x, w]);
    });
    const taken = [];
    for (const [x, w] of stretches.sort((a, b) => b[1] - a[1]).slice(0, NUM_CALLOUTS)) {
      if (w < 2) break;
      const text = `${duration((w / width()) * view.length, 2)} exposed`;
      context.font = `600 11px ${SANS}`;
      const half = context.measureText(text).width / 2 + 7;
      const middle = Math.min(Math.max(x + w / 2, half), width() - half);
      if (taken.some(([from, to]) => middle + half > from && middle - half < to)) continue;
      taken.push([middle - half - 4, middle + half + 4]);
      context.fillStyle = colors.exposed;
      context.beginPath();
      context.roundRect(middle - half, AXIS + 1, 2 * half, 16, 8);
      context.fill();
      context.fillRect(x + w / 2 - 0.75, AXIS + 16, 1.5, 6);
      context.fillStyle = inkOn(colors.exposed);
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(text, middle, AXIS + 9.5);
    }
  }

  function paintStrip(context, colors) {
    if (picture.lanes.length < 2) return;
    const y = stripTop();
    context.fillStyle = colors.raised;
    context.fillRect(0, y, width(), STRIP);
    paintFates(context, picture, view, width(), y, STRIP, colors);
    // Words where a stretch is long: the strip explains itself.
    context.font = `500 11px ${SANS}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const [flat, word, color] of [
      [picture.hidden, "hidden", colors.hidden],
      [picture.exposed, "exposed", colors.exposed],
      [picture.idle, "idle", colors.idle],
    ]) {
      eachStretch(joined(flat, (2 * view.length) / width()), view, 0, width(), (x, w) => {
        if (w < context.measureText(word).width + 12) return;
        context.fillStyle = inkOn(color);
        context.fillText(word, x + w / 2, y + STRIP / 2 + 0.5);
      });
    }
  }

  /** The timeline's window as a bracket on the axis, and the selected range. */
  function paintOverlays(context, colors) {
    if (ranged) {
      const x0 = xOf(ranged[0]);
      const x1 = xOf(ranged[1]);
      context.globalAlpha = 0.16;
      context.fillStyle = colors.accent;
      context.fillRect(x0, AXIS, x1 - x0, heightAll() - AXIS - FOOT);
      context.globalAlpha = 1;
      context.fillRect(x0 - 0.5, AXIS, 1, heightAll() - AXIS - FOOT);
      context.fillRect(x1 - 0.5, AXIS, 1, heightAll() - AXIS - FOOT);
    }
    if (!marked) return;
    const x0 = Math.max(0, xOf(marked[0]));
    const x1 = Math.min(width(), xOf(marked[1]));
    if (x1 <= x0) return;
    context.fillStyle = colors.accent;
    context.fillRect(x0, heightAll() - 4, Math.max(3, x1 - x0), 3);
  }

  function labels() {
    fill(
      gutter,
      picture.lanes.map((lane, row) =>
        h(
          "div",
          { class: "lane-label", style: { top: `${bandTop(row)}px`, height: `${BAND}px` } },
          h("b", { text: lane.lane }),
          lane.sms === null
            ? null
            : h("span", { class: "lane-sms" }, `${lane.sms_exact ? "" : "≤ "}${lane.sms} `, defined("sms")),
          h("span", { class: "muted", text: `${duration(lane.busy_ns)} busy` }),
          h("span", {
            class: "faint",
            text: lane.streams?.length ? `stream${lane.streams.length > 1 ? "s" : ""} ${lane.streams.join(", ")}` : "",
          }),
        ),
      ),
      picture.lanes.length > 1
        ? h(
            "div",
            { class: "lane-label strip-label", style: { top: `${stripTop()}px`, height: `${STRIP}px` } },
            h("span", { text: "communication is" }),
          )
        : null,
    );
  }

  function legend() {
    const entries = picture.hues.legend;
    const shown = entries
      .slice(0, 10)
      .map(([role, label]) =>
        h("span", { class: "key" }, h("i", { class: "swatch", style: { background: palette()[role] } }), label),
      );
    const communicates = picture.rank.communication_ns > 0;
    fill(
      byId("lanes-legend"),
      shown,
      entries.length > 10 ? h("span", { class: "key faint", text: `and ${entries.length - 10} more` }) : null,
      communicates
        ? h(
            "span",
            { class: "key" },
            h("i", { class: "swatch", style: { background: palette().hidden } }),
            defined("hidden", "hidden"),
          )
        : null,
      communicates
        ? h("span", { class: "key" }, h("i", { class: "swatch hatch-exposed" }), defined("exposed", "exposed"))
        : null,
      h("span", { class: "key" }, h("i", { class: "swatch hatch-idle" }), defined("idle", "idle")),
    );
  }

  function boxTip(box) {
    const phase = phaseOf(picture.rank, box);
    const length = box.end_ns - box.start_ns;
    const exposedHere = box.lane === "communication" ? lengthWithin(picture.exposed, box.start_ns, box.end_ns) : 0;
    return tipRows(box.name, palette()[picture.hues.of(box)], [
      phase ? ["occurrence", `${box.index + 1}`] : null,
      ["lane", box.lane + (box.direction ? `, ${DIRECTION_NAMES[box.direction] ?? box.direction}` : "")],
      ["from", duration(box.start_ns, 5)],
      ["takes", duration(length, 4)],
      ["busy", duration(box.busy_ns, 4)],
      phase && box.lane === "communication"
        ? [
            "hidden",
            `${duration(phase.hidden_ns, 4)} (${percent(phase.hidden_ns / (phase.hidden_ns + phase.exposed_ns || 1))})`,
          ]
        : null,
      box.lane === "communication" ? ["exposed", duration(phase ? phase.exposed_ns : exposedHere, 4)] : null,
      phase && box.lane === "communication" ? ["moves data", duration(phase.data_ns, 4)] : null,
      box.sms === null || box.sms === undefined ? null : ["SMs", `${box.sms}`],
      phase && phase.stream !== null && phase.stream !== undefined ? ["stream", `${phase.stream}`] : null,
      ["", "click: show it in the timeline"],
    ]);
  }

  function stripTip(x, y) {
    if (!picture || picture.lanes.length < 2 || y < stripTop() || y > stripTop() + STRIP) return null;
    const time = view.start + (x / width()) * view.length;
    const slack = view.length / width();
    const inside = (flat) => lengthWithin(flat, time - slack, time + slack) > 0;
    if (inside(picture.exposed))
      return tipRows("Communication exposed", palette().exposed, [
        ["", "no compute kernel ran: the GPU waits for the network"],
      ]);
    if (inside(picture.hidden))
      return tipRows("Communication hidden", palette().hidden, [["", "a compute kernel ran at the same time"]]);
    if (inside(picture.idle)) return tipRows("Idle", palette().idle, [["", "nothing ran on the device"]]);
    return null;
  }

  return {
    show,
    view,
    mark: (window) => {
      marked = window;
      draw();
    },
    range: (range) => {
      ranged = range;
      draw();
    },
    boxes: () => picture?.boxes ?? [],
    place,
  };
}

function boxWords(box) {
  return `${box.name}, ${box.lane} lane, from ${duration(box.start_ns, 4)}, takes ${duration(box.end_ns - box.start_ns, 4)}`;
}

function described({ rank, lanes }) {
  const of = lanes
    .map((lane) => `${lane.lane}${lane.sms === null ? "" : ` on ${lane.sms} SMs`}: ${lane.boxes.length} boxes`)
    .join("; ");
  return `Lane picture of ${duration(rank.span_ns)}. ${of}. Exposed communication ${duration(rank.exposed_communication_ns)}. Arrow keys move between boxes, Enter shows one in the timeline.`;
}
