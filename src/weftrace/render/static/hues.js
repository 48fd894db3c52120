// Which colour a box of the lane picture has: by direction where the phases say one, else by micro-batch, else by name.

const DIRECTIONS = {
  F: ["forward", "forward"],
  B: ["backward", "backward"],
  I: ["backward", "input gradient"],
  W: ["weight", "weight gradient"],
};
const MICRO_BATCH = /(?:^|\D)([01])\)?$/; // ATTN0, DISPATCH1, attn(1): DeepSeek's names for two micro-batches

/** {of(box) -> role in the palette, legend: [[role, label]]} for the boxes of one picture. */
export function huesFor(boxes) {
  const legend = new Map();
  const undirected = boxes.filter((box) => !DIRECTIONS[box.direction]);
  const batches = new Set(undirected.map((box) => box.name.match(MICRO_BATCH)?.[1]));
  const byBatch = batches.has("0") && batches.has("1");
  const byName = new Map();
  const of = (box) => {
    if (DIRECTIONS[box.direction]) return DIRECTIONS[box.direction];
    const batch = byBatch ? box.name.match(MICRO_BATCH)?.[1] : undefined;
    if (batch !== undefined) return [batch === "0" ? "forward" : "backward", `micro-batch ${batch}`];
    if (!byName.has(box.name)) byName.set(box.name, [`hue${(byName.size % 8) + 1}`, box.name]);
    return byName.get(box.name);
  };
  for (const box of boxes) {
    const [role, label] = of(box);
    if (!legend.has(label)) legend.set(label, role);
  }
  return { of: (box) => of(box)[0], legend: [...legend].map(([label, role]) => [role, label]) };
}
