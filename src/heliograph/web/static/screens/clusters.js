// The clusters that the flows of this process name.

import { get } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { follow } from "../live.js";
import { pill } from "../parts.js";
import { table } from "../table.js";

export const title = () => "Clusters";
export const json = () => "/api/clusters";

export async function show(root, _names, signal) {
  const health = new Map();
  const clusters = table("Clusters", [
    { title: "Cluster", cell: (c) => link(path("clusters", c.alias), c.alias) },
    { title: "Health", cell: (c) => standing(health.get(c.alias)) },
    { title: "Bootstrap servers", wide: true, cell: (c) => h("code", null, c.bootstrap_servers) },
    { title: "Flows", cell: (c) => c.flows.map((flow, i) => [i ? ", " : "", link(path("flows", flow), flow)]) },
  ]);
  replace(root, h("h1", null, "Clusters"), clusters.element);
  const found = await get("/api/clusters", signal);
  clusters.fill(found, "No flow of this process names a cluster.");
  follow("overview", signal, (overview) => {
    for (const cluster of overview.clusters) health.set(cluster.alias, cluster);
    clusters.fill(found, "No flow of this process names a cluster.");
  });
}

const WORDS = { good: "answers", bad: "does not answer", off: "nobody asks it now" };

function standing(cluster) {
  if (!cluster) return "…";
  return [pill(cluster.health, WORDS[cluster.health]), cluster.reason ? h("span", { class: "faint" }, ` ${cluster.reason}`) : null];
}
