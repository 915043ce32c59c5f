// The table of pairs.

const ROWS_A_PAGE = 100;
const { metrics, rows } = JSON.parse(document.getElementById("data").textContent);
const pairs = rows.map(([drawn, name, status, reason, shape, message, ...figures], order) => (
  { drawn, name, status, reason, shape, message, figures, order, text: `${name} ${reason} ${shape}`.toLowerCase() }));
const state = { words: [], statuses: new Set(), column: null, descending: false, page: 0, matching: pairs };

const COLUMNS = [
  { name: "status", key: (one) => one.order, cell: (one) => element("span", { class: `status ${one.status}` }, one.status) },
  { name: "pair", key: (one) => one.name, class: "id", cell: (one) => (one.drawn === null ? one.name : element("a", { href: `#p${one.drawn}` }, one.name)) },
  { name: "reason", key: (one) => one.reason, class: "reason", cell: (one) => element("span", { title: one.message }, one.reason) },
  { name: "shape", key: (one) => one.shape, class: "number wide", cell: (one) => one.shape },
  ...metrics.map((name, at) => ({ name, key: (one) => (one.figures[at] === "" ? -Infinity : Number(one.figures[at])),
    class: `number right${at ? " wide" : ""}`, descending: name !== "match_ratio", cell: (one) => one.figures[at] })),
];

function find() {
  const { words, statuses, column } = state;
  state.matching = pairs.filter((one) => (!statuses.size || statuses.has(one.status)) && words.every((word) => one.text.includes(word)));
  if (column) {
    const sign = state.descending ? -1 : 1;
    const compare = (a, b) => (a < b ? -sign : a > b ? sign : 0);
    state.matching.sort((a, b) => compare(column.key(a), column.key(b)) || a.order - b.order);
  }
}

function show() {
  const { matching } = state;
  const pages = Math.max(1, Math.ceil(matching.length / ROWS_A_PAGE));
  state.page = Math.min(Math.max(state.page, 0), pages - 1);
  const first = state.page * ROWS_A_PAGE;
  const shown = matching.slice(first, first + ROWS_A_PAGE);
  const none = element("tr", {}, element("td", { class: "nothing", colspan: COLUMNS.length }, "no pair is like that"));
  document.getElementById("rows").replaceChildren(...(shown.length ? shown.map(row) : [none]));
  document.getElementById("headings").replaceChildren(...COLUMNS.map(heading));
  document.getElementById("shown").textContent = matching.length === pairs.length
    ? `${grouped(pairs.length)} pairs` : `${grouped(matching.length)} of ${grouped(pairs.length)} pairs`;
  document.getElementById("page").textContent = `${grouped(first + 1)} to ${grouped(first + shown.length)} of ${grouped(matching.length)}`;
  document.getElementById("pager").hidden = pages === 1;
  document.getElementById("previous-page").disabled = state.page === 0;
  document.getElementById("next-page").disabled = state.page === pages - 1;
  for (const chip of document.querySelectorAll("[data-chip]")) chip.setAttribute("aria-pressed", state.statuses.has(chip.dataset.chip));
}

function heading(column) {
  const sorted = column === state.column && (state.descending ? "descending" : "ascending");
  const made = element("th", { scope: "col", class: column.class ?? null, "aria-sort": sorted },
    element("button", { type: "button", onclick: () => sort(column) }, column.name));
  made.classList.remove("id", "number");
  return made;
}

function row(one) {
  return element("tr", {}, ...COLUMNS.map((column) => element("td", { class: column.class ?? null }, column.cell(one))));
}

function sort(column) {
  state.descending = state.column === column ? !state.descending : Boolean(column.descending);
  state.column = column;
  restart();
  [...document.querySelectorAll("#headings button")][COLUMNS.indexOf(column)].focus();
}

function restart() {
  state.page = 0;
  find();
  show();
}

function turn(pages) {
  state.page += pages;
  show();
  document.getElementById("list").scrollIntoView({ block: "start" });
}

function narrow(status) {
  if (!state.statuses.delete(status)) state.statuses.add(status);
  restart();
}

if (pairs.length) {
  document.getElementById("search").addEventListener("input", (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    restart();
  });
  document.getElementById("tools").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("previous-page").addEventListener("click", () => turn(-1));
  document.getElementById("next-page").addEventListener("click", () => turn(1));
  for (const chip of document.querySelectorAll("[data-chip]")) chip.addEventListener("click", () => narrow(chip.dataset.chip));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    document.getElementById("search").focus();
  });
  restart();
}
