"""What sticks out of a page's window, and which digits are cut: asked of every element that shows text of its own."""

#: {scroll: how much wider than the window the page is, wide: what makes it so, cut: elements whose digits are cut off,
#: boxes: tables that scroll in a box of their own}. SVG's text counts as cut where it leaves its picture.
WALK = """() => {
  const digit = /[0-9]/;
  const own = (e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent).join("").trim();
  const named = (e) => `${e.tagName.toLowerCase()}.${e.getAttribute("class") ?? ""}#${e.closest("[id]")?.id ?? ""}`;
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".sr, noscript, script, style");
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const clips = (e) => getComputedStyle(e).overflowX !== "visible";
  const cut = [];
  const boxes = new Set();
  const wide = [];
  const range = document.createRange();
  for (const e of document.querySelectorAll("body *")) {
    if (!shown(e)) continue;
    if (e.getBoundingClientRect().right > innerWidth + 1 && !e.children.length) wide.push(named(e));
    if (scrolls(e) && e.scrollWidth > e.clientWidth + 1) boxes.add(`${named(e)}: ${e.scrollWidth} > ${e.clientWidth}`);
    if (e instanceof HTMLSelectElement || e instanceof HTMLOptionElement || !digit.test(own(e))) continue;
    range.selectNodeContents(e);
    const text = range.getBoundingClientRect();
    // A name may be cut where its whole stands in a title.
    const title = e.closest("[title]")?.title;
    const whole = title !== undefined && own(e).split(" › ").every((part) => title.includes(part));
    let outOfSight = false; // all of it, as a word that has wrapped below the edge of its part of a bar
    for (let box = e; box && box !== document.body; box = box.parentElement) {
      if (!clips(box) || whole) continue;
      const at = box.getBoundingClientRect();
      if (scrolls(box)) break; // what it holds can be scrolled to; the box itself is told of above
      outOfSight = text.top >= at.bottom || text.right <= at.left || text.left >= at.right;
      if (outOfSight) break;
      if (text.right > at.right + 1 || text.left < at.left - 1) {
        cut.push(`${named(e)}: ${own(e).slice(0, 60)}`);
        break;
      }
    }
    const gutter = e.closest(".lane-label, .track-label")?.parentElement?.getBoundingClientRect();
    if (gutter && text.right > gutter.right + 1 && text.left < gutter.right && !whole)
      cut.push(`${named(e)} under its picture: ${own(e).slice(0, 60)}`);
    if (text.right > innerWidth + 1 && !whole && !outOfSight) cut.push(`${named(e)} beyond: ${own(e).slice(0, 60)}`);
  }
  const page = document.scrollingElement;
  return { scroll: page.scrollWidth - innerWidth, cut, boxes: [...boxes], wide: [...new Set(wide)] };
}"""
