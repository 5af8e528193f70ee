// The connectors of this worker and of its cluster, in Kafka Connect's terms.

import { get } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { every } from "../live.js";
import { alarm, pill, statePill } from "../parts.js";
import { table } from "../table.js";

const REFRESH = 2000;
const ADDRESS = "/connectors?expand=info&expand=status";

export const title = () => "Connectors";
export const json = () => ADDRESS;

export async function show(root, _names, signal) {
  const troubles = h("div", { role: "status" });
  const connectors = table("Connectors", COLUMNS);
  replace(root, h("h1", null, "Connectors"), troubles, connectors.element);

  async function load() {
    const found = await get(ADDRESS, signal);
    replace(troubles);
    connectors.fill(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, its]) => ({ name, ...its })), "There is no connector.");
  }

  await load();
  every(REFRESH, signal, () => load().catch((error) => error.name === "AbortError" || replace(troubles, alarm(error.message))));
}

const COLUMNS = [
  { title: "Connector", tight: true, cell: (c) => link(path("connectors", c.name), c.name) },
  { title: "Class", tight: true, cell: (c) => h("span", { title: c.info.config["connector.class"] }, (c.info.config["connector.class"] ?? "").split(".").at(-1)) },
  { title: "Flow", tight: true, cell: (c) => flowOf(c.info.config) },
  { title: "State", cell: (c) => statePill(c.status.connector.state) },
  { title: "Tasks", tight: true, cell: (c) => tasks(c.status.tasks) },
  { title: "Worker", tight: true, cell: (c) => c.status.connector.worker_id },
];

function flowOf(config) {
  const [source, target] = [config["source.cluster.alias"], config["target.cluster.alias"]];
  return source && target ? link(path("flows", `${source}->${target}`), `${source}->${target}`) : "";
}

function tasks(all) {
  const failed = all.filter((t) => t.state === "FAILED").length;
  const running = all.filter((t) => t.state === "RUNNING").length;
  return [`${running} of ${all.length} run `, failed ? pill("bad", `${failed} failed`) : null];
}
