// The map: clusters as boxes, flows as arrows in the colour of their health, with rate and lag on them.

import { h, link, path, replace, setText, svg } from "../dom.js";
import { millis, rate, seconds, short } from "../format.js";
import { follow } from "../live.js";
import { pill, stateOf } from "../parts.js";
import { table } from "../table.js";

const WIDEST = 900;
const NARROW = 620;
const NARROWEST = 326;
const BOX = { width: 150, height: 58 };
const LABEL = { width: 152, height: 38 };

export const title = () => "Map";
export const json = () => "/api/overview";

export function show(root, _names, signal) {
  const drawing = h("div", { class: "sheet map" });
  const flows = table("Flows", COLUMNS);
  replace(root, h("h1", null, "Flows"), drawing, flows.element);
  let drawn = "";
  let latest = null;
  let edges = new Map();
  let boxes = new Map();

  follow("overview", signal, update);
  const resized = new ResizeObserver(() => latest && update(latest));
  resized.observe(drawing);
  signal.addEventListener("abort", () => resized.disconnect());

  function update(overview) {
    latest = overview;
    // A unit of the drawing is a pixel, so that its text is as large as any other.
    const width = Math.min(Math.max(drawing.clientWidth - 32, NARROWEST), WIDEST);
    const shape = JSON.stringify([width, overview.clusters.map((c) => c.alias), overview.flows.map((f) => f.flow)]);
    if (shape !== drawn) {
      drawn = shape;
      const picture = overview.flows.length ? draw(overview, width) : null;
      edges = picture?.edges ?? new Map();
      boxes = picture?.boxes ?? new Map();
      replace(drawing, picture?.element ?? h("p", null, "No flow is copied by this process. A worker shows the flows whose source connector it runs; see ", link("#/connectors", "connectors"), "."));
    }
    for (const flow of overview.flows) edges.get(flow.flow)?.(flow);
    for (const cluster of overview.clusters) boxes.get(cluster.alias)?.(cluster);
    flows.fill(overview.flows, "There is no flow.");
  }
}

const COLUMNS = [
  { title: "Flow", tight: true, cell: (f) => link(path("flows", f.flow), f.flow) },
  { title: "State", cell: (f) => pill(f.health, stateOf(f)) },
  { title: "Records", number: true, cell: (f) => rate(f.rate) },
  { title: "Lag", number: true, cell: (f) => short(f.lag) },
  { title: "Lag, time", number: true, cell: (f) => seconds(f.lag_seconds) },
  { title: "RPO", number: true, cell: (f) => seconds(f.rpo_seconds) },
  { title: "p50", number: true, cell: (f) => millis(f.p50_ms) },
  { title: "p99", number: true, cell: (f) => millis(f.p99_ms) },
  { title: "Topics", number: true, cell: (f) => link(path("flows", f.flow, "topics"), short(f.topics)) },
  { title: "Groups", number: true, cell: (f) => link(path("flows", f.flow, "groups"), short(f.groups)) },
  { title: "", wide: true, cell: (f) => h("span", { class: f.health === "bad" ? "bad-text" : "faint" }, f.reason ?? "") },
];

function draw(overview, width) {
  const places = place(overview.clusters.map((c) => c.alias), width);
  const edges = new Map();
  const boxes = new Map();
  const pairs = new Set(overview.flows.map((f) => `${f.source} ${f.target}`));
  const arrows = overview.flows.map((flow) => {
    const both = pairs.has(`${flow.target} ${flow.source}`);
    const arrow = edge(flow, places.get(flow.source), places.get(flow.target), both ? bendFor(width) : 0);
    edges.set(flow.flow, arrow.update);
    return arrow.element;
  });
  const nodes = overview.clusters.map((cluster) => {
    const node = box(cluster, places.get(cluster.alias));
    boxes.set(cluster.alias, node.update);
    return node.element;
  });
  const height = Math.max(...[...places.values()].map((p) => p.y)) + 90;
  const element = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Map of flows" }, arrows, nodes);
  return { element, edges, boxes };
}

// Two stand side by side, or one above the other where it is narrow; more stand on an ellipse.
function place(aliases, width) {
  const narrow = width < NARROW;
  if (aliases.length <= 2) {
    const at = (i) => (narrow ? { x: width / 2, y: 45 + i * 230 } : { x: 85 + i * (width - 170), y: 95 });
    return new Map(aliases.map((alias, i) => [alias, at(i)]));
  }
  const rx = width / 2 - BOX.width / 2 - 8;
  const ry = narrow ? 60 * aliases.length : aliases.length > 4 ? 190 : 140;
  return new Map(aliases.map((alias, i) => {
    const angle = Math.PI * (1 + (2 * i) / aliases.length);
    return [alias, { x: width / 2 + rx * Math.cos(angle), y: ry + 60 + ry * Math.sin(angle) }];
  }));
}

// How far two arrows of a pair bend apart: their labels must not meet.
function bendFor(width) {
  return width < NARROW ? LABEL.width - 24 : 92;
}

function edge(flow, from, to, bend) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const middle = { x: (from.x + to.x) / 2 + (dy / length) * bend, y: (from.y + to.y) / 2 - (dx / length) * bend };
  const start = border(from, middle);
  const end = border(to, middle);
  const turn = (Math.atan2(end.y - middle.y, end.x - middle.x) * 180) / Math.PI;
  const label = { x: (start.x + 2 * middle.x + end.x) / 4, y: (start.y + 2 * middle.y + end.y) / 4 };
  const first = svg("text", { x: label.x, y: label.y - 4 });
  const second = svg("text", { class: "lag", x: label.x, y: label.y + 12 });
  const told = svg("title");
  const group = svg("a", { href: path("flows", flow.flow), "data-flow": flow.flow },
    told,
    svg("path", { d: `M${start.x} ${start.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}` }),
    svg("path", { class: "head", d: "M2 0 L-13 -7 L-13 7 Z", transform: `translate(${end.x} ${end.y}) rotate(${turn})` }),
    svg("g", { class: "label" }, svg("rect", { x: label.x - LABEL.width / 2, y: label.y - LABEL.height / 2, width: LABEL.width, height: LABEL.height, rx: 8 }), first, second));
  return { element: group, update };

  function update(now) {
    group.setAttribute("class", `edge ${now.health}`);
    setText(first, now.health === "off" || now.health === "bad" ? stateOf(now) : `${rate(now.rate)} records`);
    setText(second, `lag ${short(now.lag)} · ${seconds(now.lag_seconds)}`);
    setText(told, `${now.flow}: ${stateOf(now)}${now.reason ? `, ${now.reason}` : ""}`);
  }
}

// Where the line from a box's middle towards a point leaves the box.
function border(at, towards) {
  const dx = towards.x - at.x;
  const dy = towards.y - at.y;
  const share = Math.min((BOX.width / 2 + 6) / (Math.abs(dx) || 1e-9), (BOX.height / 2 + 6) / (Math.abs(dy) || 1e-9));
  return { x: at.x + dx * share, y: at.y + dy * share };
}

function box(cluster, at) {
  const sub = svg("text", { class: "sub", x: at.x, y: at.y + 16 });
  const told = svg("title");
  const shown = cluster.alias.length > 16 ? `${cluster.alias.slice(0, 15)}…` : cluster.alias;
  const element = svg("a", { href: path("clusters", cluster.alias), "data-cluster": cluster.alias }, told,
    svg("rect", { x: at.x - BOX.width / 2, y: at.y - BOX.height / 2, width: BOX.width, height: BOX.height, rx: 10 }),
    svg("text", { x: at.x, y: at.y }, shown), sub);
  return { element, update };

  function update(now) {
    element.setAttribute("class", `node ${now.health}`);
    setText(sub, now.health === "bad" ? "does not answer" : "cluster");
    setText(told, now.reason ?? `cluster ${now.alias}`);
  }
}
