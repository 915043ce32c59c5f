"""Which rules of WCAG 2 does a page break: contrast, names, headings, and regions that only a mouse scrolls?"""

# 4.5 for text, and 3 for large text (24 px, or bold from 18.66 px): WCAG 2.1, 1.4.3.
_PROBLEMS = """
const problems = [];
const place = (one) => one.outerHTML.slice(0, 90);
const numbers = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const over = (front, part, back) => front.map((value, at) => value * part + back[at] * (1 - part));
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
// The colour behind a point of an element: backgrounds of its ancestors, or the shapes of a drawing below it.
function ground(element) {
  const layers = [];
  if (element.ownerSVGElement) {
    const own = element.getBoundingClientRect();
    const [x, y] = [own.left + own.width / 2, own.top + own.height / 2];
    for (const shape of element.ownerSVGElement.querySelectorAll("rect")) {
      const box = shape.getBoundingClientRect();
      const style = getComputedStyle(shape);
      const isBelow = shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (!isBelow || x < box.left || x > box.right || y < box.top || y > box.bottom || style.fill === "none") continue;
      const [r, g, b, alpha = 1] = numbers(style.fill);
      layers.unshift([[r, g, b], alpha * style.fillOpacity * style.opacity]);
    }
  }
  for (let one = element; one; one = one.parentElement) {
    const [r, g, b, alpha = 1] = numbers(getComputedStyle(one).backgroundColor);
    if (alpha > 0) layers.push([[r, g, b], alpha]);
  }
  return layers.reduceRight((back, [front, part]) => over(front, part, back), [255, 255, 255]);
}
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || element.closest("script, style, noscript, title, .unseen, :disabled, details:not([open])")) continue;
  if (!element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const [r, g, b, alpha = 1] = numbers(element.ownerSVGElement ? style.fill : style.color);
  const back = ground(element);
  const found = contrast(over([r, g, b], alpha, back), back);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (found < (isLarge ? 3 : 4.5)) problems.push(`contrast ${found.toFixed(2)}: "${element.textContent.slice(0, 40)}"`);
}
for (const control of document.querySelectorAll("button, input, select, nav, section, summary, a[href]")) {
  const name = control.textContent.trim() || control.ariaLabel || control.labels?.length;
  if (!name) problems.push(`no name: ${place(control)}`);
}
for (const drawing of document.querySelectorAll("svg:not([aria-hidden])")) {
  const isImage = drawing.getAttribute("role") === "img" && drawing.getAttribute("aria-label");
  if (!isImage) problems.push(`no image: ${place(drawing)}`);
}
let level = 0;
for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) problems.push(`a heading leaves a level out: ${place(heading)}`);
  level = next;
}
if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
if (!document.documentElement.lang) problems.push("no language");
const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
if (new Set(ids).size !== ids.length) problems.push("an id twice");
for (const box of document.querySelectorAll("body *")) {
  const style = getComputedStyle(box);
  const scrolls = box.scrollWidth > box.clientWidth + 1 && ["auto", "scroll"].includes(style.overflowX);
  if (scrolls && box.tabIndex < 0) problems.push(`only a mouse scrolls: ${place(box)}`);
}
const wide = document.documentElement.scrollWidth;
if (wide > innerWidth) problems.push(`the page is ${wide} pixels wide`);
return problems;
"""


def problems_of(browser):
    """Return a sentence for each problem of the page as it is shown now."""
    return browser.execute_script(_PROBLEMS)
