// Records as they are shown: whatever they hold is text.

import { h } from "./dom.js";
import { bytes, count, time } from "./format.js";

export function record(its) {
  return h("article", { class: "message" },
    h("p", { class: "mono" }, h("strong", null, `offset ${count(its.offset)}`), " ", h("time", { class: "faint" }, `${time(its.timestamp_ms)} UTC`)),
    its.decoded ? decoded(its.decoded) : [shown("key", its.key), shown("value", its.value)],
    headers(its),
    its.decoded ? h("details", null, h("summary", null, "bytes"), shown("key", its.key), shown("value", its.value)) : null);
}

function shown(name, its) {
  if (its === null) return h("p", { class: "faint" }, `${name}: null`);
  return [
    h("p", { class: "faint" }, name, marks(its)),
    h("pre", null, its.text),
  ];
}

function marks(its) {
  return `, ${bytes(its.size)}${its.encoding === "hex" ? ", in hex" : ""}${its.cut ? ", cut: only its beginning is shown" : ""}`;
}

function headers(its) {
  if (!its.headers.length) return null;
  const more = (its.header_count ?? its.headers.length) - its.headers.length;
  return h("table", { class: "small" }, h("caption", null, "headers"),
    h("tbody", null,
      its.headers.map((header) => h("tr", null, h("th", { scope: "row" }, header.name),
        h("td", null, header.value === null ? h("span", { class: "faint" }, "null") : [h("span", { class: "mono" }, header.value.text), header.value.encoding === "hex" || header.value.cut ? h("span", { class: "faint" }, marks(header.value)) : null]))),
      more > 0 ? h("tr", null, h("td", { colspan: 2, class: "faint" }, `${count(more)} more`)) : null));
}

function decoded(plain) {
  const { kind, ...fields } = plain;
  return h("table", { class: "small facts" }, h("caption", null, kind),
    h("tbody", null, Object.entries(fields).map(([name, value]) =>
      h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "mono" }, name.endsWith("_ms") ? `${time(value)} UTC` : String(value))))));
}

// Source and target records as pairs, in order; one without a partner stands alone: [source or null, target or null].
export function pair(source, target, placeOf) {
  const pairs = [];
  let next = 0;
  for (const its of source) {
    const at = placeOf(its.offset);
    const index = at === null ? -1 : target.findIndex((t, i) => i >= next && t.offset === at);
    if (index < 0) {
      pairs.push([its, null]);
      continue;
    }
    for (; next < index; next += 1) pairs.push([null, target[next]]);
    pairs.push([its, target[index]]);
    next = index + 1;
  }
  return [...pairs, ...target.slice(next).map((its) => [null, its])];
}

// Where an offset is on the target: as the run map says; before the runs that are known, as `first` went.
export function placer(runs, first) {
  return (offset) => {
    const run = runs.find((r) => r.upstream <= offset && offset < r.upstream + r.length);
    if (run) return run.downstream + offset - run.upstream;
    const older = !runs.length || offset < Math.min(...runs.map((r) => r.upstream));
    return older && first ? first.downstream + offset - first.upstream : null;
  };
}

export function differ(one, other) {
  const body = (its) => JSON.stringify([its.key, its.value, its.headers]);
  return body(one) !== body(other);
}
