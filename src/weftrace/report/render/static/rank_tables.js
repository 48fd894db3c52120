// Tables that are drawn by their columns alone: analysis/rank_tables.py lists them.

import { byId, fill, h } from "render/dom.js";
import { columnsOf, sortableTable } from "render/tables.js";
import { defined, isDefined } from "render/tooltip.js";

const FIRST = 15;

/** @param {page.Rank} rank */
export function showRankTables(rank) {
  /** @type {[string, Record<string, string | number | null>[]][]} */
  const tables = Object.entries(rank.tables ?? {}).filter(([name]) => isDefined(name));
  byId("tables").hidden = tables.length === 0;
  const said = rank.table_notes ?? {};
  fill(
    byId("tables"),
    ...tables.flatMap(([name, rows]) => [
      h("h2", {}, defined(name)),
      said[name] ? h("p", {}, said[name]) : null,
      tableOf(name, rows),
    ]),
  );
}

/**
 * @param {string} name
 * @param {Record<string, string | number | null>[]} rows
 */
function tableOf(name, rows) {
  const keys = Object.keys(rows[0]).filter((key) => rows.some((row) => row[key] !== null)); // as in the terminal
  const definitions = keys.filter((key) => isDefined(`${name}.${key}`)).map((key) => [key, { def: `${name}.${key}` }]);
  return sortableTable({
    name,
    rows,
    limit: FIRST,
    sort: { key: "", down: true },
    unitEach: true,
    columns: columnsOf(name, keys, Object.fromEntries(definitions)),
  }).element;
}
