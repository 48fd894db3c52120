// How far can the numbers be trusted? What reading and analysis left out, in words.

import { byId, fill, h, items } from "render/dom.js";
import { count, duration, percent, plural } from "render/format.js";

/** @type {Record<string, string>} */
const VERDICTS = {
  good: "Good: nothing was left out that could change the numbers above.",
  usable: "Usable, with gaps: the numbers above come from part of the data. See below what was left out.",
  doubtful: "Doubtful: so much is missing or repaired that the numbers above may mislead.",
};
/** @type {Record<string, string>} */
const SKIPPED = { flow: "flow arrow", python_function: "Python stack frame", instant: "instant", counter: "counter" };

/** @param {page.Rank} rank */
export function showQuality(rank) {
  const { quality } = rank;
  /** @type {[number: number, words: string][]} */
  const facts = [
    [quality.dropped, "events dropped because they could not be used"],
    [quality.repaired, "events kept after a repair"],
    [quality.clipped, "durations clipped, with evidence that they were too long"],
    [quality.unlinked, "device events without their launch call (they still count in all times)"],
    [quality.overlapping, "kernels that overlap another one on their own stream"],
    [quality.out_of_window, "events outside the profiler's recording"],
  ];
  const skipped = Object.entries(quality.skipped)
    .filter(([, number]) => number)
    .map(([kind, number]) => plural(number, SKIPPED[kind] ?? kind));
  fill(
    byId("quality-body"),
    h("p", {
      class: `notice ${quality.verdict === "good" ? "ok" : "warn"}`,
      text: VERDICTS[quality.verdict] ?? quality.verdict,
    }),
    quality.truncated ? h("p", { class: "notice warn", text: `The file ends early: ${quality.truncated}` }) : null,
    h(
      "dl",
      { class: "quality" },
      facts.map(([number, words]) =>
        h("div", { class: number ? "some" : "" }, h("dt", { text: words }), h("dd", { text: count(number) })),
      ),
      h(
        "div",
        { class: quality.unnamed_share > 0.05 ? "some" : "" },
        h("dt", { text: "of compute time is in kernels without a rule" }),
        h("dd", { text: percent(quality.unnamed_share) }),
      ),
      h(
        "div",
        { class: quality.unrecorded_ns ? "some" : "" },
        h("dt", { text: "of idle time is unrecorded: work ran that is missing from the file" }),
        h("dd", { text: duration(quality.unrecorded_ns ?? 0) }), // reports of earlier versions do not tell
      ),
    ),
    skipped.length ? h("p", { class: "muted", text: `Read but not used: ${skipped.join(", ")}.` }) : null,
    quality.notes.length ? h("ul", { class: "notes" }, items(quality.notes)) : null,
  );
  const banner = byId("banner");
  const words = [
    lossWords(quality.dropped, "dropped"),
    lossWords(quality.clipped, "clipped"),
    lossWords(quality.out_of_window, "outside the recording"),
  ].filter(Boolean);
  banner.hidden = quality.verdict === "good" && !quality.truncated;
  const early = quality.truncated ? " (the file ends early)" : "";
  const lost = words.length ? `: ${words.join(", ")}` : "";
  banner.textContent =
    early || lost
      ? `These numbers come from part of the data${early}${lost}. See “Data quality” below.`
      : "Read these numbers with care: see “Data quality” below.";
}

/**
 * @param {number} number
 * @param {string} word
 */
function lossWords(number, word) {
  return number ? `${plural(number, "event")} ${word}` : "";
}
