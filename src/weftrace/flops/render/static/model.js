// The report as the page uses it: a tree of modules with what each does itself and with all below it.

import { PHASES } from "./words.js";

/**
 * What a module does in a phase, itself or with all below it. bound: in ns.
 * @typedef {{ flops: number, executed: number, vector: number, bytes: number, bound: number }} Sums
 * @typedef {keyof Sums} Sum
 */

/**
 * A value for each phase that the report has.
 * @template Value
 * @typedef {Record<page.PhaseName, Value>} ByPhase
 */

/**
 * A module. Times are in ns.
 * @typedef {object} Module
 * @property {number} i its place in the report
 * @property {string} name
 * @property {string} className
 * @property {string} detail
 * @property {number} parent -1 for a root
 * @property {number} same modules that are alike all the way down have one number
 * @property {number} calls
 * @property {number} ownParams
 * @property {number} params with all below it
 * @property {string} path
 * @property {Module[]} children
 * @property {ByPhase<Sums>} own what it does itself
 * @property {ByPhase<"c" | "m" | "-">} kind what most of its own bound goes to: compute, memory, nothing
 * @property {ByPhase<Sums>} all with all below it
 * @property {ByPhase<number>} time with all below it, 0 where not timed
 * @property {ByPhase<number | null>} ownTime outside its children
 * @property {number} totalTime over all phases
 */

/** @typedef {ReturnType<typeof flopsModel>} FlopsModel */

/**
 * {doc, phases, nodes, roots, timed, bounded, whole}: nodes as in the block, each with what is below it.
 * @param {page.Flops} doc
 */
export function flopsModel(doc) {
  const phases = PHASES.filter((phase) => doc.work[phase]);
  const nodes = doc.modules.name.map((_, i) => moduleAt(doc, phases, i));
  /** @type {Module[]} */
  const roots = [];
  for (const node of nodes) {
    const parent = node.parent < 0 ? null : nodes[node.parent];
    (parent ? parent.children : roots).push(node);
    node.path = parent?.path ? `${parent.path}.${node.name}` : node.name;
  }
  // Children come after their parents, so that from the end each finds what is below it.
  for (const node of [...nodes].reverse()) {
    node.params = node.ownParams + sum(node.children, (child) => child.params);
    node.all = byPhase(phases, (phase) =>
      sums((key) => node.own[phase][key] + sum(node.children, (child) => child.all[phase][key])),
    );
    node.time = byPhase(
      phases,
      (phase) => (node.ownTime[phase] ?? 0) + sum(node.children, (child) => child.time[phase]),
    );
    node.totalTime = sum(phases, (phase) => node.time[phase]);
  }
  const whole = {
    flops: sum(roots, (node) => sum(phases, (phase) => node.all[phase].flops)),
    time: sum(roots, (node) => node.totalTime),
  };
  return { doc, phases, nodes, roots, timed: doc.timed, bounded: doc.bounded, whole };
}

/**
 * A module by itself; what is below it is not known yet.
 * @param {page.Flops} doc
 * @param {page.PhaseName[]} phases
 * @param {number} i
 * @returns {Module}
 */
function moduleAt(doc, phases, i) {
  const columns = doc.modules;
  const own = byPhase(phases, (phase) => sums((key) => valueAt(doc.work[phase], key, i)));
  return {
    i,
    name: columns.name[i],
    className: doc.classes[columns.class[i]],
    detail: doc.details[columns.detail[i]],
    parent: columns.parent[i],
    same: columns.same[i],
    calls: columns.calls[i],
    ownParams: columns.params[i],
    params: 0,
    path: "",
    children: [],
    own,
    kind: byPhase(phases, (phase) => /** @type {"c" | "m" | "-"} */ (doc.work[phase].kind?.[i] ?? "-")),
    all: own,
    time: byPhase(phases, () => 0),
    ownTime: byPhase(phases, (phase) => doc.work[phase].own_time?.[i] ?? null),
    totalTime: 0,
  };
}

/**
 * A module's value in a column; a column that is left out is zeros, `executed` is then `flops`.
 * @param {page.Flops["work"][string]} columns
 * @param {Sum} key
 * @param {number} i
 */
function valueAt(columns, key, i) {
  return columns[key]?.[i] ?? (key === "executed" ? columns.flops[i] : 0);
}

/**
 * @template Value
 * @param {page.PhaseName[]} phases
 * @param {(phase: page.PhaseName) => Value} value
 * @returns {ByPhase<Value>}
 */
function byPhase(phases, value) {
  return /** @type {ByPhase<Value>} */ (Object.fromEntries(phases.map((phase) => [phase, value(phase)])));
}

/**
 * @param {(key: Sum) => number} value
 * @returns {Sums}
 */
function sums(value) {
  return {
    flops: value("flops"),
    executed: value("executed"),
    vector: value("vector"),
    bytes: value("bytes"),
    bound: value("bound"),
  };
}

/**
 * Over all phases: of a module's own work ("own"), or with all below it ("all").
 * @param {FlopsModel} model
 * @param {Module} node
 * @param {Sum} key
 * @param {"own" | "all"} [scope]
 */
export function overPhases(model, node, key, scope = "all") {
  return sum(model.phases, (phase) => node[scope][phase][key]);
}

/**
 * A module's own time over all phases.
 * @param {FlopsModel} model
 * @param {Module} node
 */
export function ownTimeOf(model, node) {
  return sum(model.phases, (phase) => node.ownTime[phase] ?? 0);
}

/**
 * The module above; null above a root.
 * @param {FlopsModel} model
 * @param {Module} node
 */
export function parentOf(model, node) {
  return node.parent < 0 ? null : model.nodes[node.parent];
}

/**
 * A module and all above it, from the root down.
 * @param {FlopsModel} model
 * @param {Module | null} node
 */
export function pathTo(model, node) {
  /** @type {Module[]} */
  const path = [];
  for (let at = node; at; at = parentOf(model, at)) path.unshift(at);
  return path;
}

/**
 * Siblings in order; neighbours that are alike all the way down stand together: [[node, …], …].
 * @param {Module[]} nodes
 * @param {boolean} fold
 */
export function folded(nodes, fold) {
  /** @type {Module[][]} */
  const groups = [];
  for (const node of nodes) {
    const last = groups.at(-1);
    if (fold && last && last[0].same === node.same && last[0].name !== "(outside)") last.push(node);
    else groups.push([node]);
  }
  return groups;
}

/**
 * "layers.0–23", "0–11": the names of folded siblings.
 * @param {Module[]} nodes
 */
export function groupName(nodes) {
  if (nodes.length === 1) return nodes[0].name || "(the model)";
  return `${nodes[0].name}–${nodes[nodes.length - 1].name}`;
}

/**
 * @template Item
 * @param {Item[]} list
 * @param {(item: Item) => number} value
 */
export function sum(list, value) {
  let result = 0;
  for (const item of list) result += value(item);
  return result;
}
