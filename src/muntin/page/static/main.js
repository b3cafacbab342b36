// The live page: listens to the job and shows what it hears.
import { ask, change, listen, takeToken } from "./api.js";
import { Charts } from "./charts.js";
import { el, patch, svg, table } from "./dom.js";
import { bytes, clock, count, share } from "./format.js";
import { Editor } from "./editor.js";
import { PlanPicture, planTable } from "./plan.js";
import { QueryDetail, QueryList } from "./queries.js";

const at = (id) => document.getElementById(id);
const page = { plan: null, version: "", status: null, before: null, rates: {}, fresh: [], lost: false, letters: -1 };

async function begin() {
  const hasToken = takeToken();
  const about = await ask("/api/about").catch(() => ({ read_only: true, muntin: "", checkpoint: "" }));
  const mayChange = hasToken && !about.read_only;
  at("about").textContent = `Muntin ${about.muntin} · ${about.checkpoint} · ${mayChange ? "queries can be changed from here" : "read-only"} · /metrics for Prometheus`;
  page.picture = new PlanPicture(at("plan"));
  page.charts = new Charts(at("charts"));
  page.editor = new Editor(at("editor"), mayChange, (name) => { page.fresh = [name]; });
  page.detail = new QueryDetail(at("query-detail"), mayChange, (text) => page.editor.fill(text), dropQuery);
  page.list = new QueryList(at("query-list"), (name) => page.detail.open(name));
  at("plan-table").addEventListener("toggle", showTable);
  await loadHistory();
  listen(onStatus, onTrouble, onConnection);
}

async function loadHistory() {
  await ask("/api/history").then((found) => page.charts.load(found)).catch(() => null);
}

async function onStatus({ status, sample, plan }) {
  page.before = page.status;
  page.status = status;
  if (!page.before || page.before.batches !== status.batches) page.rates = ratesOf(page.before, status) ?? page.rates;
  const version = JSON.stringify(plan);
  if (version !== page.version) {
    await ask("/api/plan").then((found) => { page.plan = found; page.version = version; }).catch(() => null);
    page.compareAt = 0;
    if (page.before) await loadHistory();
  }
  show();
  page.charts.add(sample);
  compare();
  document.body.setAttribute("data-batches", status.batches);
}

/** What the same queries would take apart: asked for now and then, since it is some work for the server. */
async function compare() {
  if (Date.now() < (page.compareAt ?? 0)) return;
  page.compareAt = Date.now() + 60000;
  await ask("/api/sharing").then((found) => { page.apart = found.apart; showSavings(); }).catch(() => null);
}

/** Rows per second of each query since the status before, by the clock. */
function ratesOf(before, status) {
  if (!before || before.started !== status.started) return null;
  const time = status.updated - before.updated;
  if (time <= 0) return null;
  return Object.fromEntries(Object.entries(status.queries).map(([name, query]) => {
    const old = before.queries[name]?.total_rows ?? 0;
    return [name, (query.total_rows - old) / time];
  }));
}

function show() {
  const { status, plan } = page;
  const rows = Object.entries(status.sources).filter(([name]) => !name.startsWith("_")).reduce((sum, [, source]) => sum + source.total_rows, 0);
  const over = { running: "running", stopped: "has stopped", failed: "has failed", ended: "has ended" }[status.state] ?? status.state;
  at("headline").textContent = `${over} (${status.mode}) · ${count(Object.keys(status.queries).length)} queries · ${count(rows)} rows read · micro-batch ${status.batch ?? "–"} · plan ${status.epoch ?? "–"} · ${status.strategy ?? ""} ${status.chain ?? ""}${status.error ? ` · ${status.error}` : ""}`;
  at("headline").className = status.state === "failed" ? "error" : "";
  const plans = plan?.plans ?? [];
  page.picture.draw(plans, status, {}, page.fresh);
  showTable();
  const uses = new Map(plans.flatMap((one) => one.joins.flatMap((join) => join.queries.map((query) => [query.name, query]))));
  page.list.update(status.queries, page.rates, uses);
  showSavings();
  showLetters();
}

function showTable() {
  const place = at("plan-table");
  if (!place.open || !page.plan) return;
  const made = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "slices" }, planTable(page.plan.plans, page.status, table));
  place.querySelector("div")?.remove();
  place.append(made);
}

function showSavings() {
  const { apart, plan } = page;
  const place = at("savings");
  if (!apart || !plan) {
    place.textContent = "Known once rows of both streams have come.";
    return;
  }
  const joins = plan.plans.flatMap((one) => one.joins);
  const predicted = (name) => joins.reduce((sum, join) => sum + join.predicted[name], 0);
  const rates = new Map(joins.flatMap((join) => join.traffic.rates.map((rate) => [rate.stream, rate.rows_per_second])));
  const read = [...rates.values()].reduce((sum, rate) => sum + rate, 0);
  const cards = [
    card("rows kept", predicted("rows"), apart.rows),
    card("rows compared per second of event time", predicted("comparisons_per_second"), apart.comparisons_per_second),
    card("rows read per second of event time", read, read * apart.readers),
  ];
  patch(place, el("div", { id: "savings" },
    el("div", { class: "cards" }, cards),
    el("p", { class: "quiet" }, "Both sides are predicted, for a steady state of the traffic that the job has measured.")));
}

function savedWords(saved) {
  if (saved === null || Math.abs(saved) < 0.005) return "as much";
  return saved > 0 ? `${share(saved)} saved` : `${share(-saved)} more`;
}

function card(name, shared, apart) {
  const saved = apart > 0 ? 1 - shared / apart : null;
  const width = apart > 0 ? Math.max(1, Math.min(100, 100 * shared / apart)) : 100;
  return el("div", { class: "card", "data-key": name },
    el("span", {}, name), el("b", {}, savedWords(saved)),
    el("div", { class: "meter", "aria-hidden": "true" }, svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none" }, svg("rect", { x: 0, y: 0, width, height: 8 }))),
    el("span", {}, `${count(Math.round(shared))} shared, ${count(Math.round(apart))} with one join per query`));
}

async function showLetters() {
  const counts = Object.entries(page.status.dead_letters);
  const total = counts.reduce((sum, [, n]) => sum + n, 0);
  if (total === page.letters) return;
  page.letters = total;
  const place = at("letters");
  if (!total) {
    place.textContent = "None: no row was turned away.";
    return;
  }
  const found = await ask("/api/dead-letters").catch(() => ({ examples: [] }));
  const examples = found.examples.map((row) => [row.stream ?? "", row.reason ?? "", row.row ?? ""]);
  place.replaceChildren(table(["reason", "rows"], counts.map(([reason, n]) => [reason, count(n)]), "By reason"),
    el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "examples of dead letters" }, table(["stream", "why", "row"], examples, "Examples, newest first")));
}

async function dropQuery(name, told, button) {
  try {
    if (button.textContent === "drop") {
      const found = await ask("/api/preview", "POST", { sql: `DROP QUERY ${name}` });
      told.textContent = `frees about ${count(Math.round(Math.max(0, found.before.rows - found.after.rows)))} rows (${bytes(Math.max(0, found.before.bytes - found.after.bytes))}) of state; its files stay`;
      button.textContent = "drop it now";
      return;
    }
    button.disabled = true;
    const answer = await change(`/api/queries/${encodeURIComponent(name)}`, "DELETE", undefined, (said) => { told.textContent = said; });
    page.detail.close();
    at("connection").textContent = answer.told;
  } catch (error) {
    told.textContent = error.message;
    told.className = "error";
  }
}

function onTrouble(error) {
  at("headline").textContent = error;
  at("headline").className = "error";
}

function onConnection(there) {
  const place = at("connection");
  if (there && page.lost) loadHistory();
  page.lost = !there;
  place.className = there ? "" : "lost";
  place.textContent = there ? "live" : `no answer from the server since ${clock(Date.now() / 1000)}: the job or its page has ended; this page comes back by itself`;
}

begin();
