// The page of a history: a table of cases with their courses, and a panel for one case or one suite.

const PRINTED_CASES = 12;
const data = JSON.parse(document.getElementById("data").textContent);
const { glossary } = data;
let language = document.documentElement.lang.slice(0, 2);

const runs = data.runs.map(([number, started, commit, branch, environment, facts], at) => (
  { number, started, commit, branch, environment, facts, at, time: Date.parse(started) }));
const nameOf = (environment) => data.environments[environment];
// Texts by their places in a list, see history_page.py.
const cases = data.rows.map(([[folder, name], kind, environments, message, change, times], order) => {
  const id = data.texts[folder] + name;
  const one = { id, kind: data.texts[kind], environments, message: data.texts[message], change: change === null ? null : runs[change],
    times: times ?? Infinity, order, suite: id.split("/").slice(0, 2).join("/") };
  one.text = `${id} ${one.message}`.toLowerCase();
  return one;
});
const byId = new Map(cases.map((one) => [one.id, one]));
const TONES = { failing: "failed", regressed: "proposed", improved: "passed", steady: "skipped" };

// Everything that a link to this page can hold, and what follows from it: matching, page, open (a case or a suite).
const state = { search: "", kinds: new Set(), suite: "", environment: "", axis: "", sort: "", page: 0, open: null, matching: cases };
let details = null;

const COLUMNS = [
  { name: "state", key: (one) => one.order, class: "state", cell: (one) => element("span", { class: `status ${TONES[one.kind]}` }, say(one.kind)) },
  { name: "case", key: (one) => one.id, class: "id", cell: (one) => [element("a", { href: link(one.id) }, one.id), element("span", { class: "why" }, one.message)] },
  { name: "growth", key: (one) => one.times, class: "loss", descending: true, cell: (one) => size(one) },
  { name: "since", key: (one) => one.change?.started ?? "", class: "when wide", descending: true, cell: (one) => (one.change ? [String(one.change.number), element("span", { class: "why" }, `${one.change.started.slice(0, 10)} ${one.change.commit}`)] : "") },
  { name: "course", key: (one) => one.order, class: "spark wide", cell: (one) => spark(details?.cases[one.order]?.lines) },
];

function size(one) {
  if (one.times === Infinity) return say("from_zero");
  return one.times > 1 ? say("times_larger", { times: one.times }) : "";
}

// Links: #case?search=...&suite=...; a link without a case begins with #?.

function parameters() {
  const found = new URLSearchParams();
  if (state.search) found.set("search", state.search);
  if (state.kinds.size) found.set("state", [...state.kinds].join(" "));
  for (const name of ["suite", "environment", "axis", "sort"]) if (state[name]) found.set(name, state[name]);
  if (state.page) found.set("page", state.page + 1);
  if (language !== document.documentElement.dataset.language) found.set("lang", language);
  return found.size ? `?${found}` : "";
}

function parse(hash) {
  const [id, query = ""] = hash.slice(1).split(/\?(?=(?:search|state|suite|environment|axis|sort|page|lang)=|$)/);
  let name = id;
  try { name = decodeURIComponent(id); } catch { /* a % that escapes nothing: the id as it stands */ }
  return { name, query: new URLSearchParams(query) };
}

function opened(name) {
  if (byId.has(name)) return { id: name, one: byId.get(name) };
  return Object.hasOwn(data.suites, name) ? { id: name, one: null } : null;
}

function readLocation() {
  const { name, query } = parse(location.hash);
  const chosen = (key, known) => (known.includes(query.get(key)) ? query.get(key) : "");
  state.search = query.get("search") ?? "";
  state.kinds = new Set((query.get("state") ?? "").split(" ").filter((kind) => Object.hasOwn(TONES, kind)));
  state.suite = chosen("suite", Object.keys(data.suites));
  state.environment = chosen("environment", data.environments);
  state.axis = chosen("axis", ["time"]);
  state.sort = COLUMNS.some((column) => column.name === (query.get("sort") ?? "").replace("-", "")) ? query.get("sort") : "";
  state.page = /^[1-9]\d{0,8}$/.test(query.get("page") ?? "") ? Number(query.get("page")) - 1 : 0;
  state.open = opened(name);
  const wanted = query.get("lang") ?? document.documentElement.dataset.language;
  if (wanted !== language && Object.hasOwn(data.words, wanted)) translateWords(wanted);
}

// The table

function find() {
  const { search, kinds, suite, environment } = state;
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const label = data.environments.indexOf(environment);
  state.matching = cases.filter((one) => (!kinds.size || kinds.has(one.kind)) && (!suite || one.suite === suite)
    && (label < 0 || one.environments.includes(label)) && words.every((word) => one.text.includes(word)));
  sortMatching();
}

function show() {
  showTable();
  const field = document.getElementById("search");
  if (field !== document.activeElement || field.value.trim() !== state.search.trim()) field.value = state.search;
  for (const name of SELECTS) if (document.getElementById(name)) document.getElementById(name).value = state[name];
  document.getElementById("clear").hidden = !(state.search || state.kinds.size || state.suite || state.environment);
  for (const chip of document.querySelectorAll("[data-chip]")) chip.setAttribute("aria-pressed", state.kinds.has(chip.dataset.chip));
  showSuites();
}

function showSuites() {
  for (const cell of document.querySelectorAll("[data-suite]")) {
    cell.replaceChildren(...[spark(details && suiteLines(cell.dataset.suite))].filter(Boolean));
  }
}

const suiteLines = (suite) => (details.suites[suite] ?? []).map(([environment, at, values]) => ["", "", environment, at, values, [], [], []]);

function row(one) {
  const cells = COLUMNS.map((column) => element("td", { class: column.class }, column.cell(one)));
  return element("tr", { class: state.open?.one === one ? "open" : null, onclick: (event) => follow(event, one) }, cells);
}

// Show the first page of another choice of cases.
function change(changes, isStep = true) {
  Object.assign(state, { page: 0 }, changes);
  find();
  show();
  write(isStep);
}

// Drawings. A line is [output, metric, environment, runs, values, runs of accepted values, these values, changes]. Runs
// between two of its points have values on the straight line between them.

// The left margin holds numbers, the right one the names of the environments.
const WIDE_BOX = { width: 700, height: 230, left: 62, right: 118, top: 18, bottom: 40 };
// A phone would shrink the wide drawing and its text.
const NARROW_BOX = { width: 380, height: 210, left: 52, right: 66, top: 18, bottom: 40 };
const narrow = window.matchMedia("(max-width: 760px)");
const SPARK = { width: 130, height: 26, left: 2, right: 2, top: 3, bottom: 3 };
const short = (value) => (value === null ? "" : String(Number(value.toPrecision(4))));
const colour = (environment) => `env-${environment % 6}`;

// Places of runs and values: a logarithmic axis where every value is above 0.
function scales(lines, box) {
  const known = lines.flatMap((line) => [...line[4], ...line[6]]).filter((value) => value !== null);
  const used = [...new Set(lines.flatMap((line) => [...line[3], ...line[5]]))].sort((a, b) => a - b);
  if (!known.length) return null;
  const isLog = known.every((value) => value > 0);
  const at = isLog ? Math.log10 : (value) => value;
  let [low, high] = [Math.min(...known.map(at)), Math.max(...known.map(at))];
  const room = (high - low) * .06 || Math.abs(low) * .05 || .5;
  [low, high] = [low - room, high + room];
  // Between the first and the last run of these lines: other environments' runs are no gaps.
  const span = runs.slice(used[0], used.at(-1) + 1).filter((run) => lines.some((line) => line[2] === run.environment));
  const order = new Map(span.map((run, place) => [run.at, place]));
  const [first, last] = state.axis ? [span[0].time, span.at(-1).time] : [0, span.length - 1];
  const place = (run) => (state.axis ? runs[run].time : order.get(run));
  const x = (run) => box.left + (last === first ? .5 : (place(run) - first) / (last - first)) * (box.width - box.left - box.right);
  const y = (value) => box.height - box.bottom - (at(value) - low) / (high - low) * (box.height - box.bottom - box.top);
  return { x, y, low, high, isLog, span, box };
}

// A line of its points; a run without a value leaves a gap, and a single point between gaps is a dash.
function path(at, values, { x, y }) {
  let text = "", isDown = false;
  values.forEach((value, place) => {
    if (value === null) isDown = false;
    else {
      const isAlone = !isDown && (values[place + 1] ?? null) === null;
      text += isAlone ? `M${(x(at[place]) - 2).toFixed(1)},${y(value).toFixed(1)}h4` : `${isDown ? "L" : "M"}${x(at[place]).toFixed(1)},${y(value).toFixed(1)}`;
      isDown = true;
    }
  });
  return text;
}

function spark(lines) {
  const first = lines?.filter((line) => line[0] === lines[0][0] && line[1] === lines[0][1]);
  const scale = first?.length ? scales(first, SPARK) : null;
  if (!scale) return "";
  return drawn("svg", { viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, class: "trend", "aria-hidden": "true" },
    ...first.map((line) => drawn("path", { class: colour(line[2]), d: path(line[3], line[4], scale) })));
}

// One chart of the lines of one metric, each environment in its own colour and with its name at its end.
function trend(title, lines, failures) {
  const box = narrow.matches ? NARROW_BOX : WIDE_BOX;
  const scale = scales(lines, box);
  if (!scale) return element("p", { class: "note" }, `${title}: ${say("no_values")}`);
  const { x } = scale;
  const [north, south] = [box.top, box.height - box.bottom];
  const upright = (run, name, text) => drawn("line", { class: name, x1: x(run), x2: x(run), y1: north, y2: south }, drawn("title", {}, text));
  const facts = scale.span.filter((run) => run.facts).map((run) => upright(run.at, "mark-facts", `${runText(run)}: ${run.facts}`));
  const marks = lines.flatMap((line) => line[7].map(([run, isWorse]) => (
    upright(run, isWorse ? "mark-worse" : "mark-better", `${runText(runs[run])}: ${say(isWorse ? "mark_worse" : "mark_better")}`))));
  const figure = element("figure", {},
    drawn("svg", { viewBox: `0 0 ${box.width} ${box.height}`, class: "trend", role: "img", "aria-label": description(title, lines, failures) },
      ...axesOf(scale), ...facts, ...marks, ...lines.flatMap((line) => lineOf(line, scale)), ...crosses(lines, failures, scale), ...labels(lines, scale)),
    element("figcaption", {}, title));
  return figure;
}

const runText = (run) => `${say("run")} ${run.number}, ${run.started.slice(0, 10)}, ${run.commit}`;

function lineOf([, , environment, at, values, levelsAt, levels], scale) {
  const dots = values.map((value, place) => (value === null ? "" : drawn("circle", { cx: scale.x(at[place]).toFixed(1), cy: scale.y(value).toFixed(1), r: 2.2 },
    drawn("title", {}, `${nameOf(environment)}, ${runText(runs[at[place]])}: ${short(value)}`)))).filter(Boolean);
  return [drawn("g", { class: colour(environment) }, drawn("path", { class: "accepted", d: path(levelsAt, levels, scale) }),
    drawn("path", { d: path(at, values, scale) }), dots)];
}

// A run that failed has a cross on the lower edge, as it may have no value.
function crosses(lines, failures, { x, span, box }) {
  const inside = new Set(span.map((run) => run.at));
  const shown = failures.filter(([environment]) => lines.some((line) => line[2] === environment));
  return shown.flatMap(([environment, found]) => found.filter(([run]) => inside.has(run)).map(([run, reason]) => (
    drawn("path", { class: "cross", d: `M${(x(run) - 3).toFixed(1)},${box.height - box.bottom - 3}l6,6m0,-6l-6,6` },
      drawn("title", {}, `${nameOf(environment)}, ${runText(runs[run])}: ${reason}`)))));
}

// Names at the ends of lines, moved apart where they would cover each other.
function labels(lines, { x, y, box }) {
  const ends = lines.map((line) => ({ line, at: line[4].findLastIndex((value) => value !== null) })).filter(({ at }) => at >= 0);
  const places = ends.map(({ line, at }) => ({ environment: line[2], x: x(line[3][at]), y: y(line[4][at]) })).sort((a, b) => a.y - b.y);
  places.forEach((one, place) => { if (place) one.y = Math.max(one.y, places[place - 1].y + 12); });
  return places.map((one) => drawn("text", { class: `label ${colour(one.environment)}`, x: box.width - box.right + 6, y: one.y + 4 }, clipped(nameOf(one.environment), Math.floor(box.right / 6))));
}

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

function axesOf({ x, y, low, high, isLog, span, box }) {
  const levels = [0, 1, 2, 3].map((step) => low + (high - low) * (.06 + .29 * step)).map((place) => (isLog ? 10 ** place : place));
  const every = Math.max(1, Math.ceil(span.length / (narrow.matches ? 3 : 6)));
  return [...levels.map((value) => [drawn("line", { class: "axis", x1: box.left, x2: box.width - box.right, y1: y(value), y2: y(value) }),
    drawn("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, short3(value))]),
    ...span.filter((_, place) => place % every === 0).map((run) => [
      drawn("text", { x: x(run.at), y: box.height - 24, "text-anchor": "middle" }, state.axis ? "" : String(run.number)),
      drawn("text", { x: x(run.at), y: box.height - 10, "text-anchor": "middle" }, run.started.slice(0, 10))])].flat();
}

const short3 = (value) => {
  const text = Number(value.toPrecision(3));
  return text !== 0 && (Math.abs(text) < 1e-3 || Math.abs(text) >= 1e5) ? text.toExponential() : String(text);
};

// The drawing in words, for readers who do not see it.
function description(title, lines, failures) {
  const parts = lines.map((line) => {
    const known = line[4].filter((value) => value !== null);
    const failed = failures.filter(([environment]) => environment === line[2]).reduce((sum, [, found]) => sum + found.length, 0);
    return `${nameOf(line[2])}: ${known.length ? `${short(known[0])} \u2192 ${short(known.at(-1))}, ${short(Math.min(...known))} \u2026 ${short(Math.max(...known))}` : say("no_values")}${failed ? `, ${say("mark_failed")} ${failed}` : ""}`;
  });
  return `${title}. ${parts.join("; ")}`;
}

function legend() {
  const sample = (name, words, ...shapes) => element("span", {}, drawn("svg", { "aria-hidden": "true", viewBox: "0 0 24 10", class: `trend ${name}` }, ...shapes), words);
  const upright = (name) => drawn("line", { class: name, x1: 12, x2: 12, y1: 0, y2: 10 });
  return element("div", { class: "legend" },
    sample("swatch", say("measured"), drawn("path", { d: "M0,5H24" })),
    sample("swatch", say("accepted_level"), drawn("path", { class: "accepted", d: "M0,5H24" })),
    sample("", say("mark_worse"), upright("mark-worse")), sample("", say("mark_better"), upright("mark-better")),
    sample("", say("mark_failed"), drawn("path", { class: "cross", d: "M9,2l6,6m0,-6l-6,6" })), sample("", say("mark_facts"), upright("mark-facts")));
}

// The panel

function chartsOf(detail) {
  const groups = new Map();
  for (const line of detail.lines) {
    const key = JSON.stringify(line.slice(0, 2));
    groups.set(key, [...(groups.get(key) ?? []), line]);
  }
  return [...groups.values()].map((lines) => trend(`${lines[0][1]} ${lines[0][0] ? `(${lines[0][0]})` : ""}`.trim(), lines, detail.failures));
}

function casePanel(one, detail) {
  const title = element("h2", { id: "detail-title" }, one.id);
  if (!detail) return [title, element("p", { class: "message" }, one.message), element("p", { class: "note" }, say("no_drawing", { case: quoted(one.id) }))];
  const failed = detail.failures.flatMap(([environment, found]) => found.map(([run, reason]) => [String(runs[run].number), runs[run].started.slice(0, 10), nameOf(environment), reason, runs[run].commit]));
  return [title, one.message ? element("p", { class: "message" }, one.message) : "",
    legend(), chartsOf(detail),
    detail.sampled ? element("p", { class: "note" }, say("drawn_in_part")) : "",
    detail.more ? element("p", { class: "note" }, say("more_lines", { number: detail.more })) : "",
    detail.changes.length ? [element("h3", {}, say("changes")), columns(["run", "day", "environment", "change", "commits"],
      detail.changes.map(([run, environment, output, , text, commits, facts]) => [String(runs[run].number), runs[run].started.slice(0, 10), nameOf(environment), `${output}: ${text}${facts ? `; ${say("facts_changed", { facts })}` : ""}`, commits]))] : "",
    element("h3", {}, say("verdicts")), columns(["environment", "verdict"], detail.latest.map(([environment, reason]) => [nameOf(environment), reason])),
    failed.length ? [element("h3", {}, say("failed_runs")), columns(["run", "day", "environment", "verdict", "commits"], failed.slice(-ROWS_A_PAGE).reverse()),
      failed.length > ROWS_A_PAGE ? element("p", { class: "note" }, say("and_more", { number: failed.length - ROWS_A_PAGE })) : ""] : "",
  ].flat(2).filter(Boolean);
}

// A word of a shell: wildcards of the id match themselves.
const quoted = (id) => (/^[\w./=-]+$/.test(id) ? id : `'${id.replaceAll("'", "'\\''").replaceAll(/[*?[]/g, "[$&]")}'`);

function suitePanel(suite) {
  const found = details.suites[suite];
  const title = element("h2", { id: "detail-title" }, suite);
  const own = cases.filter((one) => one.suite === suite);
  const chosen = element("button", { type: "button", class: "quiet", onclick: () => { close(); change({ suite }); document.getElementById("cases-title").scrollIntoView(); } }, `${say("cases")}: ${grouped(own.length)}`);
  if (!found) return [title, element("p", {}, chosen)];
  const failures = found.map(([environment, , , failed]) => [environment, failed.map(([run, number, ran]) => [run, say("failed_of", { failed: number, ran })])]);
  const rows = failures.flatMap(([environment, list]) => list.map(([run, text]) => [String(runs[run].number), runs[run].started.slice(0, 10), nameOf(environment), text, runs[run].commit]));
  return [title, element("p", {}, chosen), legend(), trend(say("growth_of"), suiteLines(suite), failures),
    rows.length ? [element("h3", {}, say("failed_runs")), columns(["run", "day", "environment", "cases", "commits"], rows.slice(-ROWS_A_PAGE).reverse())] : "",
  ].flat(2).filter(Boolean);
}

// Columns whose cells stay in one line.
const SHORT = ["run", "day"];

function columns(names, lines) {
  const head = element("tr", {}, names.map((name) => element("th", { scope: "col" }, say(name))));
  const body = lines.map((line) => element("tr", {}, line.map((cell, at) => element("td", { class: SHORT.includes(names[at]) ? "number" : null }, cell))));
  return element("div", { class: "scroll" }, element("table", { class: "plain" }, element("thead", {}, head), element("tbody", {}, body)));
}

async function open(wanted) {
  const panel = document.getElementById("detail");
  panel.hidden = false;
  document.body.classList.add("opened");
  const title = element("h2", { id: "detail-title" }, wanted.id);
  // The page of before may still be there while the drawings are unpacked.
  if (details === null) fill(panel, wanted, [title, element("p", { class: "note" }, say("loading"))]);
  if (!(await unpacked)) {
    fill(panel, wanted, [title, element("p", { class: "message" }, say("no_unpack"))]);
    return;
  }
  if (state.open?.id === wanted.id) fill(panel, wanted, wanted.one ? casePanel(wanted.one, details.cases[wanted.one.order]) : suitePanel(wanted.id));
}

function hide(before) {
  document.getElementById("detail").hidden = true;
  document.body.classList.remove("opened");
  [...document.querySelectorAll("#rows a, .suites a")].find((anchor) => anchor.textContent === before.id)?.focus();
}

function close() {
  if (!state.open) return;
  const before = state.open;
  state.open = null;
  write();
  show();
  hide(before);
}

function step(places) {
  const at = state.matching.indexOf(state.open?.one) + places;
  if (!state.open?.one || !state.matching[at]) return;
  state.page = Math.floor(at / ROWS_A_PAGE);
  location.hash = link(state.matching[at].id);
}

function bar(wanted) {
  const at = state.matching.indexOf(wanted.one);
  const button = (text, label, act, disabled) => element("button", { type: "button", title: label, "aria-label": label, onclick: act, disabled }, text);
  const kind = wanted.one?.kind;
  return element("div", { class: "bar" },
    element("span", { class: kind ? `status ${TONES[kind]}` : "status" }, say(kind ?? "suite")),
    wanted.one ? [button("\u2191", say("previous_case"), () => step(-1), at <= 0), button("\u2193", say("next_case"), () => step(1), at === state.matching.length - 1)] : "",
    button("\u00d7", say("close"), close, false));
}

// What the reader does

// The address changed: a link, the back button, or a reload.
function route() {
  const before = state.open;
  readLocation();
  find();
  show();
  if (state.open) open(state.open);
  else if (before) hide(before);
}

// A link of the page to a case or a suite keeps the filters.
document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[href^='#']");
  if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const { name } = parse(anchor.getAttribute("href"));
  if (!opened(name)) return;
  event.preventDefault();
  location.hash = link(name);
});

const SELECTS = ["suite", "environment", "axis"];
for (const name of SELECTS) {
  document.getElementById(name)?.addEventListener("change", (event) => {
    change({ [name]: event.target.value });
    if (state.open) open(state.open);
  });
}
document.getElementById("language").addEventListener("change", (event) => {
  translateWords(event.target.value);
  change({ page: state.page });
  if (state.open) open(state.open);
});
document.getElementById("clear").addEventListener("click", () => change({ search: "", kinds: new Set(), suite: "", environment: "" }));
for (const chip of document.querySelectorAll("[data-chip]")) {
  chip.addEventListener("click", () => change({ kinds: others(state.kinds, chip.dataset.chip) }));
}

// Paper has no panel, so it gets the drawings of the worst cases, and everything that is folded.
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll(".environment:not([open])")];
  for (const one of closed) one.open = true;
  const worst = details ? cases.slice(0, PRINTED_CASES).filter((one) => one.kind !== "steady" && details.cases[one.order]) : [];
  document.getElementById("printed").replaceChildren(...worst.flatMap((one) => [element("h3", {}, one.id), ...chartsOf(details.cases[one.order])]));
});
window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

document.documentElement.dataset.language = language;
// The table is there at once; the drawings come when they are unpacked.
const unpacked = unpack("details").then((found) => { details = found; show(); return true; }, () => false);
window.addEventListener("hashchange", route);
narrow.addEventListener("change", () => { if (state.open) open(state.open); });
watchBoxes(document);
route();
