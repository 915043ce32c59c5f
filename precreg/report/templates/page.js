// The pages of a run and of a history share these: their words, packed details, and boxes that scroll. `data` and
// `language` are those of the page.

// The page's own words; {names} are filled in.
function say(key, values = {}) {
  const words = (data.words[language] ?? data.words.en)[key] ?? data.words.en[key];
  return words.replaceAll(/\{(\w+)\}/g, (_, name) => values[name]);
}

// The sentences of a run in Chinese, unpacked when a reader wants them.
let chinese = {};

// English words of the panel and sentences of records in the page's language; words without a translation stay.
function phrase(english, values = {}) {
  const known = [data.phrases ?? {}, chinese.phrases ?? {}].find((table) => Object.hasOwn(table, english));
  const words = language === "zh" && known ? known[english] : english;
  return words.replaceAll(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? values[name] : whole));
}

async function unpack(id) {
  const { type, textContent: text } = document.getElementById(id);
  if (type === "application/json") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(unpacked).text());
}

// A box that scrolls sideways has to be reached by keys, too.
const watched = new ResizeObserver((entries) => entries.forEach(({ target }) => reach(target.closest(".scroll"))));
const reachAll = (within) => within.querySelectorAll(".scroll").forEach(reach);

function reach(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

function watchBoxes(within) {
  // A table grows when its rows come or when a group opens, and its box keeps its width.
  for (const part of within.querySelectorAll(".scroll, .scroll > *")) watched.observe(part);
}

// Observers do not see boxes in closed groups.
document.addEventListener("toggle", ({ target }) => reachAll(target), true);
window.addEventListener("resize", () => reachAll(document));

// Show the page's own words in another language.
function translateWords(wanted) {
  language = wanted;
  document.documentElement.lang = wanted === "zh" ? "zh-Hans" : wanted;
  document.getElementById("language").value = wanted;
  const values = (one) => JSON.parse(one.dataset.values ?? "{}");
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say(one.dataset.say, values(one));
  for (const one of document.querySelectorAll("[data-say-label]")) one.setAttribute("aria-label", say(one.dataset.sayLabel, values(one)));
  for (const one of document.querySelectorAll("[data-say-placeholder]")) one.setAttribute("placeholder", say(one.dataset.sayPlaceholder));
}
