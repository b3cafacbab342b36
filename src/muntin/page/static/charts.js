// Charts over time, each with its table; epochs are marks on all of them.
import { el, table } from "./dom.js";
import { bytes, clock, count, seconds, share } from "./format.js";

const RANGES = [["15 min", 900], ["2 h", 7200], ["24 h", 86400], ["all", Infinity]];
const rate = (name) => (c, n) => {
  const time = n ? c.t[n] - c.t[n - 1] : 0;
  return time > 0 && time < 86400 ? Math.max(0, c[name][n] - c[name][n - 1]) / time : null;
};
const level = (name) => (c, n) => c[name][n];
const timesReaders = (c, n) => (c.readers[n] ? rate("rows_in")(c, n) * c.readers[n] : null);
const known = (name) => (c, n) => c[name][n] || null;
const DASHES = [undefined, [5, 4], [2, 3], [9, 3], [1, 3]];
const CHARTS = [
  ["Throughput, rows per second", count, [["read", rate("rows_in")], ["delivered", rate("rows_out")]]],
  ["Micro-batch, seconds", seconds, [["whole", known("batch_s")], ["join and write", known("operator_s")],
    ["look for input", known("reading_s")], ["plan", known("planning_s")], ["log", known("logging_s")]]],
  ["State, rows", count, [["kept", level("state_rows")], ["predicted", known("predicted_rows")]]],
  ["State, bytes", bytes, [["kept", level("state_bytes")], ["predicted", known("predicted_bytes")]]],
  ["Held for a stream that is behind", count, [["rows", level("held_rows")], ["results", level("held_pairs")]]],
  ["Response time", seconds, [["median", known("response_p50_s")], ["99%", known("response_p99_s")]]],
  ["Comparisons per second of event time", count, [["measured", known("comparisons_s")], ["predicted", known("predicted_comparisons_s")]]],
  ["Dead letters per second", count, [["rows", rate("dead_letters")]]],
  ["Punctuations per second", count, [["punctuations", rate("punctuations")]]],
  ["Share of the most frequent key", share, [["share", level("key_share")]]],
  ["Sharing: rows kept, predicted", count, [["shared", known("predicted_rows")], ["one join per query", known("apart_rows")]]],
  ["Sharing: rows compared per second, predicted", count, [["shared", known("predicted_comparisons_s")], ["one join per query", known("apart_comparisons_s")]]],
  ["Sharing: rows read per second", count, [["shared", rate("rows_in")], ["one join per query", timesReaders]]],
  ["Queries and slices", count, [["queries", level("queries")], ["slices", level("slices")]]],
];

export class Charts {
  constructor(place) {
    this.columns = null;
    this.marks = [];
    this.range = Infinity;
    this.buttons = RANGES.map(([name, range]) => el("button", { "aria-pressed": String(range === this.range), onclick: () => this.zoom(range) }, name));
    this.charts = CHARTS.map(([title, shown, series]) => new Chart(title, shown, series));
    this.told = el("p", { class: "marks" });
    place.append(el("div", { class: "row" }, this.buttons, this.told), el("div", { class: "charts" }, this.charts.map((chart) => chart.place)));
  }

  zoom(range) {
    this.range = range;
    this.buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(RANGES[n][1] === range)));
    this.draw();
  }

  load(history) {
    this.columns = history.columns;
    this.marks = history.marks;
    this.draw();
  }

  /** One more sample; those that came twice are taken once. */
  add(sample) {
    const c = this.columns;
    if (!c || !sample || (c.t.length && sample.t <= c.t[c.t.length - 1])) return;
    for (const name of Object.keys(c)) c[name].push(sample[name]);
    this.draw();
  }

  draw() {
    if (!this.columns || !this.columns.t.length) return;
    const from = this.columns.t[this.columns.t.length - 1] - this.range;
    const first = Math.max(0, this.columns.t.findIndex((t) => t >= from));
    const marks = this.marks.filter((mark) => mark.t >= this.columns.t[first]);
    for (const chart of this.charts) chart.draw(this.columns, first, marks);
    const last = marks.slice(-3).map((mark) => `${clock(mark.t)} ${mark.text}`).join("; ");
    this.told.textContent = last ? `marks: ${last}` : "";
  }
}

/** A time on an axis: with seconds where the others differ by less than a minute, with the day where by more than one. */
function tick(t, times) {
  const at = new Date(t * 1000), step = times.length > 1 ? times[1] - times[0] : 60;
  if (step >= 86400) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined });
}

class Chart {
  constructor(title, shown, series) {
    Object.assign(this, { title, shown, series, plot: null, data: null });
    this.canvas = el("div", { "aria-hidden": "true" });
    this.rows = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `table: ${title}` });
    const details = el("details", { ontoggle: () => details.open && this.fill() }, el("summary", {}, `as a table: ${title}`), this.rows);
    this.details = details;
    this.place = el("div", { class: "chart" }, el("h3", {}, title), this.canvas, details);
    new ResizeObserver(() => this.plot?.setSize({ width: Math.max(200, this.canvas.clientWidth), height: 190 })).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.plot?.destroy(); this.plot = null; this.show(); });
  }

  draw(columns, first, marks) {
    this.marks = marks;
    const places = [...Array(columns.t.length - first).keys()].map((n) => n + first);
    this.data = [places.map((n) => columns.t[n]), ...this.series.map(([, of]) => places.map((n) => of(columns, n)))];
    this.show();
    if (this.details.open) this.fill();
  }

  show() {
    if (!this.data) return;
    if (this.plot) {
      this.plot.setData(this.data);
      return;
    }
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 0.5 }, ticks: { stroke: colour("--line") }, font: "11px system-ui" };
    const strokes = ["--left", "--right", "--ink", "--quiet", "--muntin"].map(colour);
    this.plot = new uPlot({
      width: Math.max(200, this.canvas.clientWidth || 380), height: 190,
      legend: { live: true }, cursor: { y: false },
      scales: { y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, space: 60, values: (u, times) => times.map((t) => tick(t, times)) }, { ...axis, size: 58, values: (u, values) => values.map((v) => this.shown(v)) }],
      series: [{ value: (u, v) => (v === null ? "" : clock(v)) }, ...this.series.map(([label], n) => ({
        label, stroke: strokes[n], width: 1.5, dash: DASHES[n], spanGaps: true, value: (u, v) => (v === null ? "–" : this.shown(v)),
      }))],
      hooks: { draw: [(u) => this.drawMarks(u, colour("--accent"))] },
    }, this.data, this.canvas);
  }

  drawMarks(u, stroke) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = stroke;
    ctx.globalAlpha = 0.55;
    for (const mark of this.marks ?? []) {
      const x = Math.round(u.valToPos(mark.t, "x", true)) + 0.5;
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  /** The last values, newest first, with what happened in between. */
  fill() {
    const [times, ...values] = this.data;
    const rows = times.map((t, n) => [clock(t), ...values.map((of) => (of[n] === null ? "" : this.shown(of[n])))]).slice(-30).reverse();
    this.rows.replaceChildren(table(["time", ...this.series.map(([name]) => name)], rows));
  }
}
