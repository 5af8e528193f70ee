// The page: finds the screen that the address names, shows it, and puts it away before the next.

import { get } from "./api.js";
import { h, replace, setText } from "./dom.js";
import * as live from "./live.js";
import { may, me } from "./me.js";
import { alarm } from "./parts.js";

const NAV = [["Map", "#/"], ["Connectors", "#/connectors"], ["Clusters", "#/clusters"], ["Messages", "#/messages", "operate"], ["Reports", "#/reports"], ["Events", "#/events"]];

// A screen exports title(parts), show(root, parts, signal, query) and json(parts): where its data is as JSON.
const SCREENS = [
  [[], "map"],
  [["flows", "*"], "flow"],
  [["flows", "*", "topics"], "topics"],
  [["flows", "*", "topics", "*"], "topic"],
  [["flows", "*", "groups"], "groups"],
  [["flows", "*", "failover"], "failover"],
  [["connectors"], "connectors"],
  [["connectors", "*"], "connector"],
  [["clusters"], "clusters"],
  [["clusters", "*"], "cluster"],
  [["clusters", "*", "topics", "*"], "cluster-topic"],
  [["clusters", "*", "groups", "*"], "cluster-group"],
  [["messages"], "messages"],
  [["reports"], "reports"],
  [["reports", "*"], "report"],
  [["events"], "events"],
];

let shown = new AbortController();

function parse() {
  const [place, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: place ? place.split("/").map(decode) : [], query: new URLSearchParams(query ?? "") };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function find(parts) {
  const found = SCREENS.find(([shape]) => shape.length === parts.length && shape.every((s, i) => s === "*" || s === parts[i]));
  return found ? { name: found[1], names: parts.filter((_, i) => found[0][i] === "*") } : null;
}

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const main = document.getElementById("main");
  const { parts, query } = parse();
  const screen = find(parts);
  markNav(parts);
  if (!screen) {
    replace(main, h("h1", null, "There is no such screen"), h("p", null, h("a", { href: "#/" }, "To the map")));
    return;
  }
  try {
    const module = await import(`./screens/${screen.name}.js`);
    if (signal.aborted) return;
    const title = module.title(...screen.names);
    document.title = `${title} – heliograph`;
    const root = h("div", { class: `screen ${screen.name}` });
    replace(main, root);
    footer(module.json(...screen.names));
    await module.show(root, screen.names, signal, query);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    main.prepend(alarm(error.message));
  }
}

function footer(address) {
  replace(document.getElementById("footer"),
    h("a", { href: address }, "This screen as JSON"), " · ", h("a", { href: "/metrics" }, "Metrics"), " · ",
    h("a", { href: "/openapi.json" }, "OpenAPI"), " · ", me.version);
}

function markNav(parts) {
  const here = `#/${parts[0] && parts[0] !== "flows" ? parts[0] : ""}`;
  replace(document.getElementById("nav"), NAV.filter(([, , role]) => may(role ?? "view")).map(([text, href]) =>
    h("a", { href, "aria-current": href === here ? "page" : null }, text)));
}

function switchTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("heliograph.theme", root.dataset.theme);
  } catch {
    // It lasts as long as the page, then.
  }
  dispatchEvent(new Event("themechange"));
}

async function begin() {
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  const screen = find(parse().parts);
  if (screen) import(`./screens/${screen.name}.js`).catch(() => {}); // it comes while we ask who we are
  try {
    Object.assign(me, await get("/api/me"));
  } catch (error) {
    document.getElementById("main").prepend(alarm(error.message));
  }
  setText(document.getElementById("me"), me.name ? `${me.name} (${me.role})` : "");
  live.start();
  live.follow("state", new AbortController().signal, (connected) => {
    const status = document.getElementById("live");
    setText(status, connected ? "live" : "no connection");
    status.className = connected ? "good" : "bad";
  });
  addEventListener("hashchange", async () => {
    await show();
    document.getElementById("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  await show();
}

begin();
