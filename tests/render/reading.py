"""What makes a page hard to read, asked of every element that shows text of its own, in the browser."""

#: A list of faults; none where a page reads well. Text on canvases is not seen.
FAULTS = """() => {
  const faults = [];
  const all = [...document.querySelectorAll("body *")];
  const own = (e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent).join("").trim();
  const named = (e) => `${e.tagName.toLowerCase()}.${e.getAttribute("class") ?? ""}#${e.closest("[id]")?.id ?? ""}`;
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".sr, noscript, script, style");
  const told = (what, e) => faults.push(`${what}: ${named(e)}: ${own(e).slice(0, 60)}`);

  // ---- contrast of at least 4.5 (WCAG 2.2, 1.4.3), against the worst of what may lie behind
  const rgba = (text) => {
    const xyz = /color\\(xyz\\S* \\S+ (\\S+)/.exec(text); // black or white, see page.css
    if (xyz) return [255 * xyz[1], 255 * xyz[1], 255 * xyz[1], 1];
    const found = /rgba?\\(([^)]+)\\)|color\\(srgb ([^)]+)\\)/.exec(text);
    if (!found) return null;
    const [r, g, b, a = 1] = (found[1] ?? found[2]).split(/[\\s,/]+/).map(Number);
    const unit = found[1] === undefined ? 255 : 1;
    return [r * unit, g * unit, b * unit, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (color) => {
    const linear = (s) => (s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [more, less] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (more + 0.05) / (less + 0.05);
  };
  const opacity = (e) => (e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1);
  const grounds = (e) => {
    const layers = [];
    for (let box = e; box; box = box.parentElement) {
      const { backgroundImage, backgroundColor } = getComputedStyle(box);
      const stripes = backgroundImage.startsWith("repeating") ? backgroundImage.match(/rgba?\\([^)]+\\)/g) : null;
      if (stripes) return stripes.map((stripe) => layers.reduceRight((g, l) => over(l, g), rgba(stripe)));
      const color = rgba(backgroundColor);
      layers.push(color);
      if (color[3] === 1) break;
    }
    return [layers.reduceRight((g, l) => over(l, g), [255, 255, 255, 1])];
  };
  /** A picture's own ground, then each rectangle that was drawn under the middle of a text. */
  const groundsInPicture = (e) => {
    const at = e.getBoundingClientRect();
    const [x, y] = [(at.left + at.right) / 2, (at.top + at.bottom) / 2];
    let found = grounds(e.ownerSVGElement.parentElement);
    for (const rect of e.ownerSVGElement.querySelectorAll("rect")) {
      if (!(rect.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const { fill, fillOpacity } = getComputedStyle(rect);
      const [box, color] = [rect.getBoundingClientRect(), rgba(fill)];
      if (!color || !shown(rect) || x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
      found = found.map((ground) => over([...color.slice(0, 3), color[3] * fillOpacity * opacity(rect)], ground));
    }
    return found;
  };
  const check = (e, text, color, behind) => {
    if (!color) return;
    const least = Math.min(...behind.map((g) => contrast(over([...color.slice(0, 3), color[3] * opacity(e)], g), g)));
    if (least < 4.495) told(`contrast ${least.toFixed(2)} of "${text.slice(0, 20)}"`, e);
  };
  for (const e of all) {
    if (!shown(e) || e.closest(":disabled")) continue;
    const [style, text] = [getComputedStyle(e), own(e)];
    if (e instanceof SVGElement) {
      if (!text || !(e instanceof SVGTextContentElement)) continue;
      const framed = style.paintOrder.startsWith("stroke") && parseFloat(style.strokeWidth) >= 3;
      check(e, text, rgba(style.fill), framed ? [rgba(style.stroke)] : groundsInPicture(e));
      continue;
    }
    const halo = rgba(style.textShadow);
    if (text) check(e, text, rgba(style.color), halo ? [halo] : grounds(e));
    if (e.placeholder) check(e, e.placeholder, rgba(getComputedStyle(e, "::placeholder").color), grounds(e));
    const before = getComputedStyle(e, "::before");
    if (!["none", "normal", '""'].includes(before.content)) check(e, before.content, rgba(before.color), grounds(e));
  }

  // ---- links lead somewhere; a headline is two lines; headers name files, not folders
  for (const a of document.querySelectorAll("nav a"))
    if (shown(a) && !document.getElementById(a.hash.slice(1))?.checkVisibility()) told("a link without a target", a);
  const h1 = document.querySelector("h1");
  const lines = h1.getBoundingClientRect().height / parseFloat(getComputedStyle(h1).lineHeight);
  if (innerWidth >= 1400 && lines > 2.4) told(`a headline of ${lines.toFixed(0)} lines`, h1);
  for (const e of document.querySelectorAll("title, .source, h1, .facts, .facts *"))
    if (/(^|[\\s(=])\\/[^\\s/]+\\//.test(own(e))) told("a path", e);

  // ---- pictures' texts are not cut, turned or not; a card holds its number
  for (const e of document.querySelectorAll("svg text")) {
    const at = e.getBoundingClientRect();
    if (!shown(e) || !own(e)) continue;
    for (let box = e.ownerSVGElement; box; box = box.parentElement) {
      if (getComputedStyle(box).overflowX === "visible") continue;
      const edge = box.getBoundingClientRect();
      if (at.left < edge.left - 1 || at.right > edge.right + 1 || at.top < edge.top - 1 || at.bottom > edge.bottom + 1)
        told("cut", e);
      break;
    }
  }
  for (const e of document.querySelectorAll(".point-word")) {
    const [at, of] = [e, e.previousElementSibling].map((each) => each.getBoundingClientRect());
    const gaps = [at.left - of.right, of.left - at.right, at.top - of.bottom, of.top - at.bottom];
    if (shown(e) && Math.max(...gaps) > 14) told("away from its point", e);
  }
  for (const e of document.querySelectorAll(".card-value"))
    if (shown(e) && e.scrollWidth > e.clientWidth) told("wider than its card", e);

  // ---- names that differ look different, as far as they are to be seen
  const sight = (e) => {
    if (e.children.length) return [...e.childNodes].map((n) => (n.nodeType === 3 ? n.textContent : sight(n))).join("|");
    const text = e.textContent;
    const box = [e, e.parentElement, e.parentElement.parentElement].find(
      (b) => getComputedStyle(b).textOverflow === "ellipsis" && b.clientWidth && b.scrollWidth > b.clientWidth + 1,
    );
    return box ? text.slice(0, Math.floor((text.length * box.clientWidth) / box.scrollWidth)) : text;
  };
  const places = new Map();
  const names = ".kernel, .phase-name, .track-name, .group-toggle, .share-name, .path-label, .stream-label";
  for (const e of document.querySelectorAll(`${names}, .lane-label b, td.wide > span`)) {
    if (!shown(e) || !e.textContent || e.closest("[hidden]")) continue;
    const place = e.closest("table, .share-bars, .timeline-gutter, .lanes-gutter, .path-picture > div, .streams > div");
    const [seen, whole] = [sight(e), e.closest("[title]")?.title || e.textContent];
    if (!places.has(place)) places.set(place, new Map());
    const first = places.get(place).get(seen);
    if (first !== undefined && first !== whole) told(`"${whole.slice(-60)}" looks like "${first.slice(-60)}"`, e);
    places.get(place).set(seen, whole);
  }
  return faults;
}"""
