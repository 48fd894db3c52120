// Phases of a model's step: their order, and the class of their colours.

/**
 * The class of a colour for a phase.
 * @param {page.PhaseName} phase
 */
export function phaseClass(phase) {
  return `ph-${phase}`;
}

/** @type {page.PhaseName[]} */
export const PHASES = ["forward", "backward", "recompute", "optimizer"];
