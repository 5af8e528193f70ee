// What to look at: of which flow or cluster, which topic and partition, and from where.

import { get, url } from "./api.js";
import { h, replace } from "./dom.js";
import { alarm } from "./parts.js";

const FROM = [["last", "the last"], ["offset", "an offset"], ["time", "a time"]];
const LAST = 25;

export function makeForm(query, signal, look) {
  const where = h("select", { required: true, "aria-label": "Of" });
  const names = h("datalist", { id: "topic-names" });
  const topic = h("input", { type: "text", required: true, list: names.id, autocomplete: "off", spellcheck: "false", value: query.get("topic") ?? "", oninput: suggest });
  const partition = h("input", { type: "number", min: 0, step: 1, required: true, value: query.get("partition") ?? 0 });
  const from = h("select", { "aria-label": "From", onchange: weigh }, FROM.map(([value, text]) => h("option", { value }, text)));
  const offset = h("input", { type: "number", min: 0, step: 1, value: query.get("offset") ?? 0 });
  const time = h("input", { type: "datetime-local", step: 1, value: local(Number(query.get("time_ms")) || Date.now() - 600000) });
  const fields = { offset: h("label", null, "Offset", offset), time: h("label", null, "Time, UTC", time) };
  const troubles = h("div");
  const element = h("form", { class: "sheet", onsubmit: submit },
    h("div", { class: "bar" }, h("label", null, "Of", where), h("label", { class: "wide" }, "Topic", topic), names, h("label", null, "Partition", partition),
      h("label", null, "From", from), fields.offset, fields.time, h("button", { type: "submit", class: "main" }, "Show")), troubles);
  let waiting;
  from.value = FROM.some(([value]) => value === query.get("from")) ? query.get("from") : "last";
  weigh();

  function weigh() {
    for (const [name, field] of Object.entries(fields)) field.hidden = from.value !== name;
  }

  function submit(event) {
    event.preventDefault();
    replace(troubles);
    if (from.value === "time" && Number.isNaN(moment())) replace(troubles, alarm("Give the time as a date and a time of day."));
    else look(asked());
  }

  function moment() {
    return Date.parse(`${time.value}Z`);
  }

  function asked() {
    const [kind, name] = [where.value.slice(0, 1), where.value.slice(1)];
    return {
      flow: kind === "f" ? name : null,
      cluster: kind === "c" ? name : null,
      topic: topic.value,
      partition: partition.value,
      from: from.value,
      offset: from.value === "offset" ? offset.value || 0 : null,
      time_ms: from.value === "time" ? moment() : null,
      last: from.value === "last" ? LAST : null,
    };
  }

  function offer(overview) {
    replace(where,
      h("optgroup", { label: "Both sides of a flow" }, overview.flows.map((f) => h("option", { value: `f${f.flow}` }, f.flow))),
      h("optgroup", { label: "One cluster" }, overview.clusters.map((c) => h("option", { value: `c${c.alias}` }, c.alias))));
    if (query.get("cluster")) where.value = `c${query.get("cluster")}`;
    else if (query.get("flow")) where.value = `f${query.get("flow")}`;
  }

  function suggest() {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const [kind, name] = [where.value.slice(0, 1), where.value.slice(1)];
      try {
        const found = await get(url("api", kind === "f" ? "flows" : "clusters", name, "topics", { search: topic.value, limit: 20, internal: kind === "c" ? true : null }), signal);
        replace(names, found.topics.map((t) => h("option", { value: t.topic })));
      } catch {
        // It is only a help with typing.
      }
    }, 250);
  }

  function set(values) {
    from.value = values.from;
    offset.value = values.offset;
    weigh();
  }

  return { element, asked, offer, set };
}

function local(ms) {
  return new Date(ms).toISOString().slice(0, 19);
}
