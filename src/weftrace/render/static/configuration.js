// How a trace was made, as it says itself: a list of what was set, in the words of the page's terms.

import { byId, fact, fill, h } from "./dom.js";
import { defined, isDefined } from "./tooltip.js";

const MOST = 24; // settings that are listed
const LONGEST = 160; // characters of one that are shown

/**
 * Fills the list `configuration` and hides its box where nothing is set. known: name -> text, as "profile.ep": "64".
 * @param {Record<string, string> | undefined} known
 */
export function showConfiguration(known) {
  const settings = Object.entries(known ?? {});
  byId("configuration-box").hidden = settings.length === 0;
  const left = settings.length - MOST;
  fill(
    byId("configuration"),
    settings
      .slice(0, MOST)
      .map(([name, text]) =>
        h(
          "div",
          {},
          h("dt", {}, isDefined(name) ? defined(name) : name.slice(0, LONGEST)),
          h("dd", { title: text.length > LONGEST ? text : null }, shortened(text)),
        ),
      ),
    left > 0 ? fact(`and ${left} more`, "in the JSON document") : null,
  );
}

/** @param {string} text */
function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
