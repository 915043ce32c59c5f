const data = JSON.parse(document.getElementById("data").textContent);
const { glossary } = data;
let language = document.documentElement.lang.slice(0, 2);
// A text of a row, of a group or of the overview by its place.
const textAt = (at) => (language === "zh" && chinese.texts?.[at]) || data.texts[at];

// Rows have texts by their places in a list, see html_data.py.
const cases = data.rows.map(([[folder, name], ...cells], order) => {
  const [tier, status, reason, metric, current, baseline, loss] = cells.slice(0, 7).map((at) => data.texts[at]);
  const [times, seconds, time, message, group] = cells.slice(7);
  const one = { id: data.texts[folder] + name, tier, status, reason, metric, current, baseline, places: { loss: cells[6], message },
    times: times ?? Infinity, seconds, time, loss, message: data.texts[message], group, order };
  one.text = searched(one);
  return one;
});
// Readers search for what they see, so both languages are found.
function searched(one) {
  const translated = language === "zh" ? `${one.message} ${say(`status_${one.status}`)} ${say(`reason_${one.reason}`)}` : "";
  return `${one.id} ${one.reason} ${one.metric} ${data.texts[one.places.message]} ${translated}`.toLowerCase();
}

const byId = new Map(cases.map((one) => [one.id, one]));

// Everything that a link to this page can hold, and what follows from it: matching, page, open.
const state = { search: "", statuses: new Set(), tier: "", group: null, sort: "", page: 0, open: null, standings: new Set(), matching: cases };
let details = null;

const numeric = (name) => (one) => (one[name] === "" ? -Infinity : Number(one[name]));
const COLUMNS = [
  { name: "status", key: (one) => one.order, class: "state", cell: (one) => element("span", { class: `status ${one.status}` }, say(`status_${one.status}`)) },
  { name: "case", key: (one) => one.id, class: "id", cell: (one) => [element("a", { href: link(one.id) }, one.id), element("span", { class: "why" }, one.message)] },
  { name: "loss", key: (one) => one.times, class: "loss", descending: true },
  { name: "reason", key: (one) => one.reason, class: "reason wide", cell: (one) => say(`reason_${one.reason}`) },
  { name: "metric", key: (one) => one.metric, class: "id wide" },
  { name: "current", key: numeric("current"), class: "number right wide", descending: true },
  { name: "baseline", key: numeric("baseline"), class: "number right wide", descending: true },
  { name: "time", key: (one) => one.seconds, class: "number right wide", descending: true },
];

// Links: #case?search=...&status=...; a link without a case begins with #?.

function parameters() {
  const found = new URLSearchParams();
  if (state.search) found.set("search", state.search);
  if (state.statuses.size) found.set("status", [...state.statuses].join(" "));
  if (state.tier) found.set("tier", state.tier);
  if (state.group !== null) found.set("group", state.group);
  if (state.sort) found.set("sort", state.sort);
  if (state.page) found.set("page", state.page + 1);
  if (language !== document.documentElement.dataset.language) found.set("lang", language);
  return found.size ? `?${found}` : "";
}

function parse(hash) {
  // encodeURIComponent leaves no ? in an id. Links of other reports may have the id as it stands.
  const [id, query = ""] = hash.slice(1).split(/\?(?=(?:search|status|tier|group|sort|page|lang)=|$)/);
  let name = id;
  try { name = decodeURIComponent(id); } catch { /* a % that escapes nothing: the id as it stands */ }
  return { name, query: new URLSearchParams(query), isQuery: hash.includes("?") };
}

function readLocation() {
  const { name, query } = parse(location.hash);
  const whole = (key) => (/^\d{1,9}$/.test(query.get(key) ?? "") ? Number(query.get(key)) : null);
  const known = new Set(cases.map((one) => one.status));
  state.search = query.get("search") ?? "";
  state.statuses = new Set((query.get("status") ?? "").split(" ").filter((status) => known.has(status)));
  state.tier = cases.some((one) => one.tier === query.get("tier")) ? query.get("tier") : "";
  state.group = whole("group") !== null && data.groups[whole("group")] !== undefined ? whole("group") : null;
  state.sort = COLUMNS.some((column) => column.name === (query.get("sort") ?? "").replace("-", "")) ? query.get("sort") : "";
  state.page = Math.max(0, (whole("page") ?? 1) - 1);
  state.open = byId.get(name) ?? null;
  const wanted = query.get("lang") ?? document.documentElement.dataset.language;
  if (wanted !== language && Object.hasOwn(data.words, wanted)) translate(wanted);
}

// The table

function find() {
  const { search, statuses, tier, group } = state;
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  state.words = words;
  state.matching = cases.filter((one) => (!statuses.size || statuses.has(one.status)) && (!tier || one.tier === tier)
    && (group === null || one.group === group) && words.every((word) => one.text.includes(word)));
  sortMatching();
}

function show() {
  showTable();
  showTools();
}

function showTools() {
  const { search, statuses, tier, group } = state;
  const field = document.getElementById("search");
  if (field !== document.activeElement || field.value.trim() !== search.trim()) field.value = search;
  document.getElementById("tier").value = tier;
  document.getElementById("clear").hidden = !(search || statuses.size || tier || group !== null);
  for (const chip of document.querySelectorAll("[data-chip]")) chip.setAttribute("aria-pressed", statuses.has(chip.dataset.chip));
  const note = document.getElementById("of-group");
  note.hidden = group === null;
  note.textContent = group === null ? "" : say("of_group", { group: groupName(data.groups[group]) });
}

const groupName = ([reason, suite]) => `${say(`reason_${reason}`)}, ${suite}`;

// Findings on the run: chips of their own choose the standing, the search is the one of the cases.
function showFindings() {
  for (const row of document.querySelectorAll("[data-found]")) {
    const text = row.textContent.toLowerCase();
    row.hidden = (state.standings.size > 0 && !state.standings.has(row.dataset.found)) || !state.words.every((word) => text.includes(word));
  }
}

function toggle(chip) {
  const { standing } = chip.dataset;
  if (!state.standings.delete(standing)) state.standings.add(standing);
  chip.setAttribute("aria-pressed", state.standings.has(standing));
  showFindings();
}

function row(one) {
  const cells = COLUMNS.map((column) => element("td", { class: column.class ?? null }, column.cell ? column.cell(one) : one[column.name]));
  return element("tr", { class: one === state.open ? "open" : null, onclick: (event) => follow(event, one) }, cells);
}

// Show the first page of another choice of cases.
function change(changes, isStep = true) {
  Object.assign(state, { page: 0 }, changes);
  find();
  showFindings();
  show();
  write(isStep);
}

// One case

async function open(one) {
  const panel = document.getElementById("detail");
  panel.hidden = false;
  document.body.classList.add("opened");
  // A case of before may still be there while the details of this one are unpacked.
  if (details === null) fill(panel, one, [element("h2", { id: "detail-title" }, one.id), element("p", { class: "note" }, say("loading"))]);
  try {
    details ??= await unpack("details");
  } catch {
    fill(panel, one, [element("h2", { id: "detail-title" }, one.id), element("p", { class: "message" }, say("no_details", { case: one.id }))]);
    return;
  }
  if (state.open === one) fill(panel, one, panelOf(one, Object.hasOwn(details, one.id) ? details[one.id] : null));
}

function hide(one) {
  document.getElementById("detail").hidden = true;
  document.body.classList.remove("opened");
  [...document.querySelectorAll("#rows a")].find((anchor) => anchor.textContent === one.id)?.focus();
}

function close() {
  if (!state.open) return;
  const one = state.open;
  state.open = null;
  write();
  show();
  hide(one);
}

function step(places) {
  const at = state.matching.indexOf(state.open) + places;
  if (!state.open || !state.matching[at]) return;
  state.page = Math.floor(at / ROWS_A_PAGE);
  location.hash = link(state.matching[at].id);
}

function bar(one) {
  const at = state.matching.indexOf(one);
  const button = (text, label, act, disabled) => element("button", { type: "button", title: label, "aria-label": label, onclick: act, disabled }, text);
  return element("div", { class: "bar" },
    element("span", { class: `status ${one.status}` }, [say(`status_${one.status}`), say(`reason_${one.reason}`), one.loss].filter(Boolean).join(", ")),
    button("\u2191", say("previous_case"), () => step(-1), at <= 0),
    button("\u2193", say("next_case"), () => step(1), at === state.matching.length - 1),
    button("\u00d7", say("close"), close, false));
}

// What the reader does

// The address changed: a link, the back button, or a reload.
function route() {
  const before = state.open;
  const chosen = state.group;
  readLocation();
  find();
  showFindings();
  show();
  if (state.open) open(state.open);
  else if (before) hide(before);
  if (!state.open && state.group !== null && state.group !== chosen) document.getElementById("cases-title").scrollIntoView();
}

// A link of the page to a case keeps the filters, and one to a group keeps the language.
document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[href^='#']");
  if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const { name, isQuery } = parse(anchor.getAttribute("href"));
  if (!isQuery && !byId.has(name)) return;
  event.preventDefault();
  const isForeign = language !== document.documentElement.dataset.language;
  if (!isQuery) location.hash = link(name);
  else location.hash = anchor.getAttribute("href") + (isForeign && !name ? `&lang=${language}` : "");
});

document.getElementById("tier").addEventListener("change", (event) => change({ tier: event.target.value }));
document.getElementById("language").addEventListener("change", (event) => {
  translate(event.target.value);
  change({ page: state.page });
  if (state.open) open(state.open);
});
document.getElementById("clear").addEventListener("click", () => change({ search: "", statuses: new Set(), tier: "", group: null }));
for (const chip of document.querySelectorAll("[data-chip]")) {
  chip.addEventListener("click", () => change({ statuses: others(state.statuses, chip.dataset.chip) }));
}
for (const chip of document.querySelectorAll("[data-standing]")) chip.addEventListener("click", () => toggle(chip));
for (const cell of document.querySelectorAll(".cell")) {
  cell.addEventListener("click", () => change({ tier: cell.dataset.tier, statuses: new Set([cell.dataset.status]) }));
}

// Paper shows what a reader would open.
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll(".worse details:not([open]), .unjudged > .groups details:not([open]), .improved details:not([open])")];
  for (const one of closed) one.open = true;
});
window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

// Show the page in another language: its own words at once, the sentences of the run when they are unpacked.
function translate(wanted) {
  translateWords(wanted);
  showSentences();
  if (language === "zh" && !chinese.texts) learn();
}

function showSentences() {
  for (const one of document.querySelectorAll("[data-text]")) one.textContent = textAt(one.dataset.text);
  for (const one of document.querySelectorAll("[data-phrase]")) one.textContent = phrase(one.dataset.phrase);
  for (const one of cases) {
    Object.assign(one, { loss: textAt(one.places.loss), message: textAt(one.places.message) });
    one.text = searched(one);
  }
}

// The page says what it can in Chinese, and the rest in English, where a browser unpacks nothing.
async function learn() {
  try { chinese = await unpack("chinese"); } catch { return; }
  if (language !== "zh") return;
  showSentences();
  find();
  showFindings();
  show();
  if (state.open) open(state.open);
}

document.documentElement.dataset.language = language;
if (language === "zh") learn();
window.addEventListener("hashchange", route);
watchBoxes(document);
// Steps that pushState made: the browser sends hashchange for these, too, so popstate would route twice.
route();
