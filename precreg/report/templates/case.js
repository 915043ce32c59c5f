// The panel of one case: message, cause, outputs with their charts, tolerances, baseline.

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function panelOf(one, detail) {
  const title = element("h2", { id: "detail-title" }, one.id);
  if (!detail) {
    return [title, element("p", { class: "message" }, phrase("The details of this case were left out to keep the report small.")),
      element("p", { class: "note" }, phrase("record.json has them. This command shows its tolerances:"), " ", element("code", {}, `precreg explain ${one.id}`))];
  }
  return [title, element("p", { class: "message" }, phrase(detail.message)),
    detail.notes.map((note) => element("p", { class: "note" }, phrase(note))),
    command(detail.command),
    links(detail.links),
    detail.diagnosis.length || detail.searches.length ? [element("h3", {}, phrase("Why")), facts(detail.diagnosis), detail.searches.map(command)] : "",
    detail.findings.length ? [element("h3", {}, phrase("What failed or changed")),
      shortened(["output", "seed", "metric", "current", "baseline", "ratio", "interval", "noise", "allowed", "rule", "set at"], detail.findings, ["id", "number right", "id", "number right", "number right", "number right", "number right", "number right", "number right", "", "id"])] : "",
    course(detail.history),
    detail.repeats.length ? [element("h3", {}, phrase("Where repeats differ")), table(["output", "seed", "runs", "first at", "elements", "not finite", "at most by"], detail.repeats, ["id", "number right", "number", "id", "number right", "number right", "number right"])] : "",
    detail.failure ? [element("h3", {}, phrase("Traceback and output")), element("pre", { tabindex: "0" }, detail.failure)] : "",
    detail.outputs.map(output),
    detail.environment.length ? [element("h3", {}, phrase("Environment")), facts(detail.environment)] : "",
    element("h3", {}, phrase("Where it comes from")),
    facts(detail.facts),
    detail.baseline.length ? [element("h4", {}, phrase("Baseline")), facts(detail.baseline)] : "",
    detail.digests.length ? folded(phrase("Digests of inputs and outputs"), table(["of", "seed", "now", "baseline"], detail.digests, ["id", "number right", "id", "id"])) : "",
  ].flat(2).filter(Boolean);
}

// The command to repeat a case. Copying selects the text first, so that a browser that refuses to copy leaves it selected.
function command(text) {
  const code = element("code", {}, text);
  const told = element("output", { class: "copied" });
  const copy = () => {
    window.getSelection().selectAllChildren(code);
    let done = false;
    try { done = document.execCommand("copy"); } catch { /* the text stays selected */ }
    told.textContent = phrase(done ? "copied" : "selected: press Ctrl+C or \u2318C");
  };
  return element("div", { class: "command" }, code, element("button", { type: "button", onclick: copy, "aria-label": `${phrase("copy")} ${text}` }, phrase("copy")), told);
}

// Addresses come from a record. Only those of the web become links.
function linked(text, url) {
  return /^https?:\/\//.test(url) ? element("a", { href: url, rel: "noopener noreferrer" }, text) : text;
}

function links(places) {
  return element("dl", { class: "links" }, places.map(([label, text, url]) => (
    element("div", {}, element("dt", {}, phrase(label)), element("dd", {}, linked(text, url))))));
}

function folded(title, ...content) {
  return element("details", { class: "more" }, element("summary", {}, title), content);
}

const WORST = ["seed", "index", "actual", "reference", "distance", "ULP", "bits of actual", "bits of reference"];
const WORST_CLASSES = ["number right", "id", "number right", "number right", "number right", "number right", "bits", "bits"];
const WRONG = WORST.filter((name) => !["distance", "ULP"].includes(name));
const WRONG_CLASSES = ["number right", "id", "number right", "number right", "bits", "bits"];

function output(one) {
  const applies = one.metrics.filter((line) => line[5] || line[6]);
  const others = one.metrics.filter((line) => !(line[5] || line[6]));
  return [element("h3", {}, phrase("Output"), " ", element("code", {}, one.name)),
    element("p", { class: "note" }, phrase(one.about)),
    one.nonFinite.length ? [element("h4", {}, phrase("NaN or infinity on one side")), shortened(WRONG, one.nonFinite, WRONG_CLASSES)] : "",
    one.worst.length ? [element("h4", {}, phrase("Worst positions")), shortened(WORST, one.worst, WORST_CLASSES)] : "",
    charts(one),
    one.map ? grid(one.map) : heat(one),
    applies.length ? [element("h4", {}, phrase("Metrics that are judged, means over the seeds")), metrics(applies)] : "",
    others.length ? folded(phrase(unjudged(others.length, applies.length), { number: others.length }), metrics(others)) : "",
    one.tolerance.length ? [element("h4", {}, one.standard ? phrase("Tolerance, standard {standard}", { standard: one.standard }) : phrase("Tolerance")),
      table(["limit on", "limit", "layer", "set at"], one.tolerance, ["id", "number", "", "id"])] : "",
    one.counts.length ? folded(phrase("Counts over the seeds"), table(["count", "number"], one.counts, ["id", "number right"])) : "",
  ].flat(2).filter(Boolean);
}

function unjudged(number, judged) {
  if (number === 1) return judged ? "1 other metric, which no limit judges" : "1 metric, which no limit judges";
  return judged ? "{number} other metrics, which no limit judges" : "{number} metrics, which no limit judges";
}

const SHOWN_ROWS = 5;

// The first rows of a table, worst first, and the others on demand.
function shortened(names, lines, classes) {
  const rest = lines.slice(SHOWN_ROWS);
  return [table(names, lines.slice(0, SHOWN_ROWS), classes),
    rest.length ? folded(phrase("{number} more", { number: rest.length }), table(names, rest, classes)) : ""].filter(Boolean);
}

function metrics(lines) {
  return table(["metric", "unit", "current", "baseline", "ratio", "allowed"], lines, ["id", "soft", "number right", "number right", "number right", "number right"]);
}

// An output may be called "inputs", and is no word of the page.
const isName = (kind, text) => kind === "id" && Object.hasOwn(data.phrases, text);

// Columns without any text are left out; a metric's own row may say that it is worse or better.
function table(names, lines, classes) {
  if (!lines.length) return "";
  const filledColumns = names.map((_, at) => at).filter((at) => lines.some((line) => line[at] !== ""));
  const tone = (line) => ({ improved: "good", "": null })[line[names.length] ?? ""] ?? (line[names.length] ? "bad" : null);
  const head = element("tr", {}, filledColumns.map((at) => element("th", { scope: "col", class: classes[at].includes("right") ? "right" : null }, phrase(names[at]))));
  const body = lines.map((line) => element("tr", { class: tone(line) }, filledColumns.map((at) => (
    element("td", { class: classes[at] || null, title: Object.hasOwn(glossary, line[at]) ? phrase(glossary[line[at]]) : null }, isName(classes[at], line[at]) ? line[at] : phrase(line[at]))))));
  // A wide table scrolls by itself, and the keyboard scrolls what it can focus.
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": phrase("table of {first} and {last}", { first: phrase(names[0]), last: phrase(names.at(-1)) }) }, element("table", { class: "plain" }, element("thead", {}, head), element("tbody", {}, body)));
}

function facts(pairs) {
  return element("table", { class: "facts" }, element("tbody", {}, pairs.map(([name, fact]) => (
    element("tr", {}, element("th", { scope: "row" }, phrase(name)), element("td", {}, phrase(fact)))))));
}

// Charts: errors on a log axis. Bin k holds the errors whose float64 bits, shifted right by 50, are k: four an octave.

const WIDTH = 340, HEIGHT = 170, LEFT = 56, BOTTOM = 36, TOP = 8, RIGHT = 12;

function edge(bin) {
  const exponent = Math.max(bin >> 2, 1);
  const fraction = (bin & 3) / 4 + (bin >> 2 ? 1 : 0);
  return (exponent - 1023 + Math.log2(fraction || 2 ** -52)) * Math.LOG10E * Math.LN2;
}

function charts(one) {
  const both = [one.errors, one.accepted].filter((histogram) => histogram?.bins.length);
  if (!both.length) return element("p", { class: "note" }, phrase("Every error is zero."));
  const low = Math.min(...both.map(({ bins }) => edge(bins[0] - 1)));
  const high = Math.max(...both.map(({ bins }) => edge(bins.at(-1) + 2)));
  const x = (log) => LEFT + (log - low) / (high - low) * (WIDTH - LEFT - RIGHT);
  const key = element("div", { class: "key" }, element("span", {}, `${phrase("now")}${exact(one.errors)}`),
    one.accepted ? element("span", { class: "then" }, `${phrase("baseline")}${exact(one.accepted)}`) : "");
  return [element("h4", {}, phrase("Errors")), key, element("div", { class: "charts" },
    chart(phrase("share of elements in each bin"), distribution, one, x, low, high),
    chart(phrase("share of elements with at most this error"), cumulative, one, x, low, high))];
}

const total = ({ zeros, counts }) => zeros + counts.reduce((sum, count) => sum + count, 0);
// A share below 1 is never written as 100 %.
const percent = (share) => {
  const text = Number((100 * share).toPrecision(share < .1 ? 2 : 3));
  return `${text === 100 && share < 1 ? 100 - Number((100 * (1 - share)).toPrecision(1)) : text} %`;
};
const exact = (histogram) => (histogram.zeros ? phrase(", {share} without error", { share: percent(histogram.zeros / total(histogram)) }) : "");

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
    drawn("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, phrase("|actual \u2212 reference|, in the output's unit")),
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
    drawn("title", {}, phrase("from index {index}: {mean}", { index: Math.floor(at * length / groups.length), mean }))));
  return [element("h4", {}, phrase("Along the last axis")), element("figure", {},
    drawn("svg", { viewBox: `0 0 ${WIDTH * 2} 22`, role: "img", "aria-label": phrase("mean absolute error along the last axis") }, drawn("rect", { class: "heat-ground", width: WIDTH * 2, height: 22 }), cells),
    element("figcaption", {}, phrase("mean |actual \u2212 reference| over all other axes, index 0 to {last}; the strongest is {most}", { last: length - 1, most })))];
}

// The map: a character for each cell of the last two axes, as the record has it.

const MAP_LEVELS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
// Twelve octaves below the largest mean a cell is as pale as one without an error.
const MAP_DEPTH = 48;

function grid(map) {
  const columns = map.rows[0].length, size = Math.min(16, WIDTH * 2 / columns);
  const [high, wide] = [1, 1, ...map.shape].slice(-2);
  const cells = map.rows.flatMap((row, y) => [...row].map((level, x) => (
    cell(level, x * size, y * size, size, `${span(y, map.rows.length, high)}, ${span(x, columns, wide)}: ${words(level, map)}`))));
  const box = `0 0 ${columns * size} ${map.rows.length * size}`;
  const over = map.shape.length > 2 ? phrase(", mean over the other axes") : "";
  const ends = { down: map.shape.length - 2, high: high - 1, right: map.shape.length - 1, wide: wide - 1 };
  const axes = map.shape.length > 1 ? phrase("axis {down} (0 to {high}) downward, axis {right} (0 to {wide}) to the right", ends) : phrase("index 0 to {wide}", ends);
  return [element("h4", {}, phrase("Where the errors are")), element("figure", {},
    drawn("svg", { viewBox: box, class: "grid", role: "img", "aria-label": phrase("map of the mean absolute error, largest {shown}", map) }, cells),
    element("figcaption", {}, phrase("mean |actual \u2212 reference| of seed {seed}: {axes}{over}. The strongest cell has {shown}; paler cells have less, on a logarithmic scale.", { ...map, axes, over }),
      map.rows.some((row) => row.includes("!")) ? ` ${phrase("A crossed cell has a NaN or an infinity on one side.")}` : ""))];
}

function cell(level, x, y, size, title) {
  const box = { x, y, width: size, height: size };
  const label = drawn("title", {}, title);
  if (level === "!") {
    return drawn("g", { class: "wrong" }, drawn("rect", box), drawn("path", { d: `M${x},${y}l${size},${size}m0,${-size}l${-size},${size}` }), label);
  }
  const depth = MAP_LEVELS.indexOf(level);
  if (depth < 0) return drawn("rect", { ...box, class: level === "0" ? "heat-ground" : "heat-none" }, label);
  return drawn("g", {}, drawn("rect", { ...box, class: "heat-ground" }), drawn("rect", { ...box, class: "heat", opacity: Math.max(.06, 1 - depth / MAP_DEPTH).toFixed(3) }), label);
}

function span(at, groups, length) {
  const from = Math.floor(at * length / groups), to = Math.floor((at + 1) * length / groups) - 1;
  return from >= to ? `${from}` : phrase("{from} to {to}", { from, to });
}

function words(level, map) {
  if (level === "!") return phrase("NaN or infinity on one side");
  if (level === "0") return phrase("no error");
  const depth = MAP_LEVELS.indexOf(level);
  return depth < 0 ? phrase("no finite pair") : phrase("about {size}", { size: (map.largest * 2 ** (-(depth + .5) / 4)).toPrecision(2) });
}

// The course over the runs of a history. Values may span decades, so the axis is logarithmic where all are positive.

const COURSE_HEIGHT = 90;

function course(found) {
  if (!found) return "";
  const title = element("h3", {}, phrase("Since when"));
  if (found.problem) return [title, element("p", { class: "note" }, phrase("The history could not be read: {problem}", found))];
  const points = [...found.values, [phrase("this run"), "", found.current, found.shown]];
  const known = [...points.map((point) => point[2]), found.limit].filter((value) => value !== null);
  const scale = known.every((value) => value > 0) ? Math.log10 : (value) => value;
  const [low, high] = [Math.min(...known.map(scale)), Math.max(...known.map(scale))];
  const x = (at) => 6 + at / Math.max(points.length - 1, 1) * (WIDTH * 2 - 12);
  const y = (value) => COURSE_HEIGHT - 8 - (scale(value) - low) / (high - low || 1) * (COURSE_HEIGHT - 16);
  const places = points.map((point, at) => ({ point, at })).filter(({ point }) => point[2] !== null);
  const path = places.map(({ point, at }, first) => `${first ? "L" : "M"}${x(at).toFixed(1)},${y(point[2]).toFixed(1)}`).join("");
  const isBad = (at) => at === points.length - 1 || (found.first !== null && at >= found.first);
  const dots = places.map(({ point, at }) => drawn("circle", { class: isBad(at) ? "dot-bad" : "dot", cx: x(at), cy: y(point[2]), r: at === found.first || at === points.length - 1 ? 4.5 : 2.5 },
    drawn("title", {}, [point[0], point[1], point[3]].filter(Boolean).join(", "))));
  const limit = found.limit === null ? "" : drawn("line", { class: "limit", x1: 0, x2: WIDTH * 2, y1: y(found.limit), y2: y(found.limit) });
  const last = found.values.at(-1);
  return [title,
    found.sentence ? element("p", { class: "since" }, linked(phrase(found.sentence), found.url)) : "",
    element("figure", {}, drawn("svg", { viewBox: `0 0 ${WIDTH * 2} ${COURSE_HEIGHT}`, role: "img", "aria-label": phrase("{title} over {number} runs", { title: phrase(found.title), number: points.length }) }, limit, drawn("path", { class: "line-course", d: path }), dots),
      element("figcaption", {}, phrase(found.values.length === 1 ? "{title}: 1 earlier run from {from} to {to}, the last {last}; this run {shown}" : "{title}: {number} earlier runs from {from} to {to}, the last {last}; this run {shown}", {
        title: phrase(found.title), number: found.values.length, from: found.values[0][1].slice(0, 10), to: last[1].slice(0, 10), last: last[3], shown: found.shown,
      }), found.limitShown ? phrase("; the dashed line is the limit, {limitShown}", found) : ""))];
}
