// The tables of a trace.

const ROWS_A_PAGE = 50;
const { tables } = JSON.parse(document.getElementById("data").textContent);

// A cell is a text, or a text with the number that sorts it; "inf" is no number of JSON.
const textOf = (cell) => (Array.isArray(cell) ? cell[0] : cell);
const keyOf = (cell) => {
  if (!Array.isArray(cell)) return cell;
  return cell[1] === "inf" ? Infinity : cell[1] === null ? -Infinity : Math.abs(cell[1]);
};

function makeTable({ id, columns, rows }) {
  const section = document.getElementById(id);
  const part = (name) => section.querySelector(`[data-${name}]`);
  const all = rows.map((cells, order) => ({ cells, order, text: cells.map(textOf).join(" ").toLowerCase() }));
  const state = { words: [], column: null, descending: false, page: 0, matching: all };

  function find() {
    state.matching = all.filter((row) => state.words.every((word) => row.text.includes(word)));
    if (state.column === null) return;
    const sign = state.descending ? -1 : 1;
    const key = (row) => keyOf(row.cells[state.column]);
    state.matching.sort((a, b) => (key(a) < key(b) ? -sign : key(a) > key(b) ? sign : a.order - b.order));
  }

  function show() {
    const { matching } = state;
    const pages = Math.max(1, Math.ceil(matching.length / ROWS_A_PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const first = state.page * ROWS_A_PAGE;
    const shown = matching.slice(first, first + ROWS_A_PAGE);
    const none = element("tr", {}, element("td", { class: "nothing", colspan: columns.length }, "no row matches"));
    part("rows").replaceChildren(...(shown.length ? shown.map(row) : [none]));
    part("headings").replaceChildren(...columns.map(heading));
    part("shown").textContent = matching.length === all.length
      ? `${grouped(all.length)} rows` : `${grouped(matching.length)} of ${grouped(all.length)} rows`;
    part("page").textContent = `${grouped(first + 1)} to ${grouped(first + shown.length)} of ${grouped(matching.length)}`;
    part("pager").hidden = pages === 1;
    part("previous").disabled = state.page === 0;
    part("next").disabled = state.page === pages - 1;
  }

  function heading({ name, kind }, at) {
    const sorted = at === state.column && (state.descending ? "descending" : "ascending");
    return element("th", { scope: "col", class: kind === "number" ? "right" : null, "aria-sort": sorted },
      element("button", { type: "button", onclick: () => sort(at) }, name));
  }

  function row({ cells }) {
    const classes = { number: "number right", place: "place", text: null };
    return element("tr", {}, ...cells.map((cell, at) => element("td", {
      class: classes[columns[at].kind], title: columns[at].kind === "place" ? textOf(cell) : null }, textOf(cell))));
  }

  function sort(at) {
    // The largest errors come first, and names and numbers of operations from the beginning.
    const largestFirst = columns[at].kind === "number" && columns[at].name !== "no.";
    state.descending = state.column === at ? !state.descending : largestFirst;
    state.column = at;
    restart();
    part("headings").querySelectorAll("button")[at].focus();
  }

  function restart() {
    state.page = 0;
    find();
    show();
  }

  function turn(pages) {
    state.page += pages;
    show();
    section.scrollIntoView({ block: "start" });
  }

  part("search").addEventListener("input", (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    restart();
  });
  section.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  part("previous").addEventListener("click", () => turn(-1));
  part("next").addEventListener("click", () => turn(1));
  restart();
}

tables.forEach(makeTable);
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("[data-search]");
  if (event.key !== "/" || !search || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  search.focus();
});
