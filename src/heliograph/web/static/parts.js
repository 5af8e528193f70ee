// Small pieces that several screens show.

import { h, link, path, replace } from "./dom.js";
import { ago } from "./format.js";

export function pill(health, text) {
  return h("span", { class: `pill ${health}` }, text);
}

const STATES = { RUNNING: "good", FAILED: "bad", PAUSED: "off", STOPPED: "off", STARTING: "warning", UNASSIGNED: "warning", RESTARTING: "warning" };

// RUNNING alone would mislead where nothing gets through.
export function stateOf(flow) {
  if (flow.state !== "RUNNING") return flow.state;
  if (flow.waiting) return "WAITING";
  return flow.stopped ? `RUNNING, ${flow.stopped} stopped` : flow.state;
}

export function statePill(state) {
  return pill(STATES[state] ?? "off", state);
}

export function figure(title, value, note) {
  return h("div", { class: "figure" }, h("dt", null, title), h("dd", null, value), note && h("dd", { class: "faint" }, note));
}

export function alarm(message) {
  return h("p", { class: "alarm", role: "alert" }, message);
}

// What is said while one waits goes away again if nothing comes of it; the page tells why.
export async function waiting(into, answer) {
  try {
    return await answer;
  } catch (error) {
    replace(into);
    throw error;
  }
}

export function crumbs(...steps) {
  return h("nav", { class: "crumbs", "aria-label": "Where you are" }, steps.map(([text, href], i) => [i ? " / " : "", href ? link(href, text) : text]));
}

const TABS = [["Flow", ""], ["Topics", "topics"], ["Consumer groups", "groups"], ["Fail-over", "failover"]];

export function flowHead(flow, current) {
  return [
    crumbs(["Flows", "#/"], [flow, current ? path("flows", flow) : null]),
    h("nav", { class: "tabs", "aria-label": `Screens of ${flow}` },
      TABS.map(([text, tail]) => h("a", { href: path("flows", flow, ...(tail ? [tail] : [])), "aria-current": tail === current ? "page" : null }, text))),
  ];
}

// A button that asks the server for something, and says what came of it. It is not disabled meanwhile: that would take the focus from it.
export function action(label, act, told, kind = "") {
  let busy = false;
  const button = h("button", { type: "button", class: kind, onclick: async () => {
    if (busy) return;
    busy = true;
    button.ariaDisabled = "true";
    told.textContent = `${label}…`;
    try {
      await act();
      told.textContent = `${label}: done.`;
    } catch (error) {
      told.textContent = error.message;
    } finally {
      busy = false;
      button.ariaDisabled = null;
    }
  } }, label);
  return button;
}

const VERDICTS = { true: ["good", "equal"], false: ["bad", "NOT equal"], null: ["warning", "unclear"] };

export function lastVerify(verify) {
  return verify ? [pill(...VERDICTS[verify.ok]), ` ${ago(verify.at_ms)}`] : "never";
}

// Settings that are not the same on either side, though they are meant to be.
export function differences(configs) {
  const titles = ["Setting", "Source", "Target"];
  return h("div", { class: "scroll" }, h("table", null,
    h("caption", { class: "unseen" }, "Settings that differ"),
    h("thead", null, h("tr", null, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", null, configs.map((c) => h("tr", null, [c.name, c.source ?? "not set", c.target ?? "not set"].map((text) => h("td", null, text)))))));
}

// What a screen shows as JSON, if that depends on what was chosen on it.
export function setJson(address) {
  const [first] = document.querySelectorAll("#footer a");
  if (first) first.href = address;
}
