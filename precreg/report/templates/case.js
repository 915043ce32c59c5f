// The panel of one case: message, cause, outputs with their charts, tolerances, baseline.

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
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
