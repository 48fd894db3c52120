// What to do first: the findings of the report, each opens its place in the timeline.

import { byId, readBlock } from "render/dom.js";
import { showFindings } from "render/findings.js";

const FIRST = 3;

/**
 * @param {page.Report} report
 * @param {(position: number, start: number, end: number) => void} open shows a stretch of a rank in the timeline
 */
export function showAdvice(report, open) {
  /** @type {advice_block.FindingCards | null} */
  const advice = document.getElementById("weftrace-advice") && readBlock("weftrace-advice");
  const none = !advice || advice.cards.length === 0;
  byId("advice").hidden = none;
  if (none) return;
  showFindings(byId("advice-body"), advice, {
    most: FIRST,
    onOpen: ({ rank, device, start_ns: start, end_ns: end }) => {
      const position = report.ranks.findIndex((one) => one.rank === rank && one.device === device);
      if (position >= 0 && start !== null && end !== null) open(position, start, end);
    },
  });
}
