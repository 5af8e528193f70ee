// One report: what it came to, its figures, and all of it.

import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count, seconds, time } from "../format.js";
import { crumbs, figure, waiting } from "../parts.js";
import { table } from "../table.js";
import { verdict } from "./reports.js";

const SHOWN = 50;
const LONGEST = 200000;

export const title = (name) => name;
export const json = (name) => url("api", "reports", name);

export async function show(root, [name], signal) {
  const body = h("div", { role: "status" }, "Reading…");
  replace(root, crumbs(["Reports", "#/reports"], [name]), h("h1", null, name), body);
  const [report, all] = await waiting(body, Promise.all([get(json(name), signal), get("/api/reports", signal)]));
  const entry = all.find((r) => r.name === name);
  replace(root.querySelector("h1"), report.title ?? name, " ", verdict(report.ok ?? null));
  replace(body,
    h("p", null, h("strong", null, report.verdict ?? report.summary ?? "")),
    report.story && h("p", { class: "faint" }, report.story),
    entry && h("p", { class: "faint" }, `${time(entry.at_ms).slice(0, 19)} UTC`, entry.flow && [", ", link(path("flows", entry.flow), entry.flow)]),
    h("dl", { class: "figures" }, figures(report)),
    wrong(report),
    (report.notes ?? []).map((note) => h("p", { class: "faint" }, note)),
    entry?.page && h("iframe", { class: "report-page", sandbox: "", title: `The page of ${name}`, src: url("api", "reports", name, "page") }),
    whole(report, name));
}

function figures(report) {
  if (Array.isArray(report.figures)) return report.figures.map((f) => figure(f.label, f.value, f.note));
  return [
    figure("Records", count(report.records), "compared"),
    figure("Not yet copied", count(report.lag), "records"),
    figure("Partitions", count(report.partitions?.length)),
    figure("Took", seconds(report.seconds)),
  ];
}

// Of a verify: the partitions that are not the same, or of which nobody can tell.
function wrong(report) {
  const found = (Array.isArray(report.partitions) ? report.partitions : []).filter((p) => p.equal !== true);
  const lines = (report.unmirrored ?? []).map((p) => ({ topic: p.topic, partition: p.index, reason: "has records and is not mirrored yet" })).concat(found);
  if (!lines.length) return null;
  const shown = table("Partitions that are not equal", [
    { title: "Topic", cell: (p) => p.topic },
    { title: "Partition", number: true, cell: (p) => p.partition },
    { title: "", wide: true, cell: (p) => p.reason || Object.entries(p.counts ?? {}).map(([kind, number]) => `${count(number)} ${kind}`).join(", ") },
  ]);
  shown.fill(lines.slice(0, SHOWN));
  return [h("h2", null, "Partitions that are not equal"), shown.element, lines.length > SHOWN ? h("p", { class: "faint" }, `The first ${SHOWN} of ${count(lines.length)}.`) : null];
}

function whole(report, name) {
  const body = h("div");
  const fold = h("details", { class: "fold", ontoggle: () => {
    if (!fold.open || body.firstChild) return;
    const text = JSON.stringify(report, null, 2);
    replace(body, h("pre", { tabindex: 0 }, text.slice(0, LONGEST)), text.length > LONGEST ? h("p", null, "It is longer: ", link(json(name), "all of it")) : null);
  } }, h("summary", null, "As JSON"), body);
  return fold;
}
