// Tables: sort by any column, show the first few, right-align numbers, one unit a column. A table that is wider than
// its place stands as cards, a row each. All rows can be taken along.

import { actionButton, byId, fill, h, oncePerFrame, readBlock } from "./dom.js";
import { exportTools, flatRow } from "./exports.js";
import { bareName, grouped, inUnit, percent, unitFor } from "./format.js";
import { tellApart } from "./names.js";
import { explained } from "./tooltip.js";

const NAMES = /** @type {"span"} */ (".kernel, .phase-name, td.wide > span");
const NARROW = 600; // pixels: in a narrower table, names that are cut leave too little to tell rows apart
const NARROW_NAME = 160; // and so do narrower columns of any

/**
 * @typedef {import("./format.js").Unit} Unit
 * @typedef {string | number | null | undefined} Value
 */

/**
 * A column. All but "text" are numbers and right-aligned; a "time" is in ns.
 * @template Row
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {"text" | "time" | "count" | "percent"} kind
 * @property {string} [def] key of its definition
 * @property {(row: Row) => Value} [value] what is sorted by and shown; row[key] unless given
 * @property {(row: Row) => string} [text] shown instead
 * @property {(row: Row) => Node} [node] shown instead, as an element
 * @property {(row: Row) => number} [bar] 0..1, drawn behind the number
 * @property {boolean} [wide]
 */

/**
 * @template Row
 * @typedef {object} Table
 * @property {string} name for tests
 * @property {Column<Row>[]} columns
 * @property {Row[]} rows
 * @property {{ key: string, down: boolean }} [sort]
 * @property {number} [limit] rows shown until "show all"
 * @property {(row: Row) => void} [onRow] a row was chosen
 * @property {(row: Row) => string} [rowClass]
 * @property {(row: Row) => object} [taken] what is taken along of a row; the row itself unless given
 * @property {string} [empty] words for no rows
 * @property {boolean} [unitEach] each column of times has its own unit, where they differ by orders of magnitude; else
 *   one unit serves the table
 */

/**
 * The columns of a table as the page's data declares them (`weftrace-columns`), those that are named, in this order.
 * name: of the table. keys: a list, or words with blanks between. own: key -> what differs here; a key that is no
 * column of the table is one of the page's own.
 * @template Row
 * @param {string} name
 * @param {string | string[]} keys
 * @param {Record<string, Partial<Column<Row>>>} [own]
 * @returns {Column<Row>[]}
 */
export function columnsOf(name, keys, own = {}) {
  /** @type {Record<string, Column<Row>[]>} */
  const tables = readBlock("weftrace-columns");
  const known = new Map(tables[name].map((column) => [column.key, column]));
  return (typeof keys === "string" ? keys.split(" ") : keys).map((key) => {
    const column = known.get(key) ?? { key, label: key, kind: /** @type {const} */ ("text") };
    return { ...column, ...own[key] };
  });
}

/**
 * Fills an element with a sortable table, and returns the table.
 * @template Row
 * @param {string | HTMLElement} at the element, or its id
 * @param {Table<Row>} table
 */
export function showTable(at, table) {
  const made = sortableTable(table);
  fill(typeof at === "string" ? byId(at) : at, made.element);
  return made;
}

/**
 * A sortable table: {element, setRows(rows)}.
 * @template Row
 * @param {Table<Row>} table
 */
export function sortableTable({
  name,
  columns,
  rows,
  sort = { key: "", down: false }, // as they come
  limit = Infinity,
  onRow,
  rowClass,
  taken = (row) => /** @type {object} */ (row),
  empty = "None.",
  unitEach = false,
}) {
  let current = rows;
  let order = { ...sort };
  let all = false;
  const head = h("thead");
  const body = h("tbody");
  const turnAll = () => {
    all = !all;
    render();
  };
  const more = actionButton("", turnAll, { class: "more", hidden: true });
  const scroll = h("div", { class: "table-scroll" }, h("table", {}, head, body));
  const tools = exportTools(name, () => sorted().map(exported));
  const element = h("div", { class: "table-box", data: { table: name } }, tools, scroll, more);
  const fit = cardsWhereNarrow(scroll);
  /**
   * @param {Column<Row>} column
   * @param {Row} row
   * @returns {Value}
   */
  const sortValue = (column, row) =>
    column.value ? column.value(row) : /** @type {Record<string, Value>} */ (row)[column.key];
  /** @type {Map<Column<Row>, Unit>} */
  const units = new Map();
  /** Columns of counts that hold any number that is not whole: all of theirs have decimals.
   * @type {Set<Column<Row>>} */
  const broken = new Set();

  /** @param {Row[]} next */
  function setRows(next) {
    current = next;
    const times = columns.filter((column) => column.kind === "time" && !column.text); // a text has units of its own
    const largest = times.map((column) =>
      next.reduce((most, row) => Math.max(most, Math.abs(Number(sortValue(column, row) ?? 0))), 0),
    );
    broken.clear();
    for (const column of columns) {
      if (next.some((row) => !Number.isInteger(Number(sortValue(column, row) ?? 0)))) broken.add(column);
    }
    times.forEach((column, at) => units.set(column, unitFor(unitEach ? largest[at] : Math.max(...largest))));
    render();
  }

  function sorted() {
    const column = columns.find((c) => c.key === order.key);
    if (!column) return current;
    return [...current].sort((a, b) => compare(sortValue(column, a), sortValue(column, b), order.down));
  }

  /**
   * A row as it is taken along: the document's own values, and what the columns of numbers work out from them.
   * @param {Row} row
   */
  function exported(row) {
    const numbers = columns.filter((column) => column.kind !== "text" && column.value);
    return flatRow(
      taken(row),
      numbers.map((column) => [column.key, sortValue(column, row)]),
    );
  }

  function render() {
    const shown = all ? sorted() : sorted().slice(0, limit);
    fill(head, h("tr", {}, columns.map(heading)));
    fill(body, shown.map(line));
    tellApart(body.querySelectorAll(NAMES));
    if (!shown.length) fill(body, h("tr", {}, h("td", { class: "muted", colspan: columns.length, text: empty })));
    more.hidden = current.length <= limit;
    more.textContent = all ? `Show the first ${limit}` : `Show all ${grouped(current.length)}`;
    tools.hidden = !current.length;
    fit();
  }

  /** @param {Column<Row>} column */
  function heading(column) {
    return sortHead(column, column.kind === "text", order, units.get(column)?.name, (sorted) => {
      order = { key: column.key, down: sorted ? !order.down : column.kind !== "text" };
      render();
    });
  }

  /** @param {Row} row */
  function line(row) {
    const cells = columns.map((column) => cell(column, row));
    const className = `${onRow ? "clickable " : ""}${rowClass?.(row) ?? ""}`;
    if (!onRow) return h("tr", { class: className }, cells);
    return h(
      "tr",
      {
        class: className,
        tabindex: 0,
        on: {
          click: () => onRow(row),
          keydown: (event) => {
            if (event.key === "Enter") onRow(row);
          },
        },
      },
      cells,
    );
  }

  /**
   * @param {Column<Row>} column
   * @param {Row} row
   */
  function cell(column, row) {
    const unit = units.get(column);
    const td = h("td", {
      class: `${column.kind === "text" ? "" : "num"} ${column.wide ? "wide" : ""}`,
      data: { label: unit ? `${column.label}, ${unit.name}` : column.label }, // stands beside the value on a card
    });
    if (column.bar) addBar(td, column.bar(row));
    if (column.node) td.append(column.node(row));
    else {
      const text = column.text ? column.text(row) : shownAs(column, sortValue(column, row));
      td.append(h("span", { text, title: column.wide ? text : null }));
    }
    return td;
  }

  /**
   * @param {Column<Row>} column
   * @param {Value} value
   */
  function shownAs(column, value) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "string") return value;
    const unit = units.get(column);
    if (unit) return inUnit(value, unit);
    return column.kind === "percent" ? percent(value) : grouped(value, broken.has(column) ? 2 : 0);
  }

  setRows(rows);
  return { element, setRows };
}

/**
 * The head of a column, which sorts by it. turn: told whether the table is sorted by it now.
 * @param {{ key: string, label: string, def?: string }} column
 * @param {boolean} isText
 * @param {{ key: string | null, down: boolean }} order
 * @param {string | undefined} unit
 * @param {(sorted: boolean) => void} turn
 */
export function sortHead({ key, label, def }, isText, order, unit, turn) {
  const sorted = key === order.key;
  const direction = order.down ? "descending" : "ascending";
  return h(
    "th",
    { scope: "col", class: isText ? "" : "num", "aria-sort": sorted ? direction : "none" },
    def ? explained(def) : null,
    actionButton(
      null,
      () => turn(sorted),
      { class: "sort", data: { sort: key } },
      label,
      unit ? h("small", { text: ` ${unit}` }) : null,
      sorted ? h("span", { class: "arrow", "aria-hidden": "true", text: order.down ? "↓" : "↑" }) : null,
    ),
  );
}

/**
 * A bar behind what stands in a cell.
 * @param {HTMLElement} cell
 * @param {number | null} share
 */
export function addBar(cell, share) {
  const width = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
  cell.append(h("span", { class: "bar", style: { width } }));
  cell.classList.add("barred");
}

/**
 * Sets a table closer that is wider than the box that it stands in; where that is not enough, it stands as cards, a row
 * each. Returns what measures it again after a change of its rows.
 * @param {HTMLElement} box
 */
export function cardsWhereNarrow(box) {
  const wide = () => {
    const { clientWidth: width } = box;
    return width > 0 && (box.scrollWidth > width + 1 || cutsNames(box, width < NARROW ? Infinity : NARROW_NAME));
  };
  const measure = () => {
    box.classList.remove("tight", "cards-of-rows");
    if (wide()) box.classList.add("tight");
    if (wide()) box.classList.replace("tight", "cards-of-rows");
  };
  const again = oncePerFrame(measure);
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return; // its height only
    width = box.clientWidth;
    measure();
  }).observe(box);
  return again;
}

/**
 * Whether a column of names, narrower than so much, cuts any.
 * @param {HTMLElement} box
 * @param {number} below
 */
function cutsNames(box, below) {
  return [...box.querySelectorAll("td.wide")].some(
    (cell) =>
      cell.clientWidth < below &&
      [cell, ...cell.querySelectorAll(".parted > span")].some((part) => part.scrollWidth > part.clientWidth + 1),
  );
}

/**
 * Numbers by size, text by alphabet with numbers inside it as numbers; what is missing goes last either way.
 * @param {Value} a
 * @param {Value} b
 * @param {boolean} down
 */
export function compare(a, b, down) {
  const known = a !== null && a !== undefined;
  if (!known || b === null || b === undefined) return Number(b !== null && b !== undefined) - Number(known);
  const numbers = typeof a === "number" && typeof b === "number";
  const order = numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

/**
 * A coloured word for an event's class.
 * @param {string} kind
 */
export function kindChip(kind) {
  return h("span", { class: `chip ${kind}`, text: kind });
}

/**
 * A kernel's name: monospaced, cut by the column, whole in its title.
 * @param {string} name
 */
export function kernelName(name) {
  return h("span", { class: "kernel", text: bareName(name), title: name });
}
