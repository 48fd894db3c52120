// The rows of a replay: their names, the part that some of them play, and their series.

/**
 * @typedef {ReturnType<typeof replayModel>} ReplayModel
 * @typedef {{ row: number, part: string, word: string, definition: string }} Part
 */

const EXTRA_LOOKS = 4; // colours for rows that the reader adds, used in turn

/**
 * document: `weftrace.replay/1`. parts: the rows that play one, [{row, part, word, definition}]: recommended, cheaper,
 * baseline, once (planned once and left), ceiling (planned on the window it is scored on).
 * @param {page.Replay} document
 */
export function replayModel(document) {
  const { rows, series, recommendation, names } = document;
  const seriesOf = new Map(series.map((entry) => [entry.row, entry]));
  const ceiling = rows.findIndex((row) => row.solver === "oracle");
  const once = rows.findIndex((row) => row.solver === "once");
  /** @type {Part[]} */
  const parts = [];
  /**
   * @param {number | null | undefined} row
   * @param {string} part
   * @param {string} word
   * @param {string} definition
   */
  const add = (row, part, word, definition) => {
    if (row === null || row === undefined || row < 0 || parts.some((other) => other.row === row)) return;
    parts.push({ row, part, word, definition });
  };
  add(recommendation.row, "recommended", "recommended", "gain");
  add(recommendation.cheaper_row, "cheaper", "cheaper", "cheaper");
  add(recommendation.baseline_row, "baseline", "baseline", "baseline");
  add(once, "once", "planned once", "interval");
  add(ceiling, "ceiling", "ceiling", "ceiling");
  const partOf = new Map(parts.map((part) => [part.row, part]));
  return {
    document,
    rows,
    parts,
    ceiling,
    recommendation,
    /** @param {number} row */
    partOf: (row) => partOf.get(row) ?? null,
    /** @param {number} row */
    wordOf: (row) => partOf.get(row)?.word ?? names[row],
    /** @param {number} row */
    seriesOf: (row) => seriesOf.get(row) ?? null,
    /** @param {number} row */
    name: (row) => names[row],
    /**
     * A row's class in the pictures: of its part, or one of a few in turn.
     * @param {number} row
     */
    look: (row) => partOf.get(row)?.part ?? `extra${row % EXTRA_LOOKS}`,
  };
}
