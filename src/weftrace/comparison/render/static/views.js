// One scale of time for several pictures: what moves one moves the others, each by its own zero.

/** @typedef {import("render/viewport.js").Viewport} Viewport */

/**
 * Joins views of two runs: {set(spans, zeros)}. A time of one lies above the time of the other that is as far from its
 * zero.
 * @param {{ before: Viewport[], after: Viewport[] }} views
 */
export function joinedViews(views) {
  const zeros = { before: 0, after: 0 };
  const all = /** @type {const} */ (["before", "after"]).flatMap((run) => views[run].map((view) => ({ run, view })));
  let moving = false;
  for (const { run, view } of all) {
    view.onChange(() => {
      if (moving) return;
      moving = true;
      for (const other of all) {
        const shift = zeros[other.run] - zeros[run];
        if (other.view !== view) other.view.set(view.start + shift, view.end + shift);
      }
      moving = false;
    });
  }
  return {
    /**
     * New lengths, and times that lie above each other; all of both comes into view.
     * @param {{ before: number, after: number }} spans
     * @param {{ before: number, after: number }} at
     */
    set: (spans, at) => {
      Object.assign(zeros, at);
      const from = -Math.max(zeros.before, zeros.after);
      const to = Math.max(1, spans.before - zeros.before, spans.after - zeros.after);
      moving = true;
      for (const { run, view } of all) view.reset(from + zeros[run], to + zeros[run]);
      moving = false;
    },
    zeros,
  };
}
