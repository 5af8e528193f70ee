// The consumer groups of a flow, both sides next to each other: could each go on at the target, and what would it cost?

import { remember } from "../address.js";
import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count, seconds } from "../format.js";
import { alarm, flowHead, pill } from "../parts.js";
import { table } from "../table.js";

const SHOWN = 100;

export const title = (flow) => `Consumer groups of ${flow}`;
export const json = (flow) => url("api", "failover", flow, { keep_flow: true });

export async function show(root, [flow], signal, query) {
  const [source, target] = flow.split("->");
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search groups", value: query.get("search") ?? "", oninput: draw });
  const again = h("button", { type: "button", onclick: look }, "Look again");
  const status = h("span", { role: "status", class: "faint" });
  const list = h("div");
  let busy = false;
  let groups = [];
  let skipped = new Map();
  replace(root, flowHead(flow, "groups"), h("h1", null, `Consumer groups of ${flow}`),
    h("p", { class: "faint" }, `Would repeat: what a group has read on ${source} since its last checkpoint, and reads again if ${source} is lost now. A fail-over while ${source} answers repeats nothing, unless it says roughly. `, link(path("flows", flow, "failover"), "Fail-over")),
    h("div", { class: "bar" }, search, h("span", { class: "spacer" }), status, again), list);

  async function look() {
    if (busy) return;
    busy = true;
    again.ariaDisabled = "true"; // not disabled: that would take the focus from it
    status.textContent = "Looking at both clusters. It takes some seconds if one does not answer.";
    try {
      const [found, synced] = await Promise.all([get(json(flow), signal), get(url("api", "flows", flow, "groups"), signal).catch(() => [])]);
      groups = found.groups;
      skipped = new Map(synced.filter((g) => g.skipped).map((g) => [g.group, g.skipped]));
      draw();
      const ready = groups.filter((g) => g.ready).length;
      status.textContent = `${count(ready)} of ${count(groups.length)} are ready. ${found.source_answers ? "" : `${source} does not answer: this is from checkpoints.`}`;
    } catch (error) {
      if (error.name === "AbortError") return;
      status.textContent = "";
      replace(list, alarm(error.message));
    } finally {
      busy = false;
      again.ariaDisabled = null;
    }
  }

  function draw() {
    const word = search.value.toLowerCase();
    const fitting = groups.filter((g) => g.group.toLowerCase().includes(word));
    remember({ search: search.value });
    replace(list, fitting.slice(0, SHOWN).map((g) => row(g, skipped.get(g.group), source, target)),
      fitting.length ? null : h("p", { class: "faint" }, word ? `No group is called like ${search.value}.` : "No group of the source reads what this flow copies."),
      fitting.length > SHOWN ? h("p", { class: "faint" }, `${count(fitting.length - SHOWN)} more: search for them.`) : null);
  }

  await look();
}

function row(group, skipped, source, target) {
  const body = h("div");
  const reason = group.reason ?? group.partitions.find((p) => p.reason)?.reason;
  const rough = group.partitions.some((p) => p.exact === false);
  const fold = h("details", { class: "fold", ontoggle: () => fold.open && !body.firstChild && replace(body, partitions(group, source, target)) },
    h("summary", null, h("span", { class: "name" }, group.group), state(group),
      h("span", { class: "faint" }, facts(group)),
      reason && h("span", { class: "bad-text" }, reason),
      rough && h("span", { class: "faint" }, "roughly: some is read again"),
      group.in_use_on_the_source && h("span", { class: "faint" }, `in use on ${source}`),
      skipped && h("span", { class: "faint" }, `not kept in step on ${target}: ${skipped}`)),
    h("p", null, link(path("clusters", source, "groups", group.group), `The group on ${source}`), " · ", link(path("clusters", target, "groups", group.group), `The group on ${target}`)), body);
  return fold;
}

function state(group) {
  return group.moved ? pill("good", "is there") : group.ready ? pill("good", "ready") : pill("bad", "not ready");
}

function facts(group) {
  const repeats = sum(group.partitions, (p) => p.stale);
  const age = Math.max(0, ...group.partitions.map((p) => p.age_ms));
  const size = group.partitions.length === 1 ? "1 partition" : `${count(group.partitions.length)} partitions`;
  return `${size}, ${repeats === null ? "repeats not known" : `${count(repeats)} would repeat`}, as of ${known(age)}`;
}

function known(age) {
  return age ? `${seconds(age / 1000)} ago` : "now";
}

function sum(partitions, field) {
  return partitions.some((p) => field(p) === null) ? null : partitions.reduce((all, p) => all + field(p), 0);
}

function partitions(group, source, target) {
  const shown = table(`Partitions of ${group.group}`, [
    { title: `On ${source}`, wide: true, cell: (p) => `${p.topic}-${p.partition}` },
    { title: "committed", number: true, cell: (p) => count(p.offset) },
    { title: "Goes on in", wide: true, cell: (p) => p.goes_on_in ?? h("span", { class: "bad-text" }, p.reason) },
    { title: "at", number: true, cell: (p) => (p.exact === false ? `${count(p.at)}, roughly` : count(p.at)) },
    { title: `committed on ${target}`, number: true, cell: (p) => (p.at !== null && p.committed_there === null ? "nothing" : count(p.committed_there)) },
    { title: "to go", number: true, cell: (p) => (p.at === null ? count(null) : p.committed_there === null ? "all" : count(Math.max(p.at - p.committed_there, 0))) },
    { title: "Would repeat", number: true, cell: (p) => count(p.stale) },
    { title: "Not there yet", number: true, cell: (p) => count(p.missing) },
    { title: "As of", tight: true, cell: (p) => known(p.age_ms) },
  ]);
  shown.fill(group.partitions, "It has no checkpoint.");
  return shown.element;
}
