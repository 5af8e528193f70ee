// One flow: what it does now, what it did in the last quarter of an hour, and the switches.

import { get, send, url } from "../api.js";
import { chart } from "../chart.js";
import { h, link, path, replace, swap } from "../dom.js";
import { ago, bytes, count, millis, rate, seconds, short } from "../format.js";
import { every, follow } from "../live.js";
import { may } from "../me.js";
import { action, alarm, figure, flowHead, pill, stateOf } from "../parts.js";
import { table } from "../table.js";
import { log } from "./events.js";

const SHOWN = 900;
const KEPT = 1000;
const COLUMNS = ["time", "rate", "lag", "lag_seconds", "rpo_seconds", "p50_ms", "p99_ms"];

export const title = (flow) => flow;
export const json = (flow) => url("api", "flows", flow);

export async function show(root, [flow], signal) {
  const state = h("span");
  const reason = h("div");
  const figures = h("dl", { class: "figures" });
  const told = h("span", { role: "status", class: "faint" });
  const buttons = h("div", { class: "bar" });
  const charts = makeCharts(signal);
  const details = h("div");
  replace(root, flowHead(flow, ""), h("h1", null, flow, " ", state), reason, buttons, figures,
    h("div", { class: "charts" }, charts.map((c) => c.chart.element)), details, h("h2", null, "Events"), await log(signal, flow));

  const past = await get(url("api", "flows", flow, "history", { seconds: SHOWN }), signal);
  let switches = "";
  follow("overview", signal, (overview) => {
    const now = overview.flows.find((f) => f.flow === flow);
    if (!now) {
      replace(reason, alarm(`${flow} is no longer copied by this process.`));
      return;
    }
    replace(state, pill(now.health, stateOf(now)));
    replace(reason, now.reason ? h("p", { class: now.health === "bad" ? "alarm" : "notice" }, now.reason) : null);
    replace(figures, FIGURES.map(([name, value, note]) => figure(name, value(now), note?.(now))));
    if (now.connector + now.state !== switches) {
      switches = now.connector + now.state;
      swap(buttons, may("operate") && now.connector ? makeButtons(now, told) : null, told);
    }
    append(past, now, overview.time_ms / 1000);
    for (const { chart: drawn, fields } of charts) drawn.set([past.time, ...fields.map((field) => past[field])]);
  });
  await showDetails(details, flow, signal);
  every(5000, signal, () => showDetails(details, flow, signal).catch(() => {})); // the stream tells of a lost connection
}

const FIGURES = [
  ["Records", (f) => rate(f.rate), (f) => `${short(f.records)} since the start`],
  ["Bytes", (f) => `${bytes(f.byte_rate)}/s`, (f) => `${bytes(f.bytes)} since the start`],
  ["Lag in records", (f) => short(f.lag), (f) => `oldest ${seconds(f.lag_seconds)}`],
  ["RPO now", (f) => seconds(f.rpo_seconds), () => "what a loss of the source would cost"],
  ["RPO worst", (f) => seconds(f.rpo_worst_seconds), () => "of the last 24 hours"],
  ["Latency p50", (f) => millis(f.p50_ms), () => "of the last minute"],
  ["Latency p99", (f) => millis(f.p99_ms), () => "of the last minute"],
  ["Topics", (f) => count(f.topics), (f) => `${count(f.partitions)} partitions, ${count(f.stopped)} stopped`],
  ["Consumer groups", (f) => count(f.groups), (f) => `${count(f.groups_skipped)} not moved`],
  ["Last verify", (f) => (f.last_verify ? { true: "equal", false: "NOT equal", null: "unclear" }[f.last_verify.ok] : "never"), (f) => f.last_verify && ago(f.last_verify.at_ms)],
  ["Last drill", (f) => (f.last_drill ? (f.last_drill.ok ? "passed" : "FAILED") : "never"), (f) => f.last_drill && `${ago(f.last_drill.at_ms)}, RTO ${seconds(f.last_drill.rto_seconds)}`],
];

function makeButtons(flow, told) {
  const put = (verb) => () => send("PUT", url("connectors", flow.connector, verb));
  const rests = flow.state === "PAUSED" || flow.state === "STOPPED";
  return [
    rests ? action("Resume", put("resume"), told, "main") : action("Pause", put("pause"), told),
    action("Restart", () => send("POST", url("connectors", flow.connector, "restart", { includeTasks: true })), told),
    link(path("connectors", flow.connector), "Connector"),
  ];
}

function makeCharts(signal) {
  return [
    { chart: chart(signal, "Records per second", [{ label: "records/s", color: "--accent" }], (v) => short(v)), fields: ["rate"] },
    { chart: chart(signal, "Lag in records", [{ label: "records", color: "--accent" }], (v) => short(v)), fields: ["lag"] },
    { chart: chart(signal, "Lag and RPO in time", [{ label: "lag", color: "--accent" }, { label: "RPO", color: "--second" }], (v) => seconds(v)), fields: ["lag_seconds", "rpo_seconds"] },
    { chart: chart(signal, "Latency of the last minute", [{ label: "p50", color: "--accent" }, { label: "p99", color: "--second" }], (v) => millis(v)), fields: ["p50_ms", "p99_ms"] },
  ];
}

function append(past, now, time) {
  if (past.time.length && time <= past.time.at(-1)) return;
  for (const name of COLUMNS) {
    past[name].push(name === "time" ? time : now[name]);
    if (past[name].length > KEPT) past[name].splice(0, past[name].length - KEPT);
  }
}

async function showDetails(details, flow, signal) {
  const now = await get(url("api", "flows", flow), signal);
  const stopped = Object.entries(now.stopped);
  const chores = table("Chores", [
    { title: "Chore", cell: (c) => c.name },
    { title: "Done", number: true, cell: (c) => count(c.runs) },
    { title: "Took", number: true, cell: (c) => seconds(c.seconds) },
    { title: "Troubles", cell: (c) => (c.troubles.length ? c.troubles.join(" ") : "none") },
  ]);
  chores.fill(now.chores);
  replace(details,
    now.waiting.length ? [h("h2", null, "What the flow waits for"), h("ul", null, now.waiting.slice(0, 50).map((why) => h("li", null, why)))] : null,
    stopped.length ? [h("h2", null, "Partitions that are stopped"), h("ul", null, stopped.slice(0, 50).map(([p, why]) => h("li", null, h("strong", null, p), ": ", why)))] : null,
    now.refused.length ? [h("h2", null, "Topics that are not mirrored"), h("ul", null, now.refused.slice(0, 50).map((why) => h("li", null, why)))] : null,
    h("h2", null, "Chores"), chores.element);
}
