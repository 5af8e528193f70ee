// What this process said of late, as it says it.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { follow } from "../live.js";

const KEPT = 200;

export const title = () => "Events";
export const json = () => "/api/events";

export async function show(root, _names, signal) {
  replace(root, h("h1", null, "Events"), await log(signal));
}

// The newest first; only those that name `word`, if it is given.
export async function log(signal, word = "") {
  const list = h("ol", { class: "log", reversed: true });
  let last = 0;
  const add = (event) => {
    if (event.number <= last) return; // what was read at first comes again with the stream
    last = event.number;
    if (!event.message.includes(word)) return;
    list.prepend(line(event));
    while (list.childElementCount > KEPT) list.lastElementChild.remove();
  };
  (await get("/api/events", signal)).forEach(add);
  follow("log", signal, add);
  return h("div", { class: "sheet" }, list);
}

function line(event) {
  const time = event.time.slice(11, 19);
  return h("li", null, h("time", { datetime: event.time }, time), h("span", { class: event.level }, event.level), h("span", null, event.message));
}
