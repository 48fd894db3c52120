// The stretch of time that a picture shows, and how it may move. A picture holds one; gestures and buttons change it.

const CLOSEST_NS = 200; // no kernel is shorter, and float64 still has digits to spare

export class Viewport {
  /**
   * @param {number} min
   * @param {number} max
   */
  constructor(min, max) {
    /** @type {((view: Viewport) => void)[]} */
    this.listeners = [];
    /** @type {symbol | null} */
    this.flight = null;
    this.min = min;
    this.max = max;
    this.start = min;
    this.end = max;
    /** @type {[number, number]} */
    this.home = [min, max];
    this.reset(min, max);
  }

  /**
   * New limits; `home` (everything, unless given) comes into view.
   * @param {number} min
   * @param {number} max
   * @param {[number, number]} [home]
   */
  reset(min, max, home = [min, max]) {
    this.flight = null;
    this.min = min;
    this.max = Math.max(max, min + CLOSEST_NS);
    this.home = home;
    this.set(...home);
  }

  get length() {
    return this.end - this.start;
  }

  /**
   * Shows [start, end), kept within the limits.
   * @param {number} start
   * @param {number} end
   */
  set(start, end) {
    const length = Math.min(Math.max(end - start, CLOSEST_NS), this.max - this.min);
    this.start = Math.min(Math.max(start, this.min), this.max - length);
    this.end = this.start + length;
    this.listeners.forEach((listener) => listener(this));
  }

  /**
   * factor < 1 comes closer. `at` stays where it is on the screen. Says whether anything changed.
   * @param {number} factor
   * @param {number} [at]
   */
  zoom(factor, at = (this.start + this.end) / 2) {
    const before = this.length;
    const length = Math.min(Math.max(before * factor, CLOSEST_NS), this.max - this.min);
    const start = at - ((at - this.start) * length) / before;
    this.set(start, start + length);
    return this.length !== before;
  }

  /** @param {number} ns */
  pan(ns) {
    this.set(this.start + ns, this.end + ns);
  }

  /**
   * Moves there in a few frames, so that the eye can follow; at once for readers who ask for less motion.
   * @param {number} start
   * @param {number} end
   */
  glide(start, end) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.set(start, end);
      return;
    }
    const from = [this.start, this.end];
    const began = performance.now();
    const mine = Symbol("flight");
    this.flight = mine;
    /** @param {number} now */
    const frame = (now) => {
      if (this.flight !== mine) return;
      const t = Math.min(1, Math.max(0, (now - began) / 220));
      const eased = 1 - (1 - t) ** 3;
      this.set(from[0] + (start - from[0]) * eased, from[1] + (end - from[1]) * eased);
      if (t < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** Stops a glide: the reader has taken over. */
  hold() {
    this.flight = null;
  }

  /** @param {(view: Viewport) => void} listener */
  onChange(listener) {
    this.listeners.push(listener);
  }
}
