// One topic of a cluster: its partitions and its settings.

import { remember } from "../address.js";
import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count } from "../format.js";
import { may } from "../me.js";
import { crumbs, figure, pill, waiting } from "../parts.js";
import { table } from "../table.js";

export const title = (alias, topic) => `${topic} on ${alias}`;
export const json = (alias, topic) => url("api", "clusters", alias, "topics", topic);

export async function show(root, [alias, topic], signal, query) {
  const body = h("div", { role: "status" }, `Looking at ${alias}…`);
  replace(root, crumbs(["Clusters", "#/clusters"], [alias, path("clusters", alias)], [topic]), h("h1", null, topic), body);
  const found = await waiting(body, get(json(alias, topic), signal));
  const partitions = table(`Partitions of ${topic}`, columns(alias, topic));
  partitions.fill(found.partitions);
  replace(body,
    h("dl", { class: "figures" },
      figure("Partitions", count(found.partitions.length)),
      figure("Offsets", count(offsets(found.partitions)), "from start to end"),
      figure("Replicas", count(Math.max(0, ...found.partitions.map((p) => p.replicas.length))))),
    h("h2", null, "Partitions"), partitions.element, settings(found.configs, topic, query));
}

function offsets(partitions) {
  return partitions.some((p) => p.end === null) ? null : partitions.reduce((all, p) => all + p.end - p.start, 0);
}

function columns(alias, topic) {
  const all = [
    { title: "Partition", tight: true, cell: (p) => p.partition },
    { title: "Leader", number: true, cell: (p) => (p.leader < 0 ? pill("bad", "none") : p.leader) },
    { title: "Replicas", tight: true, cell: (p) => p.replicas.join(", ") },
    { title: "In sync", tight: true, cell: (p) => (p.isr.length < p.replicas.length ? h("span", { class: "bad-text" }, p.isr.join(", ") || "none") : p.isr.join(", ")) },
    { title: "Start", number: true, cell: (p) => count(p.start) },
    { title: "End", number: true, cell: (p) => count(p.end) },
  ];
  const messages = { title: "", tight: true, cell: (p) => link(path("messages", { cluster: alias, topic, partition: p.partition, from: "last" }), "Messages", h("span", { class: "unseen" }, ` of partition ${p.partition}`)) };
  return may("operate") ? [...all, messages] : all;
}

function settings(configs, topic, query) {
  const shown = table(`Settings of ${topic}`, [
    { title: "Setting", cell: (c) => h("code", null, c.name) },
    { title: "Value", wide: true, cell: (c) => (c.value === null ? h("span", { class: "faint" }, "hidden") : h("code", null, c.value)) },
    { title: "", cell: (c) => (c.default ? h("span", { class: "faint" }, "default") : "its own") },
  ]);
  const defaults = h("input", { type: "checkbox", checked: query.has("defaults"), onchange: draw });
  function draw() {
    remember({ defaults: defaults.checked ? "1" : "" });
    shown.fill(configs.filter((c) => defaults.checked || !c.default), "It has no settings of its own.");
  }
  draw();
  return [h("h2", null, "Settings"), h("div", { class: "bar" }, h("label", null, defaults, "defaults too")), shown.element];
}
