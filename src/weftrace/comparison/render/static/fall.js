// From the median step before to the one after: each part's change, then median less mean, then what is reached.

import { byId } from "render/dom.js";
import { duration, signedDuration } from "render/format.js";
import { waterfall } from "render/waterfall.js";

/**
 * @typedef {page.DiffBlock} Block
 * @typedef {Block["bars"][number]} Bar
 */

/** @param {Block} block */
export function showFall({ document: { before, after, verdict }, bars, begin_ns }) {
  const alike = verdict.word !== "not comparable";
  let end = before.median_ns;
  const steps = bars.map((bar) => {
    const from_ns = end;
    end += bar.change_ns;
    const role = bar.is_noise ? `${bar.role} noise` : bar.role;
    return { name: bar.name, role, from_ns, to_ns: end, told: toldOf(bar, alike), saved_ns: null };
  });
  const whole = { role: "whole", from_ns: begin_ns, saved_ns: null };
  const all = [
    { ...whole, name: "before", to_ns: before.median_ns, told: duration(before.median_ns) },
    ...steps,
    { ...whole, name: "after", to_ns: after.median_ns, told: duration(after.median_ns) },
  ];
  const cut = begin_ns ? ` The axis begins at ${duration(begin_ns)}, so that changes can be seen.` : "";
  byId("fall-lead").textContent =
    "The change of each part of a step, mean over steps and ranks; the bars lead from the median step before to the " +
    `median step after.${cut}`;
  const each = bars.map((bar) => `${bar.name} ${signedDuration(bar.change_ns)}`).join(", ");
  const label = `From ${duration(before.median_ns)} to ${duration(after.median_ns)}: ${each || "nothing changed"}`;
  waterfall(byId("waterfall"), all, label, begin_ns);
  return all;
}

/**
 * @param {Bar} bar
 * @param {boolean} alike whether causes may be told
 */
function toldOf(bar, alike) {
  const why = alike && bar.why ? `, ${bar.why}` : "";
  return `${signedDuration(bar.change_ns)}${bar.is_noise ? ", within the noise" : why}`;
}
