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

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

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

function panelOf(one, detail) {
  const title = element("h2", { id: "detail-title" }, one.id);
  if (!detail) {
    return [title, element("p", { class: "message" }, "The details of this case were left out to keep the report small."),
      element("p", { class: "note" }, "record.json has them, and ", element("code", {}, `precreg explain ${one.id}`), " shows its tolerances.")];
  }
  return [title, element("p", { class: "message" }, detail.message),
    detail.notes.map((note) => element("p", { class: "note" }, note)),
    detail.diagnosis.length ? [element("h3", {}, "Why"), facts(detail.diagnosis)] : "",
    table(["output", "seed", "metric", "current", "baseline", "ratio", "interval", "noise", "allowed", "rule", "set at"], detail.findings, ["id", "number right", "id", "number right", "number right", "number right", "number right", "number right", "number right", "", "id"]),
    detail.repeats.length ? [element("h3", {}, "Where repeats differ"), table(["output", "seed", "runs", "first at", "elements", "not finite", "at most by"], detail.repeats, ["id", "number right", "number", "id", "number right", "number right", "number right"])] : "",
    detail.failure ? element("pre", { tabindex: "0" }, detail.failure) : "",
    detail.outputs.map(output),
    element("h3", {}, "Where it comes from"),
    facts(detail.facts),
    detail.baseline.length ? [element("h4", {}, "Baseline"), facts(detail.baseline)] : "",
    detail.digests.length ? [element("h4", {}, "Digests"), table(["of", "seed", "now", "baseline"], detail.digests, ["id", "number right", "id", "id"])] : "",
  ].flat(2).filter(Boolean);
}

function output(one) {
  return [element("h3", {}, "Output ", element("code", {}, one.name)),
    element("p", { class: "note" }, one.about),
    one.nonFinite.length ? [element("h4", {}, "NaN or infinity on one side"), table(["seed", "index", "actual", "reference"], one.nonFinite, ["number right", "id", "number right", "number right"])] : "",
    charts(one),
    heat(one),
    element("h4", {}, "Metrics, means over the seeds"),
    table(["metric", "unit", "current", "baseline", "ratio"], one.metrics, ["id", "soft", "number right", "number right", "number right"]),
    one.worst.length ? [element("h4", {}, "Worst positions"), table(["seed", "index", "actual", "reference", "distance"], one.worst, ["number right", "id", "number right", "number right", "number right"])] : "",
    element("h4", {}, one.standard ? `Tolerance, standard ${one.standard}` : "Tolerance"),
    table(["limit on", "limit", "layer", "set at"], one.tolerance, ["id", "number", "", "id"]),
    element("h4", {}, "Counts over the seeds"),
    table(["count", "number"], one.counts, ["id", "number right"]),
  ].flat(2).filter(Boolean);
}

// Columns without any text are left out; a metric's own row may say that it is worse or better.
function table(names, lines, classes) {
  if (!lines.length) return "";
  const filledColumns = names.map((_, at) => at).filter((at) => lines.some((line) => line[at] !== ""));
  const tone = (line) => ({ improved: "good", "": null })[line[names.length] ?? ""] ?? (line[names.length] ? "bad" : null);
  const head = element("tr", {}, filledColumns.map((at) => element("th", { scope: "col", class: classes[at].includes("right") ? "right" : null }, names[at])));
  const body = lines.map((line) => element("tr", { class: tone(line) }, filledColumns.map((at) => (
    element("td", { class: classes[at] || null, title: glossary[line[at]] ?? null }, line[at])))));
  return element("div", { class: "scroll" }, element("table", { class: "plain" }, element("thead", {}, head), element("tbody", {}, body)));
}

function facts(pairs) {
  return element("table", { class: "facts" }, element("tbody", {}, pairs.map(([name, fact]) => (
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, fact))))));
}

// Charts: errors on a log axis. Bin k holds the errors whose float64 bits, shifted right by 50, are k: four an octave.

const WIDTH = 340, HEIGHT = 170, LEFT = 46, BOTTOM = 36, TOP = 8, RIGHT = 12;

function edge(bin) {
  const exponent = Math.max(bin >> 2, 1);
  const fraction = (bin & 3) / 4 + (bin >> 2 ? 1 : 0);
  return (exponent - 1023 + Math.log2(fraction || 2 ** -52)) * Math.LOG10E * Math.LN2;
}

function charts(one) {
  const both = [one.errors, one.accepted].filter((histogram) => histogram?.bins.length);
  if (!both.length) return element("p", { class: "note" }, "Every error is zero.");
  const low = Math.min(...both.map(({ bins }) => edge(bins[0] - 1)));
  const high = Math.max(...both.map(({ bins }) => edge(bins.at(-1) + 2)));
  const x = (log) => LEFT + (log - low) / (high - low) * (WIDTH - LEFT - RIGHT);
  const key = element("div", { class: "key" }, element("span", {}, `now${exact(one.errors)}`),
    one.accepted ? element("span", { class: "then" }, `baseline${exact(one.accepted)}`) : "");
  return [element("h4", {}, "Errors"), key, element("div", { class: "charts" },
    chart("share of elements in each bin", distribution, one, x, low, high),
    chart("share of elements with at most this error", cumulative, one, x, low, high))];
}

const total = ({ zeros, counts }) => zeros + counts.reduce((sum, count) => sum + count, 0);
const percent = (share) => `${Number((100 * share).toPrecision(share < .1 ? 2 : 3))} %`;
const exact = (histogram) => (histogram.zeros ? `, ${percent(histogram.zeros / total(histogram))} without error` : "");

function chart(caption, shape, one, x, low, high) {
  const [now, then] = [one.errors, one.accepted].map((histogram) => (histogram ? shape(histogram, low, high) : []));
  const top = Math.max(...[...now, ...then].map(([, , share]) => share), 1e-9);
  const y = (share) => HEIGHT - BOTTOM - share / top * (HEIGHT - BOTTOM - TOP);
  const path = shape === cumulative ? stairs : outline;
  const line = (name, steps) => drawn("path", { class: name, d: path(steps, x, y) });
  const drawing = shape === cumulative ? line("line-now", now) : now.map(([from, to, share]) => (
    drawn("rect", { class: "bar-now", x: x(from), y: y(share), width: x(to) - x(from), height: y(0) - y(share) })));
  return element("figure", {},
    drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": caption }, ...axes(x, y, top, low, high), drawing, line("line-then", then)),
    element("figcaption", {}, caption));
}

// Steps are [from, to, share]: stairs stay up, an outline falls to zero at gaps and at both ends.
function stairs(steps, x, y) {
  return steps.map(([from, to, share], at) => `${at ? "V" : `M${x(from)},`}${y(share)}H${x(to)}`).join("");
}

function outline(steps, x, y) {
  let path = "", end = null;
  for (const [from, to, share] of steps) {
    if (from !== end) path += `${end === null ? "" : `V${y(0)}`}M${x(from)},${y(0)}`;
    path += `V${y(share)}H${x(to)}`;
    end = to;
  }
  return end === null ? "" : `${path}V${y(0)}`;
}

function distribution(histogram) {
  const all = total(histogram);
  return histogram.bins.map((bin, at) => [edge(bin), edge(bin + 1), histogram.counts[at] / all]);
}

function cumulative({ zeros, bins, counts }, low, high) {
  const all = total({ zeros, counts });
  const edges = [low, ...bins.map((bin) => edge(bin + 1)), high];
  let below = zeros;
  return [zeros, ...counts].map((count, at) => [edges[at], edges[at + 1], (below += at ? count : 0) / all]);
}

function axes(x, y, top, low, high) {
  return [
    [0, top / 2, top].map((share) => [drawn("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }),
      drawn("text", { x: LEFT - 5, y: y(share) + 4, "text-anchor": "end" }, percent(share))]),
    ticks(low, high).map((tick) => [drawn("line", { class: "axis", x1: x(Math.log10(tick)), x2: x(Math.log10(tick)), y1: y(0), y2: y(0) + 4 }),
      drawn("text", { x: x(Math.log10(tick)), y: y(0) + 15, "text-anchor": "middle" }, tick < 1e-3 || tick >= 1e4 ? tick.toExponential() : String(tick))]),
    drawn("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, "|actual \u2212 reference|, in the output's unit"),
  ].flat(2);
}

// At most about six powers of ten; 1, 2 and 5 times them where the axis spans few.
function ticks(low, high) {
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const steps = high - low < 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let decade = Math.floor(low / every) * every; decade <= high; decade += every) {
    found.push(...steps.map((digit) => Number(`${digit}e${decade}`)));
  }
  return found.filter((tick) => tick > 0 && Math.log10(tick) >= low && Math.log10(tick) <= high);
}

function heat({ heat: groups, length }) {
  const most = groups.reduce((one, other) => (Number(other) > Number(one) ? other : one), "0");
  if (!Number(most)) return "";
  const width = WIDTH * 2 / groups.length;
  const cells = groups.map((mean, at) => drawn("rect", { class: "heat", x: at * width, y: 0, width: width + .2, height: 22, opacity: mean / most },
    drawn("title", {}, `from index ${Math.floor(at * length / groups.length)}: ${mean}`)));
  return [element("h4", {}, "Along the last axis"), element("figure", {},
    drawn("svg", { viewBox: `0 0 ${WIDTH * 2} 22`, role: "img", "aria-label": "mean absolute error along the last axis" }, drawn("rect", { class: "heat-ground", width: WIDTH * 2, height: 22 }), cells),
    element("figcaption", {}, `mean |actual \u2212 reference| over all other axes, index 0 to ${length - 1}; the strongest is ${most}`))];
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
