// What a placement document says about one GPU, one layer, one expert. Lookups only: nothing here is estimated.

/**
 * @typedef {ReturnType<typeof placementModel>} PlacementModel
 * @typedef {"before" | "after"} Which
 * @typedef {{ slot: number, expert: number, share: number, copies: number, ratio: number }} Content
 */

/**
 * document: `weftrace.placement/1`. "before" and "after" are the two placements of `gpu_load`; "before" is the
 * published EPLB's where no placement was in force.
 * Returns lookups by layer l, GPU g, expert e and slot s.
 * @param {page.Placement} document
 */
export function placementModel(document) {
  const { cluster, loads, gpu_load: gpuLoad, expert_of_slot: expertOfSlot, share_of_slot: shares } = document;
  const numGpus = cluster.slots_of_gpu.length;
  const perNode = numGpus / cluster.num_nodes;
  const out = new Set([...cluster.dead, ...cluster.draining]);
  const firstSlot = [0];
  for (const slots of cluster.slots_of_gpu) firstSlot.push(firstSlot[firstSlot.length - 1] + slots);
  const gpuOfSlot = cluster.slots_of_gpu.flatMap((slots, gpu) => Array(slots).fill(gpu));
  const speed = cluster.speed_of_gpu.reduce((sum, value, gpu) => sum + (out.has(gpu) ? 0 : value), 0);
  const means = loads.map((row) => row.reduce((sum, load) => sum + load, 0) / speed);
  /** @type {Map<number, number[][]>} */
  const copies = new Map(); // layer -> slots of each expert, found when first asked for

  /**
   * Slots of each expert of a layer, ascending.
   * @param {number} layer
   */
  function slotsOf(layer) {
    const known = copies.get(layer);
    if (known) return known;
    /** @type {number[][]} */
    const found = Array.from({ length: document.num_experts }, () => []);
    expertOfSlot[layer].forEach((expert, slot) => {
      if (expert >= 0) found[expert].push(slot);
    });
    copies.set(layer, found);
    return found;
  }

  /**
   * @param {number} layer
   * @param {number} slot
   */
  const shareOf = (layer, slot) =>
    shares ? shares[layer][slot] : 1 / slotsOf(layer)[expertOfSlot[layer][slot]].length;
  /**
   * A GPU's time as a multiple of the mean; 1 in a layer without load, and where the document holds no such placement.
   * @param {Which} which
   * @param {number} layer
   * @param {number} gpu
   */
  const ratio = (which, layer, gpu) => {
    const side = gpuLoad[which];
    return side && means[layer] > 0 ? side.load[layer][gpu] / cluster.speed_of_gpu[gpu] / means[layer] : 1;
  };
  /**
   * A GPU's experts in a layer, the largest load first: [{slot, expert, share, copies, ratio}], ratio in mean GPU
   * times.
   * @param {number} layer
   * @param {number} gpu
   */
  const contents = (layer, gpu) => {
    /** @type {Content[]} */
    const found = [];
    for (let slot = firstSlot[gpu]; slot < firstSlot[gpu + 1]; slot += 1) {
      const expert = expertOfSlot[layer][slot];
      if (expert < 0) continue;
      const share = shareOf(layer, slot);
      const time = (loads[layer][expert] * share) / cluster.speed_of_gpu[gpu];
      found.push({
        slot,
        expert,
        share,
        copies: slotsOf(layer)[expert].length,
        ratio: means[layer] > 0 ? time / means[layer] : 0,
      });
    }
    return found.sort((a, b) => b.ratio - a.ratio || a.expert - b.expert);
  };
  /**
   * @param {Which} which
   * @param {number} layer
   */
  const most = (which, layer) =>
    cluster.speed_of_gpu.reduce((best, _, gpu) => Math.max(best, ratio(which, layer, gpu)), 0);

  return {
    document,
    numGpus,
    perNode,
    means,
    slotsOf,
    shareOf,
    ratio,
    contents,
    most,
    numLayers: document.num_layers,
    /** @param {number} layer its number in the model: recordings may begin at 3, or leave some out */
    numberOf: (layer) => document.layers[layer],
    hasBefore: gpuLoad.before !== null,
    /** @param {number} gpu */
    nodeOf: (gpu) => Math.floor(gpu / perNode),
    /** @param {number} slot */
    gpuOf: (slot) => gpuOfSlot[slot],
    /** @param {number} gpu */
    isOut: (gpu) => out.has(gpu),
    /** @param {number} gpu */
    state: (gpu) => (cluster.dead.includes(gpu) ? "dead" : cluster.draining.includes(gpu) ? "draining" : ""),
    /**
     * Balancedness by layer: of "before", "after" or the "bound"; null where the document does not hold it.
     * @param {Which | "bound"} which
     * @param {number} layer
     * @returns {number | null}
     */
    balancedness: (which, layer) => {
      if (which !== "bound") return gpuLoad[which]?.balancedness[layer] ?? null;
      const { certificate } = document;
      if (!certificate) return null;
      return certificate.bound[layer] > 0 ? certificate.mean[layer] / certificate.bound[layer] : 1;
    },
  };
}
