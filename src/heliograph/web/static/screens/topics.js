// The topics of a flow, page by page: how far each is, and whether its settings are still those of the source.

import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { bytes, count } from "../format.js";
import { every, follow } from "../live.js";
import { flowHead, lastVerify, pill } from "../parts.js";
import { pagedTable } from "../table.js";

const REFRESH = 2000;
const COMPARE = 60000;

export const title = (flow) => `Topics of ${flow}`;
export const json = (flow) => url("api", "flows", flow, "topics");

export async function show(root, [flow], signal, query) {
  const target = flow.split("->")[1];
  const verify = h("span");
  const drift = { found: null, topics: {} };
  const troubles = h("div", { role: "status" });
  const topics = pagedTable(signal, {
    caption: `topics of ${flow}`, address: ["api", "flows", flow, "topics"], field: "topics", sort: "topic", asked: query,
    columns: [
      { title: "Topic", sort: "topic", wide: true, cell: (t) => link(path("flows", flow, "topics", t.topic), t.topic) },
      { title: `On ${target}`, wide: true, cell: (t) => link(path("clusters", target, "topics", t.remote_topic), t.remote_topic) },
      { title: "Partitions", number: true, cell: (t) => count(t.partitions) },
      { title: "Records", number: true, sort: "records", falls: true, cell: (t) => count(t.records) },
      { title: "Bytes", number: true, sort: "bytes", falls: true, cell: (t) => bytes(t.bytes) },
      { title: "Lag", number: true, sort: "lag", falls: true, cell: (t) => count(t.lag) },
      { title: "Stopped", number: true, cell: (t) => (t.stopped ? pill("bad", count(t.stopped)) : t.open_transactions ? pill("warning", `${count(t.open_transactions)} waiting`) : "0") },
      { title: "Settings that differ", number: true, cell: (t) => differing(flow, t.topic, drift) },
    ],
  });
  replace(root, flowHead(flow, "topics"), h("h1", null, `Topics of ${flow}`),
    h("p", { class: "faint" }, "Records and bytes are those since the start. Last verify of the flow: ", verify, ". ", link("#/reports", "Reports")), troubles, topics.element);

  let told = "";
  follow("overview", signal, (overview) => {
    const now = lastVerify(overview.flows.find((f) => f.flow === flow)?.last_verify);
    const text = h("span", null, now).textContent;
    if (text !== told) replace(verify, now);
    told = text;
  });

  async function compare() {
    try {
      Object.assign(drift, await get(url("api", "flows", flow, "drift"), signal), { found: true });
      replace(troubles, drift.troubles.map((sentence) => h("p", { class: "notice" }, sentence)));
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(troubles, h("p", { class: "notice" }, `Settings could not be compared: ${error.message}`));
    }
    if (!signal.aborted) await topics.load();
  }

  await topics.load();
  every(REFRESH, signal, () => topics.load());
  every(COMPARE, signal, compare);
  await compare();
}

function differing(flow, topic, drift) {
  if (!drift.found) return "…";
  const names = (drift.topics[topic] ?? []).map((c) => c.name);
  return names.length ? h("a", { href: path("flows", flow, "topics", topic), title: names.join(", ") }, count(names.length), h("span", { class: "unseen" }, ` ${names.join(", ")}`)) : "0";
}
