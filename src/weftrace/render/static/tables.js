// Tables: sort by any column, show the first few, right-align numbers, one unit a column.

import { fill, h } from "./dom.js";
import { bareName, grouped, percent, unitFor } from "./format.js";
import { explained } from "./tooltip.js";

/**
 * A sortable table. columns: [{key, label, kind, def, value, text, node, bar, wide}], where
 *   kind: "text", "time" (ns), "count" or "percent"; all but text are numbers and right-aligned,
 *   value(row): what is sorted by and shown (row[key] unless given), text(row): shown instead, node(row): element instead,
 *   def: key of its definition, bar(row): 0..1, drawn behind the number.
 * sort: {key, down}; limit: rows shown until "show all"; onRow(row); rowClass(row); empty: words for no rows; name: for tests.
 * unitEach: each column of times has its own unit, where they differ by orders of magnitude; else one unit serves the table.
 * Returns {element, setRows(rows)}.
 */
export function sortableTable({
  name,
  columns,
  rows,
  sort,
  limit = Infinity,
  onRow,
  rowClass,
  empty = "None.",
  unitEach = false,
}) {
  let current = rows;
  let order = { ...sort };
  let all = false;
  const head = h("thead");
  const body = h("tbody");
  const more = h("button", {
    class: "more",
    type: "button",
    hidden: true,
    on: {
      click: () => {
        all = !all;
        render();
      },
    },
  });
  const element = h(
    "div",
    { class: "table-box", data: { table: name } },
    h("div", { class: "table-scroll" }, h("table", {}, head, body)),
    more,
  );
  const sortValue = (column, row) => (column.value ? column.value(row) : row[column.key]);
  const units = new Map();

  function setRows(next) {
    current = next;
    const times = columns.filter((column) => column.kind === "time");
    const largest = times.map((column) =>
      next.reduce((most, row) => Math.max(most, Math.abs(sortValue(column, row) ?? 0)), 0),
    );
    times.forEach((column, at) => units.set(column, unitFor(unitEach ? largest[at] : Math.max(...largest))));
    render();
  }

  function render() {
    const column = columns.find((c) => c.key === order.key);
    const sorted = column
      ? [...current].sort((a, b) => compare(sortValue(column, a), sortValue(column, b), order.down))
      : current;
    const shown = all ? sorted : sorted.slice(0, limit);
    fill(
      head,
      h(
        "tr",
        {},
        columns.map((c) =>
          h(
            "th",
            {
              scope: "col",
              class: c.kind === "text" ? "" : "num",
              "aria-sort": c.key === order.key ? (order.down ? "descending" : "ascending") : "none",
            },
            c.def ? explained(c.def) : null,
            h(
              "button",
              {
                class: "sort",
                type: "button",
                data: { sort: c.key },
                on: {
                  click: () => {
                    order = { key: c.key, down: order.key === c.key ? !order.down : c.kind !== "text" };
                    render();
                  },
                },
              },
              c.label,
              units.get(c) ? h("small", { text: ` ${units.get(c).name}` }) : null,
              c.key === order.key
                ? h("span", { class: "arrow", "aria-hidden": "true", text: order.down ? "↓" : "↑" })
                : null,
            ),
          ),
        ),
      ),
    );
    fill(
      body,
      shown.map((row) =>
        h(
          "tr",
          {
            class: `${onRow ? "clickable " : ""}${rowClass?.(row) ?? ""}`,
            tabindex: onRow ? 0 : null,
            on: onRow
              ? {
                  click: () => onRow(row),
                  keydown: (event) => {
                    if (event.key === "Enter") onRow(row);
                  },
                }
              : {},
          },
          columns.map((c) => cell(c, row)),
        ),
      ),
    );
    if (!shown.length) fill(body, h("tr", {}, h("td", { class: "muted", colspan: columns.length, text: empty })));
    more.hidden = current.length <= limit;
    more.textContent = all ? `Show the first ${limit}` : `Show all ${grouped(current.length)}`;
  }

  function cell(column, row) {
    const td = h("td", { class: `${column.kind === "text" ? "" : "num"} ${column.wide ? "wide" : ""}` });
    if (column.bar) {
      const share = Math.min(1, Math.max(0, column.bar(row) || 0));
      td.append(h("span", { class: "bar", style: { width: `${100 * share}%` } }));
      td.classList.add("barred");
    }
    if (column.node) td.append(column.node(row));
    else td.append(h("span", { text: column.text ? column.text(row) : shownAs(column, sortValue(column, row)) }));
    return td;
  }

  function shownAs(column, value) {
    if (value === null || value === undefined) return "–";
    if (column.kind === "time") {
      const unit = units.get(column);
      return grouped(value / unit.size, unit.name === "ns" ? 0 : unit.name === "µs" ? 1 : 3);
    }
    if (column.kind === "percent") return percent(value);
    return typeof value === "number" ? grouped(value, Number.isInteger(value) ? 0 : 2) : String(value);
  }

  setRows(rows);
  return { element, setRows };
}

/** Numbers by size, text by alphabet with numbers inside it as numbers; what is missing goes last either way. */
function compare(a, b, down) {
  const missing = (a === null || a === undefined) - (b === null || b === undefined);
  if (missing || a === null || a === undefined) return missing;
  const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

/** A coloured word for an event's class. */
export function kindChip(kind) {
  return h("span", { class: `chip ${kind}`, text: kind });
}

/** A kernel's name: monospaced, cut by the column, whole in its title. */
export function kernelName(name) {
  return h("span", { class: "kernel", text: bareName(name), title: name });
}
