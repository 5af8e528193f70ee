// One connector: its state and that of its tasks, why one failed, its switches, config and offsets.

import { get, send, url } from "../api.js";
import { h, replace, swap } from "../dom.js";
import { every } from "../live.js";
import { may } from "../me.js";
import { action, alarm, crumbs, statePill } from "../parts.js";
import { table } from "../table.js";

const REFRESH = 2000;

export const title = (name) => name;
export const json = (name) => url("connectors", name, "status");

export async function show(root, [name], signal) {
  const state = h("span");
  const worker = h("p", { class: "faint" });
  const told = h("span", { role: "status", class: "faint" });
  const buttons = h("div", { class: "bar" });
  const traces = h("div");
  const troubles = h("div", { role: "status" });
  const tasks = table(`Tasks of ${name}`, columns(name, told, () => load()));
  replace(root, crumbs(["Connectors", "#/connectors"], [name]), h("h1", null, name, " ", state), troubles, worker, buttons,
    h("h2", null, "Tasks"), tasks.element, traces, h("h2", null, "Config"), h("div", null, await config(name, signal)), offsets(name, signal));
  let shown = "";

  async function load() {
    const now = await get(url("connectors", name, "status"), signal);
    replace(troubles);
    replace(worker, `Runs on ${now.connector.worker_id}.`);
    tasks.fill(now.tasks, "It has no task.");
    const failed = [["The connector", now.connector], ...now.tasks.map((t) => [`Task ${t.id}`, t])].filter(([, its]) => its.trace);
    const standing = JSON.stringify([now.connector.state, failed.map(([who, its]) => [who, its.trace])]);
    if (standing === shown) return;
    shown = standing;
    replace(state, statePill(now.connector.state));
    swap(buttons, may("operate") ? switches(name, now.connector.state, told, load) : null, told);
    replace(traces, failed.map(([who, its]) => h("details", { class: "fold", open: true }, h("summary", null, `${who}: trace`), h("pre", null, its.trace))));
  }

  await load();
  every(REFRESH, signal, () => load().catch((error) => error.name === "AbortError" || replace(troubles, alarm(error.message))));
}

function switches(name, state, told, load) {
  const ask = (method, ...rest) => async () => {
    await send(method, url("connectors", name, ...rest));
    await load();
  };
  const rests = state === "PAUSED" || state === "STOPPED";
  return [
    rests ? action("Resume", ask("PUT", "resume"), told, "main") : action("Pause", ask("PUT", "pause"), told),
    state === "STOPPED" ? null : action("Stop", ask("PUT", "stop"), told),
    action("Restart all", ask("POST", "restart", { includeTasks: true }), told),
    action("Restart what failed", ask("POST", "restart", { includeTasks: true, onlyFailed: true }), told),
  ];
}

function columns(name, told, load) {
  const all = [
    { title: "Task", tight: true, cell: (t) => t.id },
    { title: "State", cell: (t) => statePill(t.state) },
    { title: "Worker", tight: true, cell: (t) => t.worker_id },
  ];
  const restart = { title: "", tight: true, cell: (t) => action(`Restart task ${t.id}`, async () => {
    await send("POST", url("connectors", name, "tasks", t.id, "restart"));
    await load();
  }, told) };
  return may("operate") ? [...all, restart] : all;
}

async function config(name, signal) {
  const found = await get(url("connectors", name), signal);
  const settings = table(`Config of ${name}`, [
    { title: "Setting", wide: true, cell: ([key]) => h("code", null, key) },
    { title: "Value", wide: true, cell: ([, value]) => h("code", null, value) },
  ]);
  settings.fill(Object.entries(found.config).sort(([a], [b]) => (a < b ? -1 : 1)));
  return settings.element;
}

// Asked for only when somebody unfolds them: there may be thousands.
function offsets(name, signal) {
  const body = h("div", { role: "status" });
  const fold = h("details", { class: "fold", ontoggle: open }, h("summary", null, "Offsets"), body);
  return fold;

  async function open() {
    if (!fold.open) return;
    replace(body, "Reading…");
    try {
      const found = await get(url("connectors", name, "offsets"), signal);
      const shown = table(`Offsets of ${name}`, [
        { title: "Of", cell: (o) => words(o.partition) },
        { title: "Offset", cell: (o) => words(o.offset) },
      ]);
      shown.element.classList.add("tall");
      shown.fill(found.offsets.slice(0, 1000), "It has no offsets.");
      replace(body, shown.element, found.offsets.length > 1000 ? h("p", { class: "faint" }, `The first 1,000 of ${found.offsets.length}.`) : null);
    } catch (error) {
      if (error.name !== "AbortError") replace(body, alarm(error.message));
    }
  }
}

function words(plain) {
  return plain === null ? "none" : Object.entries(plain).map(([key, value]) => `${key} ${value}`).join(", ");
}
