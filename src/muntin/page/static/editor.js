// Adding and replacing queries: the text, its preview and what the job says.
import { ask, change } from "./api.js";
import { el, table } from "./dom.js";
import { age, bytes, count } from "./format.js";
import { PlanPicture } from "./plan.js";

const BEGIN = "CREATE QUERY name AS\nSELECT ...\nFROM ... A, ... B\nWHERE A.k = B.k\nWINDOW 1 min";

export class Editor {
  constructor(place, mayChange, onDone) {
    this.onDone = onDone;
    this.text = el("textarea", { id: "sql", spellcheck: "false", placeholder: BEGIN, disabled: !mayChange, oninput: () => this.clear() });
    this.told = el("div", { role: "status" });
    this.error = el("div", { role: "alert", id: "sql-error" });
    this.result = el("div", {});
    this.buttons = [
      el("button", { disabled: !mayChange, onclick: () => this.run(() => this.preview()) }, "preview"),
      el("button", { class: "main", disabled: !mayChange, onclick: () => this.run(() => this.apply()) }, "apply"),
    ];
    const readOnly = "This page is read-only: open it with the address that was printed at the start to change queries.";
    place.append(el("h3", {}, el("label", { for: "sql" }, "Add or replace a query")),
      el("p", { class: "quiet" }, mayChange ? "" : readOnly), this.text, el("div", { class: "row" }, this.buttons, this.told), this.error, this.result);
  }

  fill(text) {
    this.text.value = text.replace(/^\s*CREATE\s+QUERY/i, "CREATE OR REPLACE QUERY");
    this.clear();
    this.text.focus();
  }

  clear() {
    this.error.replaceChildren();
    this.text.removeAttribute("aria-invalid");
    this.text.removeAttribute("aria-describedby");
  }

  async run(action) {
    this.clear();
    for (const button of this.buttons) button.disabled = true;
    try {
      await action();
    } catch (error) {
      this.told.textContent = "";
      this.fail(error);
    }
    for (const button of this.buttons) button.disabled = false;
  }

  /** The message of the command line; its place is selected in the text. */
  fail(error) {
    this.error.replaceChildren(el("pre", { class: "error" }, error.message));
    this.text.setAttribute("aria-invalid", "true");
    this.text.setAttribute("aria-describedby", "sql-error");
    if (!error.place) return;
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, error.place.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + error.place.column - 1;
    this.text.focus();
    this.text.setSelectionRange(start, start + error.place.length);
  }

  async preview() {
    const found = await ask("/api/preview", "POST", { sql: this.text.value });
    this.told.textContent = "";
    const picture = el("div", { class: "preview" });
    this.result.replaceChildren(el("div", { class: "detail" }, el("h3", {}, `If applied: ${words(found)}`), ...forecast(found), picture));
    new PlanPicture(picture).draw([{ pipeline: "preview", ...found.plan }], null, {}, [found.name]);
  }

  async apply() {
    const answer = await change("/api/queries", "POST", { sql: this.text.value }, (said) => { this.told.textContent = said; });
    this.told.textContent = answer.told;
    this.result.replaceChildren();
    this.onDone(answer.name);
  }
}

function words(found) {
  return { add: `${found.name} is added`, replace: `${found.name} is replaced`, drop: `${found.name} is dropped` }[found.kind];
}

/** What a change does, in sentences and figures. */
export function forecast(found) {
  const cuts = (about, said) => Object.entries(about).map(([stream, ages]) => el("p", {}, `The state of ${stream} ${said} ${ages.map((at) => age(at, "time")).join(", ")}.`));
  const line = (name, key, shown) => [name, shown(found.before[key]), shown(found.after[key])];
  const whole = (n) => count(Math.round(n));
  return [
    ...cuts(found.new_cuts, "is cut at"), ...cuts(found.gone_cuts, "is no longer cut at"),
    found.complete ? el("p", {}, `The answer is ${found.complete}.`) : null,
    table(["predicted", "now", "then"], [
      line("joins", "joins", whole), line("slices", "slices", whole), line("rows kept", "rows", whole), line("state", "bytes", bytes),
      line("comparisons per second", "comparisons_per_second", count), line("ms of a core per second", "cpu_ms_per_second", count)]),
  ].filter(Boolean);
}
