// The list of queries, of which only what can be seen is drawn, and one query in detail.
import { ask } from "./api.js";
import { el, table } from "./dom.js";
import { age, bytes, count, moment, seconds } from "./format.js";

const HEIGHT = 34, AHEAD = 8;
const COLUMNS = ["query", "window", "selections", "rows out", "rows/s", "median", "99%", "complete from"];

export class QueryList {
  constructor(place, onOpen) {
    this.onOpen = onOpen;
    this.rows = [];
    this.shown = [];
    this.filter = el("input", { type: "search", placeholder: "filter", "aria-label": "filter the queries", oninput: () => this.draw() });
    this.counted = el("span", { class: "quiet", role: "status" });
    this.space = el("div", { class: "space", role: "rowgroup" });
    const head = el("div", { role: "rowgroup" }, el("div", { role: "row", class: "head" }, COLUMNS.map((name, n) => el("span", { role: "columnheader", class: n > 2 && n < 7 ? "number" : "" }, name))));
    this.list = el("div", { class: "list", role: "table", "aria-label": "queries", tabindex: 0, onscroll: () => this.fill() }, head, this.space);
    place.append(el("div", { class: "row" }, this.filter, this.counted), this.list);
  }

  /** Take the queries as they are now; `rates` are rows per second, `uses` what the plan says of each. */
  update(queries, rates, uses) {
    this.rows = Object.entries(queries).map(([name, query]) => {
      const use = uses.get(name);
      return {
        name,
        text: `${name} ${use?.selections.filter(Boolean).join(" ") ?? ""}`.toLowerCase(),
        cells: [
          use ? windowOf(use) : "", use ? use.selections.filter(Boolean).join(" and ") || "all rows" : "no rows possible",
          count(query.total_rows), count(rates[name] ?? 0), seconds(query.response?.p50_s), seconds(query.response?.p99_s),
          query.applied_from ? moment(query.complete_from ?? "once its window has filled") : "the beginning",
        ],
      };
    });
    this.draw();
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    this.shown = this.rows.filter((row) => row.text.includes(wanted));
    this.counted.textContent = this.shown.length === this.rows.length ? `${count(this.rows.length)} queries` : `${count(this.shown.length)} of ${count(this.rows.length)} queries`;
    this.list.setAttribute("aria-rowcount", this.shown.length + 1);
    this.space.style.height = `${this.shown.length * HEIGHT}px`;
    this.fill();
  }

  /** Draw what can be seen, and a little more. */
  fill() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / HEIGHT) - AHEAD);
    const last = Math.min(this.shown.length, first + Math.ceil((this.list.clientHeight || 420) / HEIGHT) + 2 * AHEAD);
    const focused = document.activeElement?.getAttribute?.("data-query");
    this.space.replaceChildren(...this.shown.slice(first, last).map((row, n) => this.line(row, first + n)));
    if (focused) [...this.space.querySelectorAll("button")].find((button) => button.getAttribute("data-query") === focused)?.focus();
  }

  line(row, n) {
    const name = el("span", { role: "rowheader" }, el("button", { class: "link", "data-query": row.name, onclick: () => this.onOpen(row.name) }, row.name));
    const made = el("div", { role: "row", "aria-rowindex": n + 2 }, name, row.cells.map((cell, k) => el("span", { role: "cell", class: k > 1 && k < 6 ? "number" : "", title: cell }, cell)));
    made.style.top = `${n * HEIGHT}px`;
    return made;
  }
}

export function windowOf(use) {
  const [left, right] = use.window.map((w) => (w.from ? `${age(w.from, w.axis)} to ` : "") + age(w.to, w.axis));
  return left === right ? left : `${left} / ${right}`;
}

/** One query in detail: its text, its last rows, what only it needs, and what can be done with it. */
export class QueryDetail {
  constructor(place, mayChange, onReplace, onDrop) {
    Object.assign(this, { place, mayChange, onReplace, onDrop, name: null });
  }

  async open(name) {
    this.name = name;
    try {
      const [query, last] = await Promise.all([ask(`/api/queries/${encodeURIComponent(name)}`), ask(`/api/queries/${encodeURIComponent(name)}/rows`)]);
      if (this.name === name) this.show(query, last);
    } catch (error) {
      this.place.replaceChildren(el("pre", { class: "error" }, error.message));
    }
  }

  close() {
    this.name = null;
    this.place.replaceChildren();
  }

  show(query, last) {
    const alone = query.only_for_it;
    const columns = last.rows.length ? Object.keys(last.rows[0]) : [];
    const told = el("span", { role: "status" });
    const drop = el("button", { disabled: !this.mayChange, onclick: () => this.onDrop(query.name, told, drop) }, "drop");
    this.place.replaceChildren(el("div", { class: "detail" },
      el("h3", {}, query.name),
      el("div", { class: "row" },
        el("button", { disabled: !this.mayChange, onclick: () => this.onReplace(query.text) }, "replace"), drop,
        el("button", { onclick: () => this.open(query.name) }, "look again"),
        el("button", { onclick: () => this.close() }, "close"), told),
      el("pre", { tabindex: 0, "aria-label": `SQL of ${query.name}` }, query.text ?? ""),
      el("p", {}, alone ? `Only this query needs about ${count(Math.round(alone.rows))} rows (${bytes(alone.bytes)}) of state and ${count(alone.comparisons_per_second)} comparisons per second; the rest is shared.` : ""),
      el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `last rows of ${query.name}` },
        last.rows.length ? table(columns, last.rows.map((row) => columns.map((name) => row[name] ?? "NULL")), "The last rows, newest first") : el("p", {}, last.why_not))));
  }
}
