// Reports of drills and verifies, newest first.

import { get } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { ago, time } from "../format.js";
import { pill } from "../parts.js";
import { table } from "../table.js";

export const title = () => "Reports";
export const json = () => "/api/reports";

export async function show(root, _names, signal) {
  const reports = table("Reports", [
    { title: "Report", tight: true, cell: (r) => link(path("reports", r.name), r.name) },
    { title: "Result", tight: true, cell: (r) => verdict(r.ok) },
    { title: "When, UTC", tight: true, cell: (r) => h("span", { title: ago(r.at_ms) }, time(r.at_ms).slice(0, 19)) },
    { title: "Kind", tight: true, cell: (r) => r.kind },
    { title: "Flow", tight: true, cell: (r) => (r.flow ? link(path("flows", r.flow), r.flow) : "clusters of its own") },
    { title: "", wide: true, cell: (r) => r.summary },
  ]);
  replace(root, h("h1", null, "Reports"), h("p", { class: "faint" }, "Rehearsals of a fail-over (", h("code", null, "heliograph drill"), ") and comparisons of both sides, record by record (", h("code", null, "heliograph verify"), ")."), reports.element);
  reports.fill(await get("/api/reports", signal), "No drill and no verify was run here yet.");
}

export function verdict(ok) {
  return ok === null ? pill("warning", "unclear") : ok ? pill("good", "good") : pill("bad", "NOT good");
}
