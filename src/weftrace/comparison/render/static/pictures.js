// Both runs in pictures: a step of each, its lanes and its streams, on one scale of time.

import { byId, fill, h, oncePerFrame, actionButton } from "render/dom.js";
import { duration, plural, shortName, signedDuration } from "render/format.js";
import { lanePicture } from "render/lanes.js";
import { onTheme } from "render/theme.js";
import { joinsInView, joinsOf, paintJoins, startsOf } from "./joins.js";
import { streamPicture } from "./streams.js";
import { joinedViews } from "./views.js";

/**
 * @typedef {import("render/boxes.js").Box} Box
 * @typedef {page.RankPicture} Rank
 * @typedef {page.StepPicture} Step
 * @typedef {"before" | "after"} Run
 * @typedef {{ before: Step, after: Step }} Steps
 *
 * Times that lie above each other, and what begins there; "" for the steps' starts.
 * @typedef {{ before: number, after: number, what: string }} Zero
 */

const RUNS = /** @type {const} */ (["before", "after"]);
const START = { before: 0, after: 0, what: "" };
const MARGIN = 4; // of a moved event's length is seen on each side of it
const LEAST = 0.004; // of the step is seen around it, at least

/**
 * Draws the pictures and returns what the tables open them by; null where one side has none.
 * @param {Rank[]} ranks
 * @param {number} num of how many
 */
export function pictures(ranks, num) {
  const drawn = ranks.filter((rank) => rank.before && rank.after);
  byId("both").hidden = byId("streams").hidden = drawn.length === 0;
  const missing = [...new Set(ranks.flatMap((rank) => rank.missing))];
  byId("lanes-missing").hidden = missing.length === 0;
  byId("lanes-missing").textContent = `Not drawn: ${missing.join("; ")}.`;
  if (!drawn.length) {
    byId("lanes-missing").hidden = false;
    if (!missing.length) byId("lanes-missing").textContent = "Nothing to draw: the document holds no events.";
    byId("lanes").classList.add("undrawn");
    return null;
  }
  let rank = drawn[0];
  const shown = { before: rank.before?.shown ?? 0, after: rank.after?.shown ?? 0 };
  /** @type {Zero} */
  let zero = START;
  /** @type {import("./joins.js").Joins} */
  let joins = { joins: [], apart: [] };
  const lanes = { before: lanesOf("before"), after: lanesOf("after") };
  const streams = {
    before: streamPicture(byId("before-streams"), "before", lanes.before.view),
    after: streamPicture(byId("after-streams"), "after", lanes.after.view),
  };
  const views = joinedViews({ before: [lanes.before.view], after: [lanes.after.view] });
  const draw = oncePerFrame(paint);
  lanes.before.view.onChange(draw);
  onTheme(draw);
  new ResizeObserver(draw).observe(byId("both"));
  show();
  return {
    show: choose,
    align,
    open,
    streams,
    lanes,
    steps,
    joins: () => joins,
    zeros: views.zeros,
    seen,
    labels,
    stepsOf,
    clear,
    ranks: () => drawn.map(({ name }) => name),
  };

  /** @param {Run} run */
  function lanesOf(run) {
    const nothing = { compute: [], communication: [], hidden: [], exposed: [], busy: [] };
    return lanePicture({ accounts: () => nothing, onBox: (box) => alignAt(run, box), onRange: () => {} }, run);
  }

  /** @returns {Steps} */
  function steps() {
    const { before, after } = rank;
    if (!before || !after) throw new Error(`${rank.name} has one side alone`);
    return { before: before.steps[shown.before], after: after.steps[shown.after] };
  }

  /** @param {Run} run */
  function labels(run) {
    return rank[run]?.labels ?? [];
  }

  /**
   * The numbers of the steps that can be shown.
   * @param {Run} run
   */
  function stepsOf(run) {
    return rank[run]?.steps.map((step) => step.step) ?? [];
  }

  function show() {
    const found = steps();
    lanes.before.show(found.before.lanes, null, found.after.lanes.lanes);
    lanes.after.show(found.after.lanes, null, found.before.lanes.lanes);
    for (const run of RUNS) {
      const of = rank[run];
      if (of) streams[run].show(of, found[run]);
      byId(`${run}-streams`).hidden = !found[run].rows.length;
    }
    byId("streams").hidden = !found.before.rows.length && !found.after.rows.length;
    joins = joinsOf(found.before.lanes.lanes, found.after.lanes.lanes);
    byId("join-words").textContent = joinWords(joins);
    showChosen();
    align(START);
  }

  /**
   * Another rank, or other steps of it.
   * @param {Partial<{ rank: number, before: number, after: number }>} chosen positions
   */
  function choose(chosen) {
    if (chosen.rank !== undefined) {
      rank = drawn[chosen.rank];
      Object.assign(shown, { before: rank.before?.shown ?? 0, after: rank.after?.shown ?? 0 });
    }
    for (const run of RUNS) shown[run] = chosen[run] ?? shown[run];
    show();
  }

  /** @param {Zero} at */
  function align(at) {
    zero = at;
    const { before, after } = steps();
    views.set({ before: before.lanes.span_ns, after: after.lanes.span_ns }, at);
    fill(
      byId("align"),
      actionButton("From the start", () => align(START), { "aria-pressed": String(!at.what) }),
      h("button", {
        type: "button",
        text: at.what ? `At ${at.what}` : "At the phase clicked",
        "aria-pressed": String(Boolean(at.what)),
        disabled: !at.what,
      }),
    );
    draw();
  }

  /**
   * Lays both at the start of the phase of a box; stays in view what was.
   * @param {Run} run
   * @param {Box} box
   */
  function alignAt(run, box) {
    const at = startOf(run, box.name, box.start_ns);
    if (!at) {
      byId(`${run}-live`).textContent = `${box.name}: the other step has no such phase to lay it at.`;
      return;
    }
    const { start, end } = lanes[run].view;
    align(at);
    lanes[run].view.set(start, end);
  }

  /**
   * The start of the phase that an event is of, where both steps have it.
   * @param {Run} run
   * @param {number} at
   * @returns {Zero | null}
   */
  function phaseAround(run, at) {
    const events = streams[run].events();
    const phase = events && labels(run)[events.label[at]].phase;
    return phase ? startOf(run, phase, events.start[at]) : null;
  }

  /**
   * The start before a time of what goes by a name, and that of the same occurrence in the other step.
   * @param {Run} run
   * @param {string} name
   * @param {number} time
   * @returns {Zero | null}
   */
  function startOf(run, name, time) {
    const found = steps();
    const starts = { before: startsOf(found.before.lanes.lanes), after: startsOf(found.after.lanes.lanes) };
    const own = starts[run].get(name) ?? [];
    const nth = own.findLastIndex((start) => start <= time);
    const [before, after] = RUNS.map((each) => starts[each].get(name)?.[nth]);
    if (nth < 0 || before === undefined || after === undefined) return null;
    return { before, after, what: own.length > 1 ? `${name} ${nth + 1}` : name };
  }

  /**
   * Shows events of both: lays them above each other, marks others like them.
   * @param {{ before: number[], after: number[] }} events of each step shown
   * @param {number} nth which of them
   * @param {string} what
   */
  function open(events, nth, what) {
    const found = RUNS.map((run) => {
      streams[run].mark(events[run]);
      const of = streams[run].events();
      const at = events[run][Math.min(nth, events[run].length - 1)];
      return of && at !== undefined ? { start: of.start[at], dur: Number(of.dur[at]) } : null;
    });
    const [before, after] = found;
    const first = before ?? after;
    if (!first) return;
    const name = what.length > 24 ? `${shortName(what).slice(0, 23)}…` : what;
    const nthOf = events.after.length > 1 ? ` ${nth + 1}` : "";
    const both = before && after ? { before: before.start, after: after.start, what: `${name}${nthOf}` } : null;
    const alone = events[before ? "before" : "after"];
    align(both ?? phaseAround(before ? "before" : "after", alone[Math.min(nth, alone.length - 1)]) ?? START);
    const { before: step } = steps();
    const room = Math.max(MARGIN * Math.max(before?.dur ?? 0, after?.dur ?? 0), LEAST * step.lanes.span_ns);
    RUNS.forEach((run, at) => {
      const event = found[at];
      lanes[run].range(event && [event.start, event.start + event.dur]);
    });
    lanes[before ? "before" : "after"].view.glide(first.start - room, first.start + first.dur + room);
    byId("both").scrollIntoView({ block: "start" });
  }

  /** No event is marked any more. */
  function clear() {
    for (const run of RUNS) {
      streams[run].mark(null);
      lanes[run].range(null);
    }
    align(START);
  }

  function showChosen() {
    fill(
      byId("chosen"),
      drawn.length > 1
        ? select(
            drawn.length < num ? `rank (the ${drawn.length} of ${num} that changed most)` : "rank",
            drawn,
            drawn.indexOf(rank),
            (each) => `${each.name} · ${signedDuration(each.change_ns)}`,
            (at) => choose({ rank: at }),
          )
        : null,
      ...RUNS.map((run) => {
        const of = rank[run];
        if (!of || of.steps.length < 2) return null;
        const rest = of.num_steps > of.steps.length ? ` (${of.steps.length} of ${of.num_steps})` : "";
        /** @param {Step} step @param {number} at */
        const told = (step, at) =>
          `${step.step} · ${duration(step.lanes.span_ns, 4)}${at === of.shown ? ", median" : ""}`;
        return select(`step ${run}${rest}`, of.steps, shown[run], told, (at) => choose({ [run]: at }));
      }),
    );
  }

  function place() {
    const box = byId("both").getBoundingClientRect();
    const [above, below] = RUNS.map((run) => byId(`${run}-canvas`, HTMLCanvasElement).getBoundingClientRect());
    return {
      left: above.left - box.left,
      width: byId("before-frame").clientWidth,
      height: box.height,
      top: above.top - box.top + lanes.before.extent()[1],
      bottom: below.top - box.top + lanes.after.extent()[0],
    };
  }

  function seen() {
    return joinsInView(joins.joins, viewsNow(), byId("before-frame").clientWidth);
  }

  function viewsNow() {
    return { before: lanes.before.view, after: lanes.after.view };
  }

  function paint() {
    const { before, after } = steps();
    const ends = { before: before.lanes.span_ns, after: after.lanes.span_ns };
    const at = place();
    if (at.width < 10 || at.bottom <= at.top) return;
    const late = ends.after - zero.after - (ends.before - zero.before);
    const words = `the step ends ${late ? signedDuration(late) : "together"}`;
    paintJoins(byId("joins", HTMLCanvasElement), seen(), ends, viewsNow(), at, words);
  }
}

/**
 * @template Item
 * @param {string} label
 * @param {Item[]} items
 * @param {number} chosen
 * @param {(item: Item, at: number) => string} told
 * @param {(at: number) => void} onChange
 */
function select(label, items, chosen, told, onChange) {
  const options = items.map((item, at) => h("option", { value: at, text: told(item, at), selected: at === chosen }));
  const list = h("select", {}, options);
  list.addEventListener("change", () => onChange(Number(list.value)));
  return h("label", {}, label, list);
}

/** @param {import("./joins.js").Joins} joins */
function joinWords({ joins, apart }) {
  if (!joins.length && !apart.length) return "No start in either step could be joined.";
  const told = apart.slice(0, 4).map(({ name, before, after }) => `${name} (${before} → ${after})`);
  const rest = apart.length > 4 ? ` and ${apart.length - 4} more` : "";
  const not = apart.length ? ` Not joined, because one step has more of them: ${told.join(", ")}${rest}.` : "";
  const both = joins.length ? `${plural(joins.length, "start")} in both; lines join them if there is room.` : "";
  return `${both}${not}`;
}
