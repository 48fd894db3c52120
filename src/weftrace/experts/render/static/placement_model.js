// What a placement document says about one GPU, one layer, one expert. Lookups only: nothing here is estimated.

/**
 * document: `weftrace.placement/1`. "before" and "after" are the two placements of `gpu_load`.
 * Returns lookups by layer l, GPU g, expert e and slot s.
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
  const copies = new Map(); // layer -> slots of each expert, found when first asked for

  /** Slots of each expert of a layer, ascending. */
  function slotsOf(layer) {
    if (!copies.has(layer)) {
      const found = Array.from({ length: document.num_experts }, () => []);
      expertOfSlot[layer].forEach((expert, slot) => {
        if (expert >= 0) found[expert].push(slot);
      });
      copies.set(layer, found);
    }
    return copies.get(layer);
  }

  const shareOf = (layer, slot) =>
    shares ? shares[layer][slot] : 1 / slotsOf(layer)[expertOfSlot[layer][slot]].length;
  const ratio = (which, layer, gpu) =>
    means[layer] > 0 ? gpuLoad[which].load[layer][gpu] / cluster.speed_of_gpu[gpu] / means[layer] : 1;
  /** A GPU's experts in a layer, the largest load first: [{slot, expert, share, copies, ratio}], ratio in mean GPU times. */
  const contents = (layer, gpu) => {
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
    hasBefore: gpuLoad.before !== null,
    nodeOf: (gpu) => Math.floor(gpu / perNode),
    gpuOf: (slot) => gpuOfSlot[slot],
    isOut: (gpu) => out.has(gpu),
    state: (gpu) => (cluster.dead.includes(gpu) ? "dead" : cluster.draining.includes(gpu) ? "draining" : ""),
    /** Balancedness by layer: of "before", "after" or the "bound"; null where the document does not hold it. */
    balancedness: (which, layer) => {
      if (which !== "bound") return gpuLoad[which]?.balancedness[layer] ?? null;
      const { certificate } = document;
      if (!certificate) return null;
      return certificate.bound[layer] > 0 ? certificate.mean[layer] / certificate.bound[layer] : 1;
    },
  };
}
