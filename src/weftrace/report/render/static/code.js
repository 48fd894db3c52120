// Which module, or which Python function, took the time? The tree as an icicle, and a table of its nodes.

import { actionButton, byId, choiceButtons, fill, h } from "render/dom.js";
import { duration, grouped, plural, si, withoutFolders } from "render/format.js";
import { classColors, icicle, legendKeys } from "render/icicle.js";
import { columnsOf, sortableTable } from "render/tables.js";

const FIRST = 15;
const COLORS = [0, 1, 2, 3, 4, 5, 6];
const OUTSIDE = "(outside)";
const SMALLER = "(smaller ones)"; // roots that the document does not hold
const MOST_UNFOLDED = 40; // nodes of a tree that is shown as it is at first

/**
 * @typedef {NonNullable<page.Rank["modules"]>} Code
 * @typedef {Code["nodes"][number]} Row
 * @typedef {"modules" | "lines"} By
 * @typedef {import("render/dom.js").Child} Child
 * @typedef {"total_ns" | "idle_ns"} Metric
 *
 * A row of the document in its tree. path: the names from the root down.
 * @typedef {Row & { up: Node | null, children: Node[], path: string[], className: string }} Node
 *
 * What is on the screen.
 * @typedef {{ by: By, metric: Metric, fold: boolean, nodes: Node[] }} State
 */

/** @type {Record<By, [word: string, title: string, lead: string]>} */
const WORDS = {
  modules: ["Modules", "Time by module", "Work that a module launched, or that autograd launched for it."],
  lines: ["Functions", "Time by Python function", "Functions by caller; the line is where a function begins."],
};
/** @type {Record<Metric, [word: string, lead: string]>} */
const METRICS = {
  total_ns: ["Time", "Width: sum of the durations of device events."],
  idle_ns: ["Idle before", "Width: gaps of the device that ended with one of its events."],
};
const TOLD = {
  frames: "",
  hierarchy: " Read from operators of TorchScript.",
  ranges: " Read from ranges that are named like modules.",
  stacks: " Read from the call stacks of operators.",
  nothing: " This file has none: torch.profiler records modules with with_stack=True.",
};

/** @param {page.Rank} rank */
export function showCode(rank) {
  const present = /** @type {By[]} */ (["modules", "lines"]).filter((by) => rank[by]);
  byId("code").hidden = !present.length;
  if (!present.length) return;
  /** @type {State} */
  const state = { by: present[0], metric: "total_ns", fold: true, nodes: [] };
  state.fold = shownOf(rank, present[0]).nodes.length > MOST_UNFOLDED;
  let colors = classColors(new Map(), COLORS, OUTSIDE);
  const table = nodeTable(rank, (node) => {
    chart.go(state.nodes.find((other) => other === node || (state.by === "lines" && other.name === node.name)) ?? null);
    byId("code").scrollIntoView({ block: "start" });
  });
  const find = h("input", {
    type: "search",
    placeholder: "Filter by name",
    "aria-label": "Filter modules and functions by name",
    on: { input: () => showRows() },
  });
  turn();
  const holder = h("div"); // of its own, so that a rank that was shown before draws into none that is on the screen
  fill(byId("code-chart"), holder);
  const chart = icicle(holder, byId("code-path"), () => ({
    label: METRICS[state.metric][0],
    all: "all",
    roots: state.nodes.filter((node) => !node.up),
    children: (node) => node.children,
    parent: (node) => node.up,
    of: (node) => node[state.metric],
    own: (node) => node[state.metric] - node.children.reduce((sum, child) => sum + child[state.metric], 0),
    text: (value) => duration(value),
    title: (node) => shortTitle(node),
    name: (node) => node.path.join(" › "),
    color: (node) => colors.of(node.className),
    facts: (node, value, share) => [
      [METRICS[state.metric][0].toLowerCase(), `${duration(value)}${share}`],
      ["calls", grouped(node.num_calls)],
      ["device events", grouped(node.num_events)],
      node.backward_ns ? ["in the backward", duration(node.backward_ns)] : null,
      node.exposed_ns ? ["exposed communication", duration(node.exposed_ns)] : null,
      ["idle in it", duration(node.idle_ns)],
      ["idle before it", duration(node.idle_before_ns)],
    ],
  }));
  fill(byId("code-filter"), find);
  fill(byId("code-table"), table.element);

  /** What is shown was chosen anew: its nodes, their colours, all words. */
  function turn() {
    state.nodes = nodesOf(shownOf(rank, state.by), state.by === "modules" && state.fold);
    /** @type {Map<string, number>} */
    const weight = new Map();
    for (const node of state.nodes) weight.set(node.className, (weight.get(node.className) ?? 0) + node.self_ns);
    colors = classColors(weight, COLORS, OUTSIDE);
    fill(byId("code-legend"), legendKeys(colors.legend));
    const [, title, lead] = WORDS[state.by];
    byId("code-title").textContent = title;
    const { told_by, num_nodes, nodes, graph_ns } = shownOf(rank, state.by);
    byId("code-lead").textContent = `${lead}${TOLD[told_by]} ${METRICS[state.metric][1]} Click to zoom into it.`;
    const rest = nodes.find((node) => node.name === SMALLER);
    const left = plural(num_nodes - nodes.length + (rest ? 1 : 0), "node");
    const among = rest ? `, or are part of ${SMALLER}` : "";
    const small = `${left} have no more time: their time is own time of the rows above${among}.`;
    const time = duration(graph_ns);
    const graphs = `Outside all modules, ${time} ran in graphs (CUDA, HIP): a replay belongs to none of the modules.`;
    byId("code-rest").textContent = [num_nodes > nodes.length ? small : "", graph_ns ? graphs : ""].join(" ").trim();
    fill(byId("code-tools"), tools());
    showRows();
  }

  function tools() {
    /** @param {Partial<State>} change */
    const turnTo = (change) => {
      Object.assign(state, change);
      turn();
      chart.go(null);
    };
    /** @type {(buttons: HTMLElement[]) => HTMLElement} */
    const choices = (buttons) => h("div", { class: "choices" }, buttons);
    /** @type {<K extends "by" | "metric">(key: K, known: State[K][], words: Record<State[K], string[]>) => Child} */
    const of = (key, known, words) =>
      choices(
        choiceButtons(
          known,
          (each) => words[each][0],
          (each) => each === state[key],
          (each) => turnTo({ [key]: each }),
        ),
      );
    const fold = { "aria-pressed": String(state.fold) };
    return [
      present.length > 1 ? of("by", present, WORDS) : null,
      of("metric", /** @type {Metric[]} */ (Object.keys(METRICS)), METRICS),
      state.by === "modules"
        ? choices([actionButton("Fold equal siblings", () => turnTo({ fold: !state.fold }), fold)])
        : null,
    ];
  }

  function showRows() {
    const wanted = find.value.trim().toLowerCase();
    const rows = state.by === "lines" ? nodesOf(shownOf(rank, "lines"), true) : state.nodes;
    table.setRows(rows.filter((node) => node.path.join(" ").toLowerCase().includes(wanted)));
  }
}

/**
 * @param {page.Rank} rank
 * @param {By} by
 */
function shownOf(rank, by) {
  return /** @type {Code} */ (rank[by]);
}

/**
 * The rows of a document as a tree, and what lies outside of it.
 * @param {Code} code
 * @param {boolean} folded
 */
function nodesOf(code, folded) {
  /** @type {Node[]} */
  const nodes = [];
  for (const row of [...(folded ? code.folded : code.nodes), code.outside]) {
    const up = row.parent === null ? null : nodes[row.parent];
    const name = row.num_members > 1 ? `${row.name} ×${row.num_members}` : row.name;
    const node = { ...row, up, children: [], path: [...(up?.path ?? []), name], className: classOf(row.name) };
    nodes.push(node);
    up?.children.push(node);
  }
  return nodes.filter((node) => node.num_events || node.idle_ns);
}

/**
 * A module's class ("Linear_3", "up: Linear": Linear), a function's file; "" of what lies outside.
 * @param {string} name
 */
function classOf(name) {
  if (name === OUTSIDE) return "";
  const file = /^(.*)\(\d+\): /.exec(name);
  return file ? withoutFolders(file[1]) : name.replace(/^.*: /, "").replace(/_\d+$/, "");
}

/** @param {Node} node */
function shortTitle(node) {
  return withoutFolders(node.path[node.path.length - 1]);
}

/**
 * @param {page.Rank} rank
 * @param {(node: Node) => void} onNode
 */
function nodeTable(rank, onNode) {
  /** @param {"backward_ns" | "exposed_ns" | "flops"} key */
  const where = (key) =>
    [rank.modules, rank.lines].some((code) => code && [...code.nodes, code.outside].some((row) => row[key]))
      ? `${key} `
      : "";
  const some = where("backward_ns") + where("exposed_ns");
  const rates = where("flops") ? " flops flops_per_s" : "";
  const keys = `name num_calls num_events total_ns share self_ns ${some}idle_ns idle_before_ns${rates}`;
  const whole = rank.serial_ns || 1;
  return sortableTable({
    name: "code",
    rows: /** @type {Node[]} */ ([]),
    limit: FIRST,
    sort: { key: "total_ns", down: true },
    empty: "Nothing matches the filter.",
    // The path stands for `parent`, a place in the document's list; what only the picture needs is not the document's.
    taken: ({ path, up, parent, className, children, ...row }) => ({ path: path.join(" > "), ...row }),
    columns: columnsOf("code", keys, {
      name: {
        label: "module or function",
        value: (node) => node.path.slice(-2).map(withoutFolders).join(" › "),
        node: (node) =>
          actionButton(node.path.slice(-2).map(withoutFolders).join(" › "), () => onNode(node), {
            class: "find",
            title: `Zoom into it above:\n${node.path.join("\n")}`,
          }),
      },
      share: {
        kind: "percent",
        def: "module_time",
        value: (node) => node.total_ns / whole,
        bar: (node) => node.total_ns / whole,
      },
      flops: { kind: "count", text: (node) => (node.flops ? si(node.flops) : "–") },
      flops_per_s: { kind: "count", text: (node) => si(node.flops_per_s) },
    }),
  });
}
