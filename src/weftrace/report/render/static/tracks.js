// Where each row of the timeline is drawn: groups (devices, processes), their tracks, and each track's rows by nesting.

import { actionButton, fill, h } from "render/dom.js";
import { grouped } from "render/format.js";
import { bisect } from "render/intervals.js";
import { tellApart } from "render/names.js";

/**
 * @typedef {import("./data.js").Timeline} Timeline
 * @typedef {{ track: number, group: number, depth: number, first: number, count: number }} Row
 * @typedef {{ y: number, height: number, rows: Row[], kind: string }} Line
 * @typedef {{ y: number, group: page.Timeline["groups"][number], number: number, closed: boolean }} Header
 * @typedef {{ y: number, height: number, track: page.Timeline["tracks"][number] }} PlacedTrack
 * @typedef {{ lines: Line[], headers: Header[], tracks: PlacedTrack[], yOf: Map<Row, Line>, height: number }} Layout
 */

const HEADER = 26;
/** @type {Record<string, number>} */
const ROW = { stream: 26, notes: 17, thread: 17 };
const BETWEEN = 5; // pixels between tracks

/**
 * All rows of a timeline in storage order: [{track, group, depth, first, count}]. Found once; layouts refer to them.
 * @param {Timeline} timeline
 * @returns {Row[]}
 */
export function allRows(timeline) {
  const rows = timeline.tracks.flatMap((track, number) =>
    track.rows.map(([first, count], depth) => ({ track: number, group: track.group, depth, first, count })),
  );
  return rows.sort((a, b) => a.first - b.first);
}

/**
 * The row that holds an event.
 * @param {Row[]} rows
 * @param {number} event
 */
export function rowOf(rows, event) {
  return rows[bisect(0, rows.length, (at) => rows[at].first + rows[at].count > event)];
}

/**
 * Positions for the groups that are open or closed. A closed group keeps one line: the first row of each of its tracks.
 * Returns {lines: [{y, height, rows, kind}], headers: [{y, group}], tracks: [{y, height, track}], height, yOf: Map(row
 * -> line)}.
 * @param {Timeline} timeline
 * @param {Row[]} rows
 * @param {Set<number>} closed
 * @returns {Layout}
 */
export function layout(timeline, rows, closed) {
  /** @type {Line[]} */
  const lines = [];
  /** @type {Header[]} */
  const headers = [];
  /** @type {PlacedTrack[]} */
  const tracks = [];
  /** @type {Map<Row, Line>} */
  const yOf = new Map();
  /** @type {Map<number, Row[]>} */
  const byTrack = new Map();
  for (const row of rows) {
    const known = byTrack.get(row.track);
    if (known) known.push(row);
    else byTrack.set(row.track, [row]);
  }
  let y = 0;
  /**
   * @param {number} height
   * @param {Row[]} held
   * @param {string} kind
   */
  const add = (height, held, kind) => {
    const line = { y, height, rows: held, kind };
    lines.push(line);
    held.forEach((row) => yOf.set(row, line));
    y += height;
  };
  timeline.groups.forEach((group, number) => {
    headers.push({ y, group, number, closed: closed.has(number) });
    const mine = timeline.tracks.map((track, at) => ({ track, at })).filter(({ track }) => track.group === number);
    if (closed.has(number)) {
      add(
        HEADER,
        mine.flatMap(({ at }) => byTrack.get(at)?.slice(0, 1) ?? []),
        "closed",
      );
      y += BETWEEN;
      return;
    }
    y += HEADER;
    for (const { track, at } of mine) {
      const top = y;
      for (const row of byTrack.get(at) ?? []) add(ROW[track.kind], [row], track.kind);
      tracks.push({ y: top, height: y - top, track });
      y += BETWEEN;
    }
  });
  return { lines, headers, tracks, yOf, height: y };
}

/**
 * Whether a line shows a stream of the device that a report is of: its empty stretches may be gaps of the device.
 * @param {Timeline} timeline
 * @param {Line} line
 * @param {number | null} device
 */
export function isOfDevice({ tracks }, { rows }, device) {
  const own = rows.map(({ track }) => tracks[track]);
  return own.some(({ kind }) => kind === "stream") && own.every((track) => track.device === device);
}

/**
 * The labels at the left: buttons that open and close the groups, and the tracks' names.
 * @param {HTMLElement} gutter
 * @param {Layout} placed
 * @param {page.Stream[]} streams
 * @param {(group: number) => void} onToggle
 */
export function labelColumn(gutter, placed, streams, onToggle) {
  const toggles = placed.headers.map(({ y, group, number, closed }) =>
    actionButton(
      null,
      () => onToggle(number),
      {
        class: "group-toggle",
        style: { top: `${y}px`, height: `${HEADER}px` },
        title: group.label,
        "aria-expanded": String(!closed),
      },
      h("span", { class: "chevron", text: closed ? "▸" : "▾", "aria-hidden": "true" }),
      h("span", { text: group.label }),
    ),
  );
  const names = placed.tracks.map(({ y, height, track }) => {
    const known = track.kind === "stream" && streams.find((stream) => stream.stream === track.stream);
    const total = track.rows.reduce((sum, [, count]) => sum + count, 0);
    const note = track.kind === "notes" ? "annotation" : known ? known.kind : null;
    return h(
      "div",
      {
        class: "track-label",
        style: { top: `${y}px`, height: `${height}px` },
        title: `${track.label}${known ? `, mostly ${known.kind}` : ""}: ${grouped(total)} events`,
      },
      note ? h("i", { class: `dot part ${note}`, title: note }) : null,
      h("span", { class: "track-name", text: track.label }),
    );
  });
  fill(gutter, toggles, names);
  tellApart(gutter.querySelectorAll(/** @type {"span"} */ (".track-name, .group-toggle span:last-child")));
  gutter.style.setProperty("height", `${placed.height}px`);
}
