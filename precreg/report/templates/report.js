const ROWS_A_PAGE = 100;
const { rows, glossary } = JSON.parse(document.getElementById("data").textContent);
const cases = rows.map(([id, tier, status, reason, metric, current, baseline, ratio, seconds, time], order) => (
  { id, tier, status, reason, metric, current, baseline, ratio, seconds, time, order,
    text: `${id} ${reason} ${metric}`.toLowerCase() }));
const byId = new Map(cases.map((one) => [one.id, one]));
const state = { words: [], statuses: new Set(), standings: new Set(), tier: "", column: null, descending: false, page: 0, matching: cases, open: null };
let details = null;

const numeric = (name) => (one) => (one[name] === "" ? -Infinity : Number(one[name]));
const COLUMNS = [
  { name: "status", key: (one) => one.order, cell: (one) => element("span", { class: `status ${one.status}` }, one.status) },
  { name: "case", key: (one) => one.id, class: "id", cell: (one) => element("a", { href: link(one.id) }, one.id) },
  { name: "reason", key: (one) => one.reason, class: "reason" },
  { name: "metric", key: (one) => one.metric, class: "id wide" },
  { name: "current", key: numeric("current"), class: "number right wide", descending: true },
  { name: "baseline", key: numeric("baseline"), class: "number right wide", descending: true },
  { name: "ratio", key: numeric("ratio"), class: "number right", descending: true },
  { name: "time", key: (one) => one.seconds, class: "number right wide", descending: true },
];

const link = (id) => `#${encodeURIComponent(id).replaceAll("%2F", "/")}`;

// The table

function find() {
  const { words, statuses, tier, column } = state;
  state.matching = cases.filter((one) => (!statuses.size || statuses.has(one.status)) && (!tier || one.tier === tier)
    && words.every((word) => one.text.includes(word)));
  if (column) {
    const { key } = column;
    const sign = state.descending ? -1 : 1;
    const compare = (a, b) => (a < b ? -sign : a > b ? sign : 0);
    state.matching.sort((a, b) => compare(key(a), key(b)) || a.order - b.order);
  }
}

function show() {
  const { matching } = state;
  const pages = Math.max(1, Math.ceil(matching.length / ROWS_A_PAGE));
  state.page = Math.min(state.page, pages - 1);
  const first = state.page * ROWS_A_PAGE;
  const shown = matching.slice(first, first + ROWS_A_PAGE);
  const empty = element("tr", {}, element("td", { class: "nothing", colspan: COLUMNS.length }, "No case matches."));
  document.getElementById("rows").replaceChildren(...(shown.length ? shown.map(row) : [empty]));
  document.getElementById("headings").replaceChildren(...COLUMNS.map(heading));
  document.getElementById("shown").textContent = matching.length === cases.length
    ? `${grouped(cases.length)} cases` : `${grouped(matching.length)} of ${grouped(cases.length)} cases`;
  document.getElementById("page").textContent = `${grouped(first + 1)} to ${grouped(first + shown.length)} of ${grouped(matching.length)}`;
  document.getElementById("pager").hidden = pages === 1;
  document.getElementById("previous-page").disabled = state.page === 0;
  document.getElementById("next-page").disabled = state.page === pages - 1;
  document.getElementById("clear").hidden = !(state.words.length || state.statuses.size || state.tier);
  for (const chip of document.querySelectorAll("[data-chip]")) chip.setAttribute("aria-pressed", state.statuses.has(chip.dataset.chip));
}

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

function heading(column) {
  const sorted = column === state.column && (state.descending ? "descending" : "ascending");
  const button = element("button", { type: "button", onclick: () => sort(column) }, column.name);
  const made = element("th", { scope: "col", class: column.class ?? null, "aria-sort": sorted }, button);
  made.classList.remove("id", "number");
  return made;
}

function row(one) {
  const cells = COLUMNS.map((column) => element("td", { class: column.class ?? null }, column.cell ? column.cell(one) : one[column.name]));
  return element("tr", { class: one === state.open ? "open" : null, onclick: (event) => follow(event, one) }, cells);
}

function follow(event, one) {
  if (event.target.closest("a") || window.getSelection().toString()) return;
  location.hash = link(one.id);
}

function sort(column) {
  const again = state.column === column;
  state.descending = again ? !state.descending : Boolean(column.descending);
  state.column = column;
  restart();
  [...document.querySelectorAll("#headings button")][COLUMNS.indexOf(column)].focus();
}

function restart() {
  state.page = 0;
  find();
  show();
}

function narrow(tier, statuses, search) {
  state.tier = tier;
  state.statuses = new Set(statuses);
  state.words = search.toLowerCase().split(/\s+/).filter(Boolean);
  document.getElementById("tier").value = tier;
  showFindings();
  restart();
}

function turn(pages) {
  state.page += pages;
  show();
  document.getElementById("list").scrollIntoView({ block: "start" });
}

// One case

function open(one) {
  const panel = document.getElementById("detail");
  details ??= JSON.parse(document.getElementById("details").textContent);
  state.open = one;
  panel.replaceChildren(bar(one), ...panelOf(one, Object.hasOwn(details, one.id) ? details[one.id] : null));
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("opened");
  show();
  panel.focus({ preventScroll: true });
}

function close() {
  const { open: one } = state;
  if (!one) return;
  state.open = null;
  document.getElementById("detail").hidden = true;
  document.body.classList.remove("opened");
  if (location.hash.length > 1) history.replaceState(null, "", "#");
  show();
  [...document.querySelectorAll("#rows a")].find((anchor) => anchor.textContent === one.id)?.focus();
}

function step(places) {
  const at = state.matching.indexOf(state.open) + places;
  if (state.open && state.matching[at]) {
    state.page = Math.floor(at / ROWS_A_PAGE);
    location.hash = link(state.matching[at].id);
  }
}

function bar(one) {
  const at = state.matching.indexOf(one);
  const button = (text, label, act, disabled) => element("button", { type: "button", title: label, "aria-label": label, onclick: act, disabled }, text);
  return element("div", { class: "bar" },
    element("span", { class: `status ${one.status}` }, `${one.status}, ${one.reason}`),
    button("\u2191", "previous case (k)", () => step(-1), at <= 0),
    button("\u2193", "next case (j)", () => step(1), at === state.matching.length - 1),
    button("\u00d7", "close (Escape)", close, false));
}

// What the reader does

function route() {
  let id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch { /* a % that escapes nothing: the id as it stands */ }
  const one = byId.get(id);
  if (one) open(one);
  else close();
}

const searched = () => document.getElementById("search").value;
document.getElementById("search").addEventListener("input", () => narrow(state.tier, state.statuses, searched()));
document.getElementById("tier").addEventListener("change", (event) => narrow(event.target.value, state.statuses, searched()));
document.getElementById("tools").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("clear").addEventListener("click", () => {
  document.getElementById("search").value = "";
  narrow("", [], "");
});
document.getElementById("previous-page").addEventListener("click", () => turn(-1));
document.getElementById("next-page").addEventListener("click", () => turn(1));
for (const chip of document.querySelectorAll("[data-chip]")) {
  chip.addEventListener("click", () => narrow(state.tier, [...state.statuses].includes(chip.dataset.chip)
    ? [...state.statuses].filter((status) => status !== chip.dataset.chip) : [...state.statuses, chip.dataset.chip], searched()));
}
for (const chip of document.querySelectorAll("[data-standing]")) chip.addEventListener("click", () => toggle(chip));
for (const cell of document.querySelectorAll(".cell")) {
  cell.addEventListener("click", () => narrow(cell.dataset.tier, [cell.dataset.status], searched()));
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search").focus();
  }
});
window.addEventListener("hashchange", route);
restart();
route();
