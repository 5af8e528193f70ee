// One topic of a flow: its partitions on both sides, and where each offset went.

import { remember } from "../address.js";
import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count, seconds } from "../format.js";
import { every } from "../live.js";
import { may } from "../me.js";
import { alarm, differences, flowHead, waiting } from "../parts.js";
import { table } from "../table.js";

const REFRESH = 5000;
const RUNS_EVERY = 6; // looks: to count runs the server reads all of them
const BEFORE = 20; // records that the link to messages begins before the end of what is copied

export const title = (flow, topic) => `${topic} of ${flow}`;
export const json = (flow, topic) => url("api", "flows", flow, "topics", topic);

export async function show(root, [flow, topic], signal, query) {
  const [source, target] = flow.split("->");
  const where = h("p", { class: "faint" });
  const troubles = h("div", { role: "status" });
  const configs = h("div");
  const partitions = table(`Partitions of ${topic}`, columns(flow, topic, source, target));
  const map = runMap(flow, topic, signal);
  replace(root, flowHead(flow, "topics"), h("h1", null, topic), where, troubles, partitions.element,
    h("h2", null, "Settings that differ"), configs, map.element);

  let looks = 0;
  let last = { partitions: [], troubles: [] };

  async function load() {
    const whole = looks++ % RUNS_EVERY === 0;
    const found = await get(url("api", "flows", flow, "topics", topic, whole ? null : { runs: false }), signal);
    if (whole) last = found;
    else fillIn(found, last);
    replace(where, "On ", source, ": ", link(path("clusters", source, "topics", topic), topic), ". On ", target, ": ", link(path("clusters", target, "topics", found.remote_topic), found.remote_topic), ".");
    replace(troubles, found.troubles.map((sentence) => h("p", { class: "notice" }, sentence)));
    partitions.fill(found.partitions);
    replace(configs, found.configs.length ? differences(found.configs) : h("p", { class: "faint" }, "None that is meant to be the same."));
    return found;
  }

  replace(where, "Looking at both clusters…");
  const found = await waiting(where, load());
  every(REFRESH, signal, () => load().catch((error) => error.name === "AbortError" || replace(troubles, alarm(error.message))));
  map.offer(found.partitions.map((p) => p.partition));
  await map.choose(Number(query.get("partition")) || 0);
}

// What only run maps tell is taken from when they were last looked at.
function fillIn(found, last) {
  const before = new Map(last.partitions.map((p) => [p.partition, p]));
  for (const p of found.partitions) {
    const known = before.get(p.partition);
    for (const field of ["runs", "upstream", "downstream"]) p[field] ??= known?.[field] ?? null;
    if (p.lag === null && p.source_end !== null && p.upstream !== null) p.lag = Math.max(p.source_end - p.upstream, 0);
  }
  found.troubles = [...new Set([...found.troubles, ...last.troubles])];
}

function columns(flow, topic, source, target) {
  const at = (p) => Math.max(p.source_start ?? 0, p.upstream - BEFORE, 0);
  const all = [
    { title: "Partition", tight: true, cell: (p) => p.partition },
    { title: `${source} start`, number: true, cell: (p) => count(p.source_start) },
    { title: `${source} end`, number: true, cell: (p) => count(p.source_end) },
    { title: "Copied up to", number: true, cell: (p) => h("strong", null, count(p.upstream)) },
    { title: `which is on ${target}`, number: true, cell: (p) => h("strong", null, count(p.downstream)) },
    { title: `${target} start`, number: true, cell: (p) => count(p.target_start) },
    { title: `${target} end`, number: true, cell: (p) => count(p.target_end) },
    { title: "Lag", number: true, cell: (p) => count(p.lag) },
    { title: "Runs", number: true, cell: (p) => count(p.runs) },
    { title: "Stopped", wide: true, cell: stoppedBy },
  ];
  const messages = { title: "", tight: true, cell: (p) => link(path("messages", { flow, topic, partition: p.partition, from: "offset", offset: at(p) }), "Messages", h("span", { class: "unseen" }, ` of partition ${p.partition}`)) };
  return may("operate") ? [...all, messages] : all;
}

// Nothing behind a transaction that is open on the source is copied.
function stoppedBy(p) {
  if (p.stopped) return h("span", { class: "bad-text" }, p.stopped);
  const open = p.open_transaction;
  if (!open) return "no";
  const producer = open.producer_id === null ? "" : `, producer ${open.producer_id}${open.transactional_id === null ? "" : ` (${open.transactional_id})`}`;
  return `no, but waits for the end of a transaction: open from offset ${count(open.offset)} on for ${seconds(open.seconds)}${producer}`;
}

// Records u … u + length - 1 of the source are d … d + length - 1 of the target.
function runMap(flow, topic, signal) {
  const [source, target] = flow.split("->");
  const status = h("span", { role: "status", class: "faint" });
  const choice = h("select", { "aria-label": "Partition", onchange: () => choose(Number(choice.value)) });
  const runs = table("Run map, newest first", [
    { title: `First on ${source}`, number: true, cell: (r) => count(r.upstream) },
    { title: `First on ${target}`, number: true, cell: (r) => count(r.downstream) },
    { title: "Records", number: true, cell: (r) => count(r.length) },
    { title: "Difference", number: true, cell: (r) => count(r.downstream - r.upstream) },
  ]);
  runs.element.classList.add("tall");
  const element = h("section", null, h("h2", null, "Run map"),
    h("p", { class: "faint" }, "Where offsets went: within a run all differ by the same number."),
    h("div", { class: "bar" }, h("label", null, "Partition", choice), status), runs.element);

  function offer(partitions) {
    replace(choice, partitions.map((p) => h("option", { value: p }, p)));
  }

  async function choose(partition) {
    choice.value = partition;
    remember({ partition: partition || "" });
    status.textContent = "Reading…";
    try {
      const found = await get(url("api", "flows", flow, "topics", topic, "runs", { partition }), signal);
      runs.fill(found.runs, "No run is known of this partition.");
      status.textContent = found.total > found.runs.length ? `The newest ${count(found.runs.length)} of ${count(found.total)} runs.` : `${count(found.total)} runs.`;
    } catch (error) {
      if (error.name === "AbortError") return;
      runs.fill([], error.message);
      status.textContent = "";
    }
  }

  return { element, offer, choose };
}
