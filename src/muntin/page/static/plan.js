// The shared plan as a picture: streams on the left, states as bands cut by age, queries hanging from their slices.
import { el, patch, svg } from "./dom.js";
import { age, bytes, count, moment, seconds, several, share, shorten } from "./format.js";
import { grouped, hanging, joinsOf } from "./model.js";

const STREAM = 132, RIGHT = 16, BAND = 58, LABEL = 26, ROW = 22, MOST_QUERIES = 24, MOST_SLICES = 24, NARROW = 12;

/** A picture of plans that can be drawn again and again; `explain` gets the sentence of what is looked at. */
export class PlanPicture {
  constructor(place, options = {}) {
    this.place = place;
    this.scale = options.scale ?? "log";
    this.fresh = new Set();
    this.sentence = el("p", { class: "sentence", role: "status" }, REST);
    this.canvas = el("div", { class: "canvas" });
    this.joins = [];
    place.append(this.controls(), this.canvas, this.sentence);
    for (const kind of ["mouseover", "focusin"]) this.canvas.addEventListener(kind, (event) => this.look(event.target));
    for (const kind of ["mouseleave", "focusout"]) this.canvas.addEventListener(kind, () => this.look(null));
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  controls() {
    const name = `scale-${Math.random().toString(36).slice(2)}`;
    const choice = (scale, text) => el("label", {},
      el("input", { type: "radio", name, checked: scale === this.scale, onchange: () => { this.scale = scale; this.redraw(); } }), ` ${text}`);
    return el("fieldset", { class: "choice" }, el("legend", {}, "ages"), choice("log", "logarithmic"), choice("linear", "linear"));
  }

  /** Draw plans; `fresh` names queries that are to stand out. */
  draw(plans, status = null, rates = {}, fresh = []) {
    this.joins = joinsOf(plans, status, rates);
    this.fresh = new Set(fresh);
    this.redraw();
  }

  redraw() {
    const width = Math.max(320, this.canvas.clientWidth || this.place.clientWidth || 960);
    const drawn = el("div", { class: "canvas" }, this.joins.map((join) => drawJoin(join, width, this.scale, this.fresh)));
    patch(this.canvas, drawn);
  }

  /** Say what is looked at, and show what it belongs to. */
  look(target) {
    const part = target?.closest?.("[data-told]");
    this.sentence.textContent = part ? part.getAttribute("data-told") : REST;
    const names = new Set(part?.getAttribute("data-queries")?.split("\u0001").filter(Boolean) ?? []);
    for (const other of this.canvas.querySelectorAll("[data-queries]")) {
      const related = other.getAttribute("data-queries").split("\u0001").some((name) => names.has(name));
      other.classList.toggle("related", names.size > 0 && related);
      other.classList.toggle("unrelated", names.size > 0 && !related);
    }
  }
}

const REST = "Point at a part, or move to it with the Tab key, and it is explained here.";

// -- one join ---------------------------------------------------------------------------------------------------------

function drawJoin(join, width, scale, fresh) {
  const left = width < 560 ? 84 : STREAM;
  const rows = hanging(join.queries, MOST_QUERIES);
  const top = 2 * LABEL, middle = top + BAND + LABEL, bottom = middle + rows.length * ROW + 24;
  const height = bottom + BAND + 2 * LABEL + (join.isLive ? 74 : 8);
  const spans = [0, 1].map((side) => axisOf(join, side, left, width - RIGHT, scale));
  const title = `${join.name}: ${join.sides[0].stream} and ${join.sides[1].stream} on ${join.on}, ${join.ordering}, ${bytes(join.bytes)} of state`;
  return el("figure", { class: "join", "data-key": `join ${join.id}` },
    el("figcaption", {}, title),
    svg("svg", { class: "plan", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title },
      guides(join, spans, top + BAND, bottom),
      band(join, 0, spans[0], left, top, true),
      rows.map((row, n) => hangingQuery(join, row, spans, left, middle + n * ROW, fresh)),
      band(join, 1, spans[1], left, bottom, false),
      join.isLive ? timeAxis(join, left, width - RIGHT, bottom + BAND + 2 * LABEL + 8) : null));
}

/** From ages to places. Logarithmic: equal ratios are equally wide, and the youngest slice gets a place of its own. */
function axisOf(join, side, from, to, scale) {
  const { axis, reach, slices } = join.sides[side];
  const sameAxis = join.sides.filter((other) => other.axis === axis);
  const most = Math.max(1, ...sameAxis.map((other) => other.reach));
  const ends = join.queries.flatMap((query) => query.window).filter((window) => window.axis === axis).map((window) => window.to);
  const first = Math.min(...sameAxis.flatMap((other) => other.slices.map((slice) => slice.to)), ...ends.filter((end) => end > 0)) || 1;
  const place = (value) => {
    if (scale === "linear" || first >= most) return from + (to - from) * (value / most);
    const least = first / 3;
    const logged = (v) => Math.log(Math.max(v, least) / least) / Math.log(most / least);
    return value <= 0 ? from : from + (to - from) * (0.04 + 0.96 * logged(value));
  };
  const width = (a, b) => place(b) - place(a);
  const drawn = slices.length > MOST_SLICES ? grouped(slices, width, NARROW) : slices;
  return { axis, reach, place, width, drawn };
}

/** The muntins go on as thin lines through the queries, so that one sees where each stops. */
function guides(join, spans, from, to) {
  const cuts = new Set(spans.flatMap((span) => span.drawn.map((slice) => Math.round(span.place(slice.to)))));
  return [...cuts].map((x) => svg("line", { class: "guide", x1: x, x2: x, y1: from, y2: to, "data-key": `guide ${x}` }));
}

function band(join, side, span, left, y, isTop) {
  const state = join.sides[side];
  const most = Math.max(1, ...span.drawn.map((slice) => Math.max(slice.rows, slice.predicted)));
  const told = streamTold(state);
  return svg("g", { class: `state side${side}`, "data-key": `state ${side}` },
    svg("g", { class: "stream", tabindex: 0, role: "img", "aria-label": told, "data-told": told, "data-key": "stream" },
      svg("rect", { x: 0, y, width: left - 14, height: BAND, rx: 4 }),
      svg("text", { x: 8, y: y + 20, class: "name" }, shorten(state.stream, left < 100 ? 10 : 16)),
      svg("text", { x: 8, y: y + 37, class: "quiet" }, `${count(state.rate)} ${left < 100 ? "r/s" : "rows/s"}`),
      svg("text", { x: 8, y: y + 51, class: "quiet" }, state.idle ? "idle" : state.held ? `${count(state.held)} held` : ""),
      svg("path", { d: `M${left - 14} ${y + BAND / 2} l10 0 m-4 -4 l4 4 l-4 4`, class: "arrow" })),
    span.drawn.map((slice) => drawSlice(join, state, slice, span, y, most, isTop)),
    span.drawn.map((slice) => svg("rect", {
      class: "muntin", x: span.place(slice.to) - 1.5, y: y - 3, width: 3, height: BAND + 6, "data-key": `cut ${slice.to}`,
    })),
    ageLabels(span, left, isTop ? y + BAND + 16 : y - 8));
}

function ageLabels(span, left, y) {
  const labels = [svg("text", { x: left, y, class: "tick", "data-key": "tick 0" }, "0")];
  const end = span.drawn[span.drawn.length - 1];
  const endText = age(end.to, span.axis), endPlace = span.place(end.to);
  let last = left;
  for (const slice of span.drawn) {
    const x = span.place(slice.to), text = age(slice.to, span.axis), half = 3.2 * text.length;
    if (slice === end || x - half < last + 10 || x + half > endPlace - 6.6 * endText.length - 6) continue;
    labels.push(svg("text", { x, y, class: "tick middle", "data-key": `tick ${slice.to}` }, text));
    last = x + half;
  }
  return [...labels, svg("text", { x: endPlace, y, class: "tick end", "data-key": "tick end" }, endText)];
}

function drawSlice(join, state, slice, span, y, most, isTop) {
  const x = span.place(slice.from), width = Math.max(1, span.width(slice.from, slice.to));
  const told = sliceTold(join, state, slice);
  const fits = (text, each) => width > 10 + each * text.length;
  const isRoomy = fits(`${count(slice.rows)} rows`, 7);
  const line = (n, text, kind = "") => (kind || isRoomy) && fits(text, kind ? 7 : 6.4)
    ? svg("text", { x: x + 7, y: y + 17 + n * 14, class: kind, "data-key": `line ${n}` }, text) : null;
  const full = (value) => (BAND - 4) * Math.min(1, value / most);
  const selection = slice.selection === null ? "all rows" : slice.selection.join(" or ");
  const room = Math.floor((width - 10) / 7.1);
  return svg("g", {
    class: "slice", tabindex: 0, role: "img", "aria-label": told, "data-told": told, "data-key": `slice ${slice.from} ${slice.to}`,
    "data-queries": slice.readers.join("\u0001"),
  },
    svg("rect", { class: "pane", x, y, width, height: BAND }),
    svg("rect", { class: "fill", x, y: y + BAND - 2 - full(slice.rows), width, height: full(slice.rows) }),
    slice.measured ? svg("line", { class: "predicted", x1: x + 2, x2: x + width - 2, y1: y + BAND - 2 - full(slice.predicted), y2: y + BAND - 2 - full(slice.predicted) }) : null,
    line(0, isRoomy ? `${count(slice.rows)} rows` : count(slice.rows), "strong"),
    line(1, bytes(slice.bytes)),
    line(2, slice.count > 1 ? `${slice.count} slices` : `${count(slice.probes)} probes/s`),
    room > 5 ? svg("text", { x: x + 7, y: isTop ? y - 8 : y + BAND + 16, class: "selection", "data-key": "selection" }, shorten(selection, room)) : null);
}

function hangingQuery(join, row, spans, left, y, fresh) {
  const { query, names } = row;
  const told = queryTold(join, row);
  const label = names.length > 1 ? several(names.length, "query", "queries") : names[0];
  const bars = [0, 1].map((side) => {
    const window = query.window[side];
    const from = spans[side].place(window.from), to = spans[side].place(window.to);
    const at = y + 5 + side * 7;
    return window.to <= window.from ? svg("circle", { class: `bar side${side}`, cx: from + 2, cy: at + 2.5, r: 2.5 })
      : [svg("rect", { class: `bar side${side}`, x: from, y: at, width: Math.max(2, to - from), height: 5, rx: 2.5 }),
        row.least && row.least !== query ? svg("circle", { class: "least", cx: spans[side].place(row.least.window[side].to), cy: at + 2.5, r: 2 }) : null];
  });
  const isFresh = names.some((name) => fresh.has(name));
  return svg("g", {
    class: isFresh ? "query fresh" : "query", tabindex: 0, role: "img", "aria-label": told, "data-told": told,
    "data-key": `query ${names[0]}`, "data-queries": names.join("\u0001"),
  },
    svg("rect", { class: "line", x: 0, y, width: spans[0].place(spans[0].reach), height: ROW }),
    svg("text", { x: 8, y: y + 15, class: "name" }, shorten(label, left < 100 ? 10 : 17)),
    bars);
}

// -- who waits for whom -----------------------------------------------------------------------------------------------

function timeAxis(join, from, to, y) {
  const known = join.sides.map((side) => (side.frontier && side.frontier !== "ended" ? Date.parse(side.frontier) : null));
  const times = known.filter((t) => t !== null);
  const text = (x, at, kind, said) => svg("text", { x, y: at, class: kind }, said);
  if (!times.length) {
    const said = join.sides.map((side) => `${side.stream}: ${side.frontier === "ended" ? "has ended" : "no rows yet"}`).join("; ");
    return svg("g", { class: "time", "data-key": "time" }, text(0, y + 22, "quiet", said));
  }
  const low = Math.min(...times), high = Math.max(...times), gap = Math.max(1000, high - low);
  const place = (t) => from + (to - from) * (0.12 + 0.76 * ((t - low + (high - low < 1000 ? 500 : 0)) / gap));
  const told = waitingTold(join, known);
  return svg("g", { class: "time", tabindex: 0, role: "img", "aria-label": told, "data-told": told, "data-key": "time" },
    text(8, y + 18, "name", from < 100 ? "time" : "event time"),
    text(8, y + 34, "quiet", "frontiers"),
    svg("line", { class: "axis", x1: from, x2: to, y1: y + 24, y2: y + 24 }),
    high > low ? svg("rect", { class: "gap", x: place(low), y: y + 18, width: place(high) - place(low), height: 12 }) : null,
    known.map((t, side) => t === null ? null : svg("g", { class: `frontier side${side}`, "data-key": `frontier ${side}` },
      svg("path", { d: "M0 -8 l5 8 l-5 8 l-5 -8 z", transform: `translate(${place(t)} ${y + 24})` }),
      text(place(t), side ? y + 48 : y + 8, place(t) > (from + to) / 2 ? "tick end" : "tick", frontierLabel(join.sides[side], to - from)))),
    join.waits ? text((place(low) + place(high)) / 2, y + 62, "quiet middle",
      `${count(join.waits.held_rows)} rows and ${count(join.waits.held_pairs)} results wait for ${join.waits.stream}`) : null);
}

function frontierLabel(side, width) {
  const told = moment(side.frontier);
  return width < 420 ? `${shorten(side.stream, 12)} ${told.slice(11)}` : `${side.stream} ${told}`;
}

// -- sentences --------------------------------------------------------------------------------------------------------

function streamTold(state) {
  const held = state.held ? `, ${several(state.held, "row is", "rows are")} held for the other stream` : "";
  const skew = state.fullest ? `, the most frequent key has ${share(state.fullest.share)} of the rows kept` : "";
  const idle = state.idle ? ", idle: nobody waits for it" : "";
  return `Stream ${state.stream}: ${count(state.rate)} rows per second of event time (${state.rateKnown}), complete up to ${moment(state.frontier)}${held}${idle}${skew}.`;
}

function sliceTold(join, state, slice) {
  const what = slice.count > 1 ? `${slice.count} slices of ${state.stream}` : `A slice of ${state.stream}`;
  const ages = `rows of age ${age(slice.from, state.axis)} to ${age(slice.to, state.axis)}`;
  const rows = slice.measured ? `${several(slice.rows, "row", "rows")} (${count(slice.predicted)} predicted)` : `about ${several(Math.round(slice.rows), "row", "rows")}`;
  const before = slice.selection === null ? "every row is kept" : `rows are kept where ${slice.selection.join(" or ")}`;
  const merged = slice.merged ? ", merged: pairs find their queries by age" : "";
  return `${what}: ${ages}, ${rows}, ${bytes(slice.bytes)}; ${before}; read by ${listed(slice.readers)}; ${count(slice.probes)} rows per second look into it${merged}.`;
}

function queryTold(join, row) {
  const { query, names } = row;
  const spans = query.window.map((window, side) => `${query.streams[side]} of age ${age(window.from, window.axis)} to ${age(window.to, window.axis)}`);
  const where = query.selections.filter(Boolean);
  const who = names.length > 1 ? `${names.length} queries (${listed(names)}) read up to` : `Query ${names[0]} reads`;
  return `${who} ${spans.join(" and ")}${where.length && names.length === 1 ? ` where ${where.join(" and ")}` : ""}${query.join ? `; ${query.join}` : ""}.`;
}

function waitingTold(join, known) {
  const said = join.sides.map((side) => `${side.stream} is complete up to ${moment(side.frontier)}`).join(", ");
  const apart = known.every((t) => t !== null) ? ` They are ${seconds(Math.abs(known[0] - known[1]) / 1000)} apart.` : "";
  const waits = join.waits ? ` ${count(join.waits.held_rows)} rows and ${count(join.waits.held_pairs)} results wait for ${join.waits.stream}.` : " Nothing waits.";
  return `Frontiers: ${said}.${apart}${waits}`;
}

function listed(names) {
  return names.length <= 6 ? names.join(", ") : `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`;
}

/** The same figures as a table, for those who would rather read. */
export function planTable(plans, status, table) {
  const rows = joinsOf(plans, status).flatMap((join) => join.sides.flatMap((side) => side.slices.map((slice) => [
    side.stream, `${age(slice.from, side.axis)} to ${age(slice.to, side.axis)}`, count(slice.rows), count(slice.predicted),
    bytes(slice.bytes), slice.selection === null ? "all rows" : slice.selection.join(" or "), listed(slice.readers),
  ])));
  return table(["state of", "age", "rows", "predicted", "bytes", "selection before it", "read by"], rows, "Slices");
}
