// The module tree as a table: branches open and close, siblings that are alike fold into one row, columns sort siblings.

import { byId, fill, h } from "render/dom.js";
import { duration, percent } from "render/format.js";
import { folded, groupName, median, overPhases, sum } from "./model.js";
import { phaseClass, si } from "./words.js";
import { explained } from "render/tooltip.js";

const MOST_ROWS = 400;
const FIRST_ROWS = 18;

export function showTree(model) {
  const open = new Set(firstOpen(model));
  let order = { key: null, down: true };
  let fold = true;
  let find = "";
  const columns = treeColumns(model);
  const search = h("input", {
    type: "search",
    placeholder: "Find a module",
    "aria-label": "Find a module",
    on: {
      input: () => {
        find = search.value.trim().toLowerCase();
        draw();
      },
    },
  });
  const foldButton = h("button", {
    type: "button",
    "aria-pressed": "true",
    text: "Fold equal siblings",
    on: {
      click: () => {
        fold = !fold;
        foldButton.setAttribute("aria-pressed", String(fold));
        draw();
      },
    },
  });
  const all = (value) => () => {
    model.nodes.forEach((node) => (value ? open.add(node.i) : open.delete(node.i)));
    if (!value) model.roots.forEach((node) => open.add(node.i));
    draw();
  };
  fill(
    byId("tree-tools"),
    search,
    foldButton,
    h("button", { type: "button", text: "Open all", on: { click: all(true) } }),
    h("button", { type: "button", text: "Close all", on: { click: all(false) } }),
  );
  byId("tree-lead").textContent = model.timed
    ? "Each row holds a module with all below it; below a folded row stand the parts of one of its modules. Time is the median of the timed steps; the share is of the time of all modules."
    : "Each row holds a module with all below it; below a folded row stand the parts of one of its modules. Nothing was timed, so the share is of the model FLOPs.";
  draw();

  function rows() {
    const list = [];
    const matches = find ? new Set() : null;
    if (find)
      for (const node of model.nodes)
        if (`${node.path} ${node.className}`.toLowerCase().includes(find))
          for (let at = node; at; at = at.parent < 0 ? null : model.nodes[at.parent]) matches.add(at.i);
    const walk = (siblings, depth) => {
      let groups = folded(siblings, fold && !find).map((nodes) => ({ nodes, depth, node: nodes[0] }));
      const column = columns.find((c) => c.key === order.key);
      if (column) groups = groups.sort((a, b) => (order.down ? -1 : 1) * compare(column.value(a), column.value(b)));
      for (const group of groups) {
        if (matches && !group.nodes.some((node) => matches.has(node.i))) continue;
        list.push(group);
        if (open.has(group.node.i) || matches) walk(group.node.children, depth + 1);
      }
    };
    walk(model.roots, 0);
    return list;
  }

  function draw() {
    const list = rows();
    const head = h(
      "tr",
      {},
      columns.map((c) =>
        h(
          "th",
          {
            scope: "col",
            class: c.text ? "" : "num",
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
                  order =
                    order.key !== c.key
                      ? { key: c.key, down: c.key !== "module" }
                      : order.down === (c.key !== "module")
                        ? { key: c.key, down: !order.down }
                        : { key: null, down: true };
                  draw();
                },
              },
            },
            c.label,
            c.key === order.key
              ? h("span", { class: "arrow", "aria-hidden": "true", text: order.down ? "↓" : "↑" })
              : null,
          ),
        ),
      ),
    );
    const body = list.slice(0, MOST_ROWS).map((group) =>
      h(
        "tr",
        { class: group.node.name === "(outside)" ? "outside" : "", data: { path: group.node.path } },
        columns.map((c) => (c.key === "module" ? moduleCell(group) : cell(c, group))),
      ),
    );
    fill(
      byId("tree"),
      h("table", { class: "tree" }, h("thead", {}, head), h("tbody", {}, body)),
      list.length > MOST_ROWS
        ? h("p", {
            class: "muted",
            text: `… and ${list.length - MOST_ROWS} more rows: close some, or look for a name.`,
          })
        : null,
    );
  }

  function moduleCell({ node, nodes, depth }) {
    const is = open.has(node.i);
    const twist = h("button", {
      class: "twist",
      type: "button",
      disabled: !node.children.length,
      "aria-expanded": String(is),
      "aria-label": `${is ? "Close" : "Open"} ${node.path || "the model"}`,
      text: is ? "▼" : "▶",
      on: {
        click: () => {
          if (is) open.delete(node.i);
          else open.add(node.i);
          draw();
        },
      },
    });
    const title = [node.path || "(the model)", node.detail].filter(Boolean).join(": ");
    return h(
      "td",
      { title, style: { "padding-left": `${9 + 16 * depth}px` } },
      twist,
      h("span", { class: "module-name", text: depth === 0 && !node.name ? model.doc.name : groupName(nodes) }),
      depth === 0 && !node.name ? null : h("span", { class: "module-class", text: node.className }),
      nodes.length > 1 ? h("span", { class: "fold-mark", text: `×${nodes.length}` }) : null,
    );
  }

  function cell(column, group) {
    const value = column.value(group);
    const td = h("td", { class: `num${column.bar ? " barred" : ""}${column.node ? " split" : ""}` });
    if (column.bar)
      td.append(h("span", { class: "bar", style: { width: `${100 * Math.min(1, Math.max(0, value || 0))}%` } }));
    td.append(column.node ? column.node(group) : h("span", { class: value ? "" : "zero", text: column.show(value) }));
    return td;
  }
}

/** Branches that are open at first: level by level, as long as the rows fit a screen. */
function firstOpen(model) {
  const open = [];
  let level = folded(model.roots, true);
  let rows = level.length;
  while (level.length) {
    const below = level.map((group) => folded(group[0].children, true));
    const added = sum(below, (groups) => groups.length);
    if (!added || rows + added > FIRST_ROWS) break;
    level.forEach((group) => open.push(...group.map((node) => node.i)));
    rows += added;
    level = below.flat();
  }
  return open.length ? open : model.roots.map((node) => node.i);
}

function treeColumns(model) {
  const { phases, timed, bounded } = model;
  const together = (group, value) => sum(group.nodes, value);
  const time = (group) => median(group.nodes.map((node) => node.totalTime));
  const columns = [
    { key: "module", label: "Module", text: true, value: (group) => group.node.name },
    {
      key: "params",
      label: "Params",
      def: "params",
      value: (group) => together(group, (node) => node.params),
      show: (value) => si(value),
    },
  ];
  for (const phase of ["forward", "backward"]) {
    if (phases.includes(phase))
      columns.push({
        key: phase,
        label: `${phase === "forward" ? "Fwd" : "Bwd"} FLOP`,
        def: "flops",
        value: (group) => together(group, (node) => node.all[phase].flops),
        show: (value) => si(value),
      });
  }
  columns.push({
    key: "vector",
    label: "Vector",
    def: "vector_flops",
    value: (group) => together(group, (node) => overPhases(model, node, "vector")),
    show: (value) => si(value),
  });
  columns.push({
    key: "bytes",
    label: "Bytes",
    def: "bytes",
    value: (group) => together(group, (node) => overPhases(model, node, "bytes")),
    show: (value) => si(value, "B"),
  });
  if (timed) {
    columns.push({ key: "time", label: "Time", def: "time", value: time, show: (value) => duration(value) });
    columns.push({
      key: "parts",
      label: "Phases",
      value: time,
      node: ({ node }) =>
        h(
          "span",
          { class: "two", title: phases.map((phase) => `${phase} ${duration(node.time[phase])}`).join(", ") },
          phases.map((phase) =>
            h("i", {
              class: phaseClass(phase),
              style: { width: `${(100 * (node.time[phase] ?? 0)) / (node.totalTime || 1)}%` },
            }),
          ),
        ),
    });
    columns.push({
      key: "share",
      label: "Share",
      def: "share",
      bar: true,
      value: (group) => together(group, (node) => node.totalTime) / (model.whole.time || 1),
      show: (value) => percent(value),
    });
    columns.push({
      key: "rate",
      label: "FLOP/s",
      def: "flops_per_s",
      value: (group) =>
        (together(group, (node) => overPhases(model, node, "executed")) * 1e9) /
        (model.doc.ranks * together(group, (node) => node.totalTime) || Infinity),
      show: (value) => si(value),
    });
  } else {
    columns.push({
      key: "share",
      label: "Share",
      def: "share",
      bar: true,
      value: (group) => together(group, (node) => overPhases(model, node, "flops")) / (model.whole.flops || 1),
      show: (value) => percent(value),
    });
  }
  if (bounded) {
    columns.push({
      key: "bound",
      label: "Bound",
      def: "bound",
      value: ({ node }) => overPhases(model, node, "bound"),
      show: (value) => duration(value),
    });
    columns.push({
      key: "kind",
      label: "Held by",
      def: "bound",
      value: ({ node }) => heldBy(model, node),
      node: (group) => {
        const kind = heldBy(model, group.node);
        return kind ? h("span", { class: `bound-word ${kind}`, text: kind }) : h("span", { class: "zero", text: "–" });
      },
    });
  }
  return columns;
}

/** What most of the bound of a module and all below it goes to. */
export function heldBy(model, node) {
  const parts = { compute: 0, memory: 0 };
  const walk = (at) => {
    for (const phase of model.phases) {
      const kind = { c: "compute", m: "memory" }[at.own[phase].kind];
      if (kind) parts[kind] += at.own[phase].bound;
    }
    at.children.forEach(walk);
  };
  walk(node);
  return parts.compute + parts.memory === 0 ? null : parts.compute >= parts.memory ? "compute" : "memory";
}

function compare(a, b) {
  const missing = (a === null) - (b === null);
  if (missing || a === null) return missing;
  return typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}
