// One cluster: brokers, topics, consumer groups.

import { remember } from "../address.js";
import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count } from "../format.js";
import { alarm, crumbs, figure, pill } from "../parts.js";
import { pagedTable, table } from "../table.js";

export const title = (alias) => `Cluster ${alias}`;
export const json = (alias) => url("api", "clusters", alias);

export async function show(root, [alias], signal, query) {
  const about = h("div", { role: "status" }, `Looking at ${alias}…`);
  const internal = h("input", { type: "checkbox", checked: query.has("internal"), onchange: () => {
    remember({ internal: internal.checked ? "1" : "" });
    topics.load({ internal: internal.checked, offset: 0 });
  } });
  const topics = pagedTable(signal, {
    caption: `topics of ${alias}`, address: ["api", "clusters", alias, "topics"], field: "topics", asked: query,
    extra: { internal: internal.checked }, controls: h("label", null, internal, "internal ones too"),
    columns: [
      { title: "Topic", wide: true, cell: (t) => [link(path("clusters", alias, "topics", t.topic), t.topic), t.internal && [" ", pill("off", "internal")]] },
      { title: "Partitions", number: true, cell: (t) => count(t.partitions) },
      { title: "Replicas", number: true, cell: (t) => count(t.replication_factor) },
      { title: "Under-replicated", number: true, cell: (t) => (t.under_replicated ? pill("bad", count(t.under_replicated)) : "0") },
    ],
  });
  const groups = pagedTable(signal, {
    caption: `consumer groups of ${alias}`, address: ["api", "clusters", alias, "groups"], field: "groups", asked: query, prefix: "group-",
    columns: [
      { title: "Group", wide: true, cell: (g) => link(path("clusters", alias, "groups", g.group), g.group) },
      { title: "State", tight: true, cell: (g) => g.state },
      { title: "Type", tight: true, cell: (g) => g.type },
    ],
  });
  replace(root, crumbs(["Clusters", "#/clusters"], [alias]), h("h1", null, `Cluster ${alias}`), about,
    h("h2", null, "Topics"), topics.element, h("h2", null, "Consumer groups"), groups.element);
  await Promise.all([showAbout(about, alias, signal), topics.load(), groups.load()]);
}

async function showAbout(into, alias, signal) {
  try {
    const found = await get(url("api", "clusters", alias), signal);
    const brokers = table(`Brokers of ${alias}`, [
      { title: "Broker", tight: true, cell: (b) => b.id },
      { title: "Address", wide: true, cell: (b) => h("code", null, `${b.host}:${b.port}`) },
      { title: "Rack", cell: (b) => b.rack ?? "–" },
      { title: "Leads", number: true, cell: (b) => count(b.leaders) },
      { title: "Replicas", number: true, cell: (b) => count(b.replicas) },
      { title: "", cell: (b) => (b.id === found.controller ? pill("good", "controller") : null) },
    ]);
    brokers.fill(found.brokers);
    replace(into,
      h("dl", { class: "figures" },
        figure("Brokers", count(found.brokers.length), `controller ${found.controller}`),
        figure("Topics", count(found.topics), "internal ones too"),
        figure("Partitions", count(found.partitions)),
        figure("Under-replicated", count(found.under_replicated), "partitions"),
        figure("Offline", count(found.offline), "partitions")),
      h("p", { class: "faint" }, "Cluster id ", h("code", null, found.id)),
      h("h2", null, "Brokers"), brokers.element);
  } catch (error) {
    if (error.name !== "AbortError") replace(into, alarm(error.message));
  }
}
