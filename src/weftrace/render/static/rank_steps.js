// A map of ranks by steps, one number at a time: ranks down, steps across. A reader chooses which number.

import { choiceButtons, fill, h } from "./dom.js";
import { duration, plural } from "./format.js";
import { heatGrid, ramp } from "./heat_grid.js";
import { tipRows } from "./tooltip.js";

/**
 * What a map can show. of: its values, [rank][step], null where a rank has no such step; told: what it says, for those
 * who see it first; fromLeast: its scale begins at the least value, for all are far from 0; toMost: its scale ends at
 * the largest value, or at this where that is less, so that noise stays pale. Other scales end before values that are
 * far beyond all others.
 * @typedef {object} Measure
 * @property {string} key
 * @property {string} word
 * @property {string} told
 * @property {string} role
 * @property {boolean} [fromLeast]
 * @property {number} [toMost]
 * @property {(number | null)[][]} of
 *
 * Where the map and what belongs to it stand. choices: buttons of the measures, where there are several.
 * @typedef {{ map: HTMLElement, legend: HTMLElement, told: HTMLElement, choices: HTMLElement }} Places
 *
 * @typedef {object} RankSteps
 * @property {string[]} ranks
 * @property {string[]} steps
 * @property {Measure[]} measures the first of which is shown first
 * @property {((rank: number, step: number) => void) | null} onOpen a cell was chosen
 */

const OUTLIER = 2; // the largest value beyond so many times the 99th percentile: the scale ends at that one
const ALL_BUT = 0.99;

/**
 * The map in its places; returns its grid.
 * @param {Places} places
 * @param {RankSteps} shown
 */
export function rankSteps({ map, legend, told, choices }, { ranks, steps, measures, onOpen }) {
  const grid = heatGrid(map, "rank-steps", (row, column) => onOpen?.(row, column), onOpen !== null);

  /** @param {Measure} measure */
  function show(measure) {
    const { low, high } = scaleOf(measure);
    told.textContent = measure.told;
    grid.show({
      rows: ranks,
      columns: steps,
      value: (row, column) => measure.of[row][column],
      low,
      high,
      role: measure.role,
      widest: 60,
      label: `${measure.word} of ${plural(ranks.length, "rank")} in ${plural(steps.length, "step")}`,
      tip: (row, column) =>
        tipRows(`${ranks[row]}, step ${steps[column]}`, null, [
          ...measures.map(({ word, of }) => {
            const value = of[row][column];
            return /** @type {[string, string]} */ ([word, value === null ? "–" : duration(value)]);
          }),
          onOpen && ["", "click: open it below"],
        ]),
      onPlaced: (rows, perColumn) => showLegend(measure, `${sharedWords(rows, perColumn)}${largestOf(measure)}`),
      row: (row, column) => ({
        rank: ranks[row],
        step: steps[column],
        ...Object.fromEntries(measures.map(({ key, of }) => [key, of[row][column]])),
      }),
    });
    const buttons = choiceButtons(
      measures,
      ({ word }) => word,
      (each) => each === measure,
      show,
      ({ key }) => ({ measure: key }),
    );
    fill(choices, measures.length > 1 ? buttons : null);
  }

  /**
   * @param {Measure} measure
   * @param {string} words
   */
  function showLegend(measure, words) {
    const { low, high, most } = scaleOf(measure);
    const end = most > high ? `${duration(high)} and more` : duration(high);
    fill(
      legend,
      ramp(measure.role, [duration(low), duration((low + high) / 2), end]),
      h("span", { class: "muted", text: words }),
    );
  }

  /** @param {Measure} measure */
  function largestOf({ of }) {
    let best = { value: 0, rank: 0, step: 0 };
    of.forEach((line, rank) => {
      line.forEach((value, step) => {
        if (value !== null && value > best.value) best = { value, rank, step };
      });
    });
    return best.value
      ? `The largest, ${duration(best.value)}, is in ${ranks[best.rank]}, step ${steps[best.step]}.`
      : "";
  }

  show(measures[0]);
  return grid;
}

/** @param {Measure} measure */
function scaleOf({ of, fromLeast, toMost }) {
  const sorted = of
    .flat()
    .filter((value) => value !== null)
    .sort((a, b) => a - b);
  const most = sorted.at(-1) ?? 0;
  const usual = sorted[Math.ceil(ALL_BUT * sorted.length) - 1] ?? 0; // of few values, the largest
  if (toMost !== undefined) return { low: 0, high: Math.max(toMost, most), most };
  return { low: fromLeast ? (sorted[0] ?? 0) : 0, high: usual > 0 && most > OUTLIER * usual ? usual : most, most };
}

/**
 * How many ranks and steps share a cell, where several do.
 * @param {number} rows
 * @param {number} columns
 */
function sharedWords(rows, columns) {
  const parts = [rows > 1 ? plural(rows, "rank") : null, columns > 1 ? plural(columns, "step") : null].filter(Boolean);
  return parts.length ? `Each cell is ${parts.join(" by ")} and shows the largest value. ` : "";
}
