// What the colours of the timeline say: those that this rank's timeline draws, and no others.

import { byId, fill, h } from "render/dom.js";
import { colorKey } from "render/legends.js";
import { palette } from "render/theme.js";

/** @typedef {import("./data.js").Timeline} Timeline */

/** @type {Record<string, string>} Classes whose name needs more words. */
const WORDS = {
  barrier: "communication that only waits",
  fused: "fused: computes and communicates",
  outside: "device work outside this report",
  launch: "launch call",
  other: "other host work",
};

/**
 * @param {Timeline} timeline
 * @param {import("./pinned.js").Pinned} pinned
 * @param {boolean} searching what is found has a colour of its own, and the rest is pale
 */
export function showTimelineLegend(timeline, pinned, searching) {
  const colors = palette();
  const drawn = new Set(timeline.kind);
  const classes = timeline.className.filter((_, kind) => drawn.has(kind));
  const { fates, mini } = pinned;
  /** @type {[role: string, words: string][]} */
  const keys = [
    ...classes.map((name) => /** @type {[string, string]} */ ([name, WORDS[name] ?? name])),
    ...mini.hues.legend.filter(([role]) => mini.lanes.length > 0 && !classes.includes(role)),
    ...(mini.lanes.length > 0
      ? /** @type {const} */ (["hidden", "exposed", "idle"])
          .filter((fate) => fates[fate].length > 0)
          .map((fate) => /** @type {[string, string]} */ ([fate, fate]))
      : []),
    ...(timeline.unrecorded.length
      ? [/** @type {[string, string]} */ (["unrecorded", "unrecorded: work ran that is missing from the file"])]
      : []),
    ...(searching ? [/** @type {[string, string]} */ (["mark", "found"])] : []),
  ];
  fill(
    byId("timeline-legend"),
    keys.map(([role, words]) => colorKey(colors[role], words)),
    h("span", { class: "key faint", text: "Paler if only part of a pixel's time is covered." }),
  );
}
