// One consumer group of a cluster: who is in it, and how far it has come.

import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count } from "../format.js";
import { crumbs, figure, pill, waiting } from "../parts.js";
import { table } from "../table.js";

const HEALTH = { Stable: "good", Empty: "off", Dead: "off" };

export const title = (alias, group) => `${group} on ${alias}`;
export const json = (alias, group) => url("api", "clusters", alias, "group", { name: group });

export async function show(root, [alias, group], signal) {
  const body = h("div", { role: "status" }, `Looking at ${alias}…`);
  const state = h("span");
  replace(root, crumbs(["Clusters", "#/clusters"], [alias, path("clusters", alias)], [group]), h("h1", null, group, " ", state), body);
  const found = await waiting(body, get(json(alias, group), signal));
  const members = table(`Members of ${group}`, [
    { title: "Client", wide: true, cell: (m) => m.client_id },
    { title: "Host", tight: true, cell: (m) => m.host },
    { title: "Partitions", wide: true, cell: (m) => m.partitions.join(", ") || "none" },
    { title: "Member", wide: true, cell: (m) => h("code", null, m.id) },
  ]);
  const offsets = table(`Offsets of ${group}`, [
    { title: "Topic", wide: true, cell: (o) => link(path("clusters", alias, "topics", o.topic), o.topic) },
    { title: "Partition", number: true, cell: (o) => o.partition },
    { title: "Committed", number: true, cell: (o) => count(o.committed) },
    { title: "End", number: true, cell: (o) => count(o.end) },
    { title: "Lag", number: true, cell: (o) => count(o.lag) },
  ]);
  members.fill(found.members, "Nobody is in it.");
  offsets.fill(found.offsets, "It has committed nothing.");
  replace(state, pill(HEALTH[found.state] ?? "warning", found.state));
  const lags = found.offsets.map((o) => o.lag);
  replace(body,
    h("dl", { class: "figures" },
      figure("Members", count(found.members.length)),
      figure("Partitions", count(found.offsets.length)),
      figure("Lag", count(lags.includes(null) ? null : lags.reduce((all, lag) => all + lag, 0)), "records")),
    h("h2", null, "Members"), members.element, h("h2", null, "Offsets"), offsets.element);
}
