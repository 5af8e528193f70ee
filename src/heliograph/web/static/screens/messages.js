// Messages: a partition of a flow on both sides next to each other, or of one cluster alone.

import { remember } from "../address.js";
import { get, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count } from "../format.js";
import { follow } from "../live.js";
import { may } from "../me.js";
import { alarm, setJson } from "../parts.js";
import { differ, pair, placer, record } from "../records.js";
import { makeForm } from "../message-form.js";

const LIMIT = 25;

export const title = () => "Messages";
export const json = () => "/api/clusters";

export async function show(root, _names, signal, query) {
  replace(root, h("h1", null, "Messages"));
  if (!may("operate")) {
    root.append(h("p", null, "To read messages needs the role operate."));
    return;
  }
  const status = h("p", { role: "status", class: "faint" });
  const found = h("div");
  const internal = h("p", { class: "faint" });
  const form = makeForm(query, signal, look);
  root.append(form.element, internal, status, found);
  const known = await new Promise((there) => follow("overview", signal, there));
  form.offer(known);
  replace(internal, known.flows.length ? ["Internal topics: ", internals(known.flows)] : null);
  if (query.get("topic")) await look(form.asked());

  async function look(asked) {
    remember({ ...asked, last: null });
    status.textContent = "Reading…";
    replace(found);
    try {
      const shown = asked.flow ? await readBoth(asked, signal) : { main: await read(asked.cluster, asked, signal) };
      setJson(shown.main.address);
      replace(found, turn(shown.main, move), (shown.main.troubles ?? []).map((sentence) => h("p", { class: "notice" }, sentence)),
        asked.flow ? sides(asked.flow, shown) : h("div", { class: "sheet" }, list(shown.main)), shown.main.records.length > 5 ? turn(shown.main, move) : null);
      status.textContent = `${asked.topic}-${asked.partition}: offsets ${count(shown.main.start)} to ${count(shown.main.end)}; ${count(shown.main.records.length)} records are shown.`;
    } catch (error) {
      if (error.name === "AbortError") return;
      status.textContent = "";
      replace(found, alarm(error.message));
    }
  }

  async function move(offset) {
    form.set({ from: "offset", offset });
    await look(form.asked());
  }
}

function turn(shown, move) {
  const first = shown.records[0]?.offset ?? shown.end;
  return h("div", { class: "bar" },
    h("button", { type: "button", disabled: first <= shown.start, onclick: () => move(Math.max(first - LIMIT, shown.start)) }, "Earlier"),
    h("button", { type: "button", disabled: shown.next_offset >= shown.end, onclick: () => move(shown.next_offset) }, "Later"));
}

async function read(cluster, { topic, partition, offset, time_ms, last }, signal) {
  const address = url("api", "clusters", cluster, "messages", { topic, partition, offset, time_ms, last, limit: LIMIT });
  return { cluster, address, ...(await get(address, signal)) };
}

async function readBoth(asked, signal) {
  const [source, target] = asked.flow.split("->");
  const main = await read(source, asked, signal);
  const upstream = main.records[0]?.offset ?? main.next_offset;
  const place = { topic: asked.topic, partition: asked.partition };
  try {
    const [translated, map] = await Promise.all([
      get(url("api", "flows", asked.flow, "translate", { ...place, offset: upstream }), signal),
      get(url("api", "flows", asked.flow, "topics", asked.topic, "runs", { partition: asked.partition }), signal),
    ]);
    const first = translated.offset === null ? null : { upstream, downstream: translated.offset };
    const from = first ? { offset: first.downstream } : asked.from === "offset" ? null : { time_ms: asked.time_ms, last: asked.last };
    const other = from && (await read(target, { topic: translated.remote_topic, partition: translated.partition, ...from }, signal));
    const told = first ? null : `${target} does not tell where offset ${count(upstream)} went: it is not copied yet, or its run is gone.`;
    return { main, other, told, placeOf: placer(map.runs, first) };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { main, other: null, told: error.message, placeOf: () => null };
  }
}

function sides(flow, { main, other, told, placeOf }) {
  const [source, target] = flow.split("->");
  const pairs = pair(main.records, other?.records ?? [], placeOf);
  const mark = (a, b) => (a && b && differ(a, b) ? h("p", { class: "bad-text" }, "It differs from what the other side holds.") : null);
  const side = (its, beside, name) => h("div", { class: its ? "sheet" : "sheet gap" }, h("p", { class: "side" }, name), its ? [mark(its, beside), record(its)] : h("p", { class: "faint" }, "no such record here"));
  return [
    told && h("p", { class: "notice" }, told),
    h("div", { class: "sides heads" }, h("h2", null, `${source}: ${main.topic}-${main.partition}`), h("h2", null, other ? `${target}: ${other.topic}-${other.partition}` : target)),
    pairs.length ? pairs.map(([a, b]) => h("div", { class: "sides" }, side(a, b, source), side(b, a, target))) : h("p", { class: "faint" }, "There is no record from there on."),
  ];
}

function list(shown) {
  return shown.records.length ? shown.records.map(record) : h("p", { class: "faint" }, "There is no record from there on.");
}

function internals(flows) {
  const topics = flows.flatMap((f) => [[f.source, `mm2-offset-syncs.${f.target}.internal`], [f.target, `${f.source}.checkpoints.internal`], [f.target, "heartbeats"]]);
  const once = [...new Map(topics.map((place) => [place.join(" "), place])).values()];
  return once.map(([cluster, topic], i) => [i ? " · " : "", link(path("messages", { cluster, topic, partition: 0, from: "last" }), `${topic} on ${cluster}`)]);
}
