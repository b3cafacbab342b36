// One plan, or one status, in a document of its own; the data are in the document.
import { el, table } from "./dom.js";
import { PlanPicture, planTable } from "./plan.js";

const given = JSON.parse(document.getElementById("given").textContent);
new PlanPicture(document.getElementById("plan")).draw(given.plans, given.status);
const slices = el("details", {}, el("summary", {}, "as a table"), el("div", { class: "wide" }, planTable(given.plans, given.status, table)));
document.getElementById("plan").append(slices);
