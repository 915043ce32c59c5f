// The pages of a run and of a history share these: a table of cases that a reader searches, sorts and turns, and a panel.
// Each page has its own `state`, `cases` and `COLUMNS`, and finds, shows, opens and closes by functions of its own.

const ROWS_A_PAGE = 100;
const encoded = (id) => encodeURIComponent(id).replaceAll("%2F", "/");
const link = (id) => `#${encoded(id)}${parameters()}`;

// A step of the reader is a step of the back button; letters typed into the search are not.
function write(isStep = true) {
  const hash = state.open ? link(state.open.id) : `#${parameters()}`;
  if (hash === (location.hash || "#")) return;
  history[isStep ? "pushState" : "replaceState"](null, "", hash);
}

// Sort the matching cases by the chosen column, and equal ones in the order of the page.
function sortMatching() {
  const { sort } = state;
  const column = COLUMNS.find((each) => each.name === sort.replace("-", ""));
  if (column) {
    const { key } = column;
    const sign = sort.startsWith("-") ? -1 : 1;
    const compare = (a, b) => (a < b ? -sign : a > b ? sign : 0);
    state.matching.sort((a, b) => compare(key(a), key(b)) || a.order - b.order);
  }
}

function showTable() {
  const { matching } = state;
  const pages = Math.max(1, Math.ceil(matching.length / ROWS_A_PAGE));
  state.page = Math.min(state.page, pages - 1);
  const first = state.page * ROWS_A_PAGE;
  const shown = matching.slice(first, first + ROWS_A_PAGE);
  const empty = element("tr", {}, element("td", { class: "nothing", colspan: COLUMNS.length }, say("no_match")));
  document.getElementById("rows").replaceChildren(...(shown.length ? shown.map(row) : [empty]));
  document.getElementById("headings").replaceChildren(...COLUMNS.map(heading));
  document.getElementById("shown").textContent = matching.length === cases.length
    ? say("all_shown", { all: grouped(cases.length) }) : say("some_shown", { number: grouped(matching.length), all: grouped(cases.length) });
  document.getElementById("page").textContent = say("page_of", { first: grouped(first + 1), last: grouped(first + shown.length), all: grouped(matching.length) });
  document.getElementById("pager").hidden = pages === 1;
  document.getElementById("previous-page").disabled = state.page === 0;
  document.getElementById("next-page").disabled = state.page === pages - 1;
}

function heading(column) {
  const isSorted = column.name === state.sort.replace("-", "");
  const direction = isSorted && (state.sort.startsWith("-") ? "descending" : "ascending");
  const button = element("button", { type: "button", onclick: () => sort(column) }, say(column.name));
  const made = element("th", { scope: "col", class: column.class ?? null, "aria-sort": direction }, button);
  made.classList.remove("id", "number", "when");
  return made;
}

function follow(event, one) {
  if (event.target.closest("a") || window.getSelection().toString()) return;
  location.hash = link(one.id);
}

function sort(column) {
  const isSorted = column.name === state.sort.replace("-", "");
  const descending = isSorted ? !state.sort.startsWith("-") : Boolean(column.descending);
  change({ sort: `${descending ? "-" : ""}${column.name}` });
  [...document.querySelectorAll("#headings button")][COLUMNS.indexOf(column)].focus();
}

function turn(pages) {
  state.page += pages;
  show();
  write();
  document.getElementById("list").scrollIntoView({ block: "start" });
}

function fill(panel, one, children) {
  panel.replaceChildren(bar(one), ...children);
  watchBoxes(panel);
  panel.scrollTop = 0;
  panel.focus({ preventScroll: true });
}

const others = (chosen, status) => new Set(chosen.has(status) ? [...chosen].filter((each) => each !== status) : [...chosen, status]);
document.getElementById("search").addEventListener("input", (event) => change({ search: event.target.value }, false));
document.getElementById("tools").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("previous-page").addEventListener("click", () => turn(-1));
document.getElementById("next-page").addEventListener("click", () => turn(1));
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
