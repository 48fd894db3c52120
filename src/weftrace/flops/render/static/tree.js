// The module tree as a table: branches open and close, siblings that are alike fold into one row, columns sort
// siblings.

import { byId, fill, h, actionButton } from "render/dom.js";
import { duration, percent, si } from "render/format.js";
import { exportTools } from "render/exports.js";
import { addBar, cardsWhereNarrow, compare, sortHead } from "render/tables.js";
import { folded, groupName, overPhases, pathTo, sum } from "./model.js";
import { phaseClass } from "./words.js";

const MOST_ROWS = 400;
const FIRST_ROWS = 18;

/** Columns by the name that a module's number has where it is taken along; others go by their key.
 * @type {Record<string, string>} */
const FIELDS = {
  forward: "forward_flops",
  backward: "backward_flops",
  vector: "vector_flops",
  time: "time_ns",
  bound: "bound_ns",
  kind: "bound_by",
  rate: "flops_per_s",
};

const LEAD =
  "Each row holds a module with all below it, a folded one all of its modules; below it stand the first one's parts.";
const TIMED = "Time and share are of one step, the timed one of median length.";
const UNTIMED = "Nothing was timed, so the share is of the model FLOPs.";

/**
 * @typedef {import("./model.js").FlopsModel} FlopsModel
 * @typedef {import("./model.js").Module} Module
 *
 * Siblings that stand in one row. node: the first of them.
 * @typedef {{ nodes: Module[], depth: number, node: Module }} Group
 */

/**
 * A column of the tree.
 * @typedef {object} TreeColumn
 * @property {string} key
 * @property {string} label
 * @property {string} [def] key of its definition
 * @property {(group: Group) => number | string | null} value what siblings are sorted by
 * @property {(value: number | null) => string} [show] the value as text
 * @property {(group: Group) => Node} [node] shown instead
 * @property {boolean} [bar] a share, drawn behind the number
 */

/** @param {FlopsModel} model */
export function showTree(model) {
  const open = new Set(firstOpen(model));
  /** @type {{ key: string | null, down: boolean }} */
  let order = { key: null, down: true };
  let fold = true;
  let find = "";
  const columns = treeColumns(model);
  const scroll = h("div", { class: "table-scroll" });
  const fit = cardsWhereNarrow(scroll);
  fill(byId("tree"), exportTools("modules", exported), scroll);
  tools();
  byId("tree-lead").textContent = `${LEAD} ${model.timed ? TIMED : UNTIMED}`;
  draw();

  function tools() {
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
    const foldButton = actionButton(
      "Fold equal siblings",
      () => {
        fold = !fold;
        foldButton.setAttribute("aria-pressed", String(fold));
        draw();
      },
      { "aria-pressed": "true" },
    );
    /** @param {Module[]} nodes */
    const show = (nodes) => {
      open.clear();
      for (const node of nodes) open.add(node.i);
      draw();
    };
    fill(
      byId("tree-tools"),
      search,
      foldButton,
      actionButton("Open all", () => show(model.nodes)),
      actionButton("Close all", () => show(model.roots)),
    );
  }

  /** Every module with all below it, as it is taken along: none folded, none closed. */
  function exported() {
    return model.nodes.map((node) => {
      const group = { nodes: [node], depth: 0, node };
      const told = columns.filter(({ key }) => key !== "module" && key !== "parts");
      const values = told.map((column) => [FIELDS[column.key] ?? column.key, column.value(group)]);
      return { path: node.path, class_name: node.className, ...Object.fromEntries(values) };
    });
  }

  /** What is found, and all above it; null where nothing is looked for. */
  function matching() {
    if (!find) return null;
    const found = model.nodes.filter((node) => `${node.path} ${node.className}`.toLowerCase().includes(find));
    return new Set(found.flatMap((node) => pathTo(model, node).map((above) => above.i)));
  }

  function rows() {
    /** @type {Group[]} */
    const list = [];
    const matches = matching();
    const column = columns.find((c) => c.key === order.key);
    /**
     * @param {Module[]} siblings
     * @param {number} depth
     */
    const walk = (siblings, depth) => {
      const groups = folded(siblings, fold && !find).map((nodes) => ({ nodes, depth, node: nodes[0] }));
      if (column) groups.sort((a, b) => compare(column.value(a), column.value(b), order.down));
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
    const body = list.slice(0, MOST_ROWS).map((group) =>
      h(
        "tr",
        { class: group.node.name === "(outside)" ? "outside" : "", data: { path: group.node.path } },
        columns.map((c) => (c.key === "module" ? moduleCell(group) : cell(c, group))),
      ),
    );
    const more = list.length - MOST_ROWS;
    fill(
      scroll,
      h("table", { class: "tree" }, h("thead", {}, h("tr", {}, columns.map(heading))), h("tbody", {}, body)),
      more > 0 ? h("p", { class: "muted", text: `… and ${more} more rows: close some, or look for a name.` }) : null,
    );
    fit();
  }

  /** @param {TreeColumn} column */
  function heading(column) {
    const first = column.key !== "module"; // names begin with A, numbers with the largest
    return sortHead(column, !first, order, undefined, (sorted) => {
      const again = sorted && order.down !== first;
      order = again ? { key: null, down: true } : { key: column.key, down: sorted ? !first : first };
      draw();
    });
  }

  /** @param {Group} group */
  function moduleCell({ node, nodes, depth }) {
    const is = open.has(node.i);
    const twist = actionButton(
      is ? "▼" : "▶",
      () => {
        if (is) open.delete(node.i);
        else open.add(node.i);
        draw();
      },
      {
        class: "twist",
        disabled: !node.children.length,
        "aria-expanded": String(is),
        "aria-label": `${is ? "Close" : "Open"} ${node.path || "the model"}`,
      },
    );
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

  /**
   * @param {TreeColumn} column
   * @param {Group} group
   */
  function cell(column, group) {
    const value = column.value(group);
    const number = typeof value === "number" ? value : null;
    const td = h("td", { class: `num${column.node ? " split" : ""}`, data: { label: column.label } });
    if (column.bar) addBar(td, number);
    td.append(
      column.node ? column.node(group) : h("span", { class: value ? "" : "zero", text: column.show?.(number) ?? "" }),
    );
    return td;
  }
}

/**
 * Branches that are open at first: level by level, as long as the rows fit a screen.
 * @param {FlopsModel} model
 */
function firstOpen(model) {
  /** @type {number[]} */
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

/**
 * @param {FlopsModel} model
 * @returns {TreeColumn[]}
 */
function treeColumns(model) {
  const flops = ["forward", "backward"].filter((phase) => model.phases.some((known) => known === phase));
  return [
    { key: "module", label: "Module", value: (group) => group.node.name },
    {
      key: "params",
      label: "Params",
      def: "params",
      value: (group) => sum(group.nodes, (node) => node.params),
      show: (value) => si(value),
    },
    ...flops.map((phase) => flopColumn(/** @type {page.PhaseName} */ (phase))),
    {
      key: "vector",
      label: "Vector",
      def: "vector_flops",
      value: (group) => sum(group.nodes, (node) => overPhases(model, node, "vector")),
      show: (value) => si(value),
    },
    {
      key: "bytes",
      label: "Bytes",
      def: "bytes",
      value: (group) => sum(group.nodes, (node) => overPhases(model, node, "bytes")),
      show: (value) => si(value, "B"),
    },
    ...(model.timed ? timeColumns(model) : [flopShareColumn(model)]),
    ...(model.bounded ? boundColumns(model) : []),
  ];
}

/**
 * @param {page.PhaseName} phase
 * @returns {TreeColumn}
 */
function flopColumn(phase) {
  return {
    key: phase,
    label: `${phase === "forward" ? "Fwd" : "Bwd"} FLOP`,
    def: "flops",
    value: (group) => sum(group.nodes, (node) => node.all[phase].flops),
    show: (value) => si(value),
  };
}

/**
 * @param {FlopsModel} model
 * @returns {TreeColumn}
 */
function flopShareColumn(model) {
  return {
    key: "share",
    label: "Share",
    def: "share",
    bar: true,
    value: (group) => sum(group.nodes, (node) => overPhases(model, node, "flops")) / (model.whole.flops || 1),
    show: (value) => percent(value),
  };
}

/**
 * @param {FlopsModel} model
 * @returns {TreeColumn[]}
 */
function timeColumns(model) {
  /** @param {Group} group */
  const time = (group) => sum(group.nodes, (node) => node.totalTime);
  return [
    { key: "time", label: "Time", def: "time", value: time, show: (value) => duration(value) },
    { key: "parts", label: "Phases", value: time, node: (group) => phaseParts(model, group.nodes) },
    {
      key: "share",
      label: "Share",
      def: "share",
      bar: true,
      value: (group) => time(group) / (model.whole.time || 1),
      show: (value) => percent(value),
    },
    {
      key: "rate",
      label: "FLOP/s",
      def: "flops_per_s",
      value: (group) =>
        (sum(group.nodes, (node) => overPhases(model, node, "executed")) * 1e9) /
        (model.doc.ranks * time(group) || Infinity),
      show: (value) => si(value),
    },
  ];
}

/**
 * Modules' time by phase, as a bar.
 * @param {FlopsModel} model
 * @param {Module[]} nodes
 */
function phaseParts({ phases }, nodes) {
  const time = (/** @type {page.PhaseName} */ phase) => sum(nodes, (node) => node.time[phase]);
  const whole = sum(phases, time) || 1;
  return h(
    "span",
    { class: "two", title: phases.map((phase) => `${phase} ${duration(time(phase))}`).join(", ") },
    phases.map((phase) => h("i", { class: phaseClass(phase), style: { width: `${(100 * time(phase)) / whole}%` } })),
  );
}

/**
 * @param {FlopsModel} model
 * @returns {TreeColumn[]}
 */
function boundColumns(model) {
  return [
    {
      key: "bound",
      label: "Bound",
      def: "bound",
      value: (group) => sum(group.nodes, (node) => overPhases(model, node, "bound")),
      show: (value) => duration(value),
    },
    {
      key: "kind",
      label: "Held by",
      def: "bound",
      value: ({ node }) => heldBy(model, node),
      node: ({ node }) => {
        const kind = heldBy(model, node);
        return kind ? h("span", { class: `bound-word ${kind}`, text: kind }) : h("span", { class: "zero", text: "–" });
      },
    },
  ];
}

/**
 * What most of the bound of a module and all below it goes to; null where there is none.
 * @param {FlopsModel} model
 * @param {Module} node
 */
function heldBy(model, node) {
  const parts = { c: 0, m: 0, "-": 0 };
  /** @param {Module} at */
  const walk = (at) => {
    for (const phase of model.phases) parts[at.kind[phase]] += at.own[phase].bound;
    at.children.forEach(walk);
  };
  walk(node);
  return parts.c + parts.m === 0 ? null : parts.c >= parts.m ? "compute" : "memory";
}
