// The view in the address: which rank, which stretch of time, what is selected and searched. Opened again, the page
// shows the same. A fragment without "=" is the anchor of a section, and is left alone.

const SETTLE_MS = 250; // a glide changes the view in every frame, and browsers allow few changes of the address
const MOST_CHARS = 200; // of a search

/**
 * Times in ns from the rank's start, those of `all`, the picture of all ranks, from the job's; event and rank by their
 * place.
 * @typedef {object} State
 * @property {[number, number]} [all]
 * @property {number} [rank]
 * @property {[number, number]} [view]
 * @property {[number, number]} [range]
 * @property {number} [event]
 * @property {string} [find]
 */

/**
 * Keeps the address in step with what read() says, and calls show() with what the address says, at first and whenever
 * the reader changes it. Returns what is to be called after each change of the view.
 * @param {() => State} read
 * @param {(state: State) => void} show
 * @returns {() => void}
 */
export function keepInFragment(read, show) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let settling;
  const write = () => {
    const text = asFragment(read());
    const isView = location.hash.includes("=");
    if (!text && !isView) return; // nothing to say, and an anchor to keep
    try {
      history.replaceState(history.state, "", text ? `#${text}` : location.pathname + location.search);
    } catch {
      /* too many changes at once, or a place that allows none: the page works without */
    }
  };
  const restore = () => {
    if (location.hash.includes("=")) show(asState(location.hash.slice(1)));
  };
  window.addEventListener("hashchange", restore);
  restore();
  return () => {
    clearTimeout(settling);
    settling = setTimeout(write, SETTLE_MS);
  };
}

/** @param {State} state */
export function asFragment({ all, rank, view, range, event, find }) {
  /** @param {[number, number]} span */
  const times = ([from, to]) => `${Math.round(from)}..${Math.round(to)}`;
  const parts = [
    all ? `all=${times(all)}` : "",
    rank === undefined ? "" : `rank=${rank}`,
    view ? `view=${times(view)}` : "",
    range ? `range=${times(range)}` : "",
    event === undefined ? "" : `event=${event}`,
    find ? `find=${encodeURIComponent(find)}` : "",
  ];
  return parts.filter(Boolean).join("&");
}

/**
 * What a fragment says, without what makes no sense.
 * @param {string} text
 * @returns {State}
 */
export function asState(text) {
  const said = new Map(text.split("&").map((part) => /** @type {[string, string]} */ (part.split("=", 2))));
  /** @param {string} key */
  const whole = (key) => (/^\d{1,9}$/.test(said.get(key) ?? "") ? Number(said.get(key)) : undefined);
  /**
   * @param {string} key
   * @returns {[number, number] | undefined}
   */
  const span = (key) => {
    const found = /^(-?\d{1,16})\.\.(-?\d{1,16})$/.exec(said.get(key) ?? "");
    return found && Number(found[1]) < Number(found[2]) ? [Number(found[1]), Number(found[2])] : undefined;
  };
  return {
    all: span("all"),
    rank: whole("rank"),
    view: span("view"),
    range: span("range"),
    event: whole("event"),
    find: words(said),
  };
}

/** @param {Map<string, string>} said */
function words(said) {
  try {
    return decodeURIComponent(said.get("find") ?? "").slice(0, MOST_CHARS) || undefined;
  } catch {
    return undefined; // a lone "%"
  }
}
