// Fail-over, guided: what speaks against it, what would be done, the word to type, and then its progress.

import { get, send, url } from "../api.js";
import { h, link, path, replace } from "../dom.js";
import { count, seconds } from "../format.js";
import { may } from "../me.js";
import { alarm, flowHead, pill } from "../parts.js";
import { table } from "../table.js";

const POLL = 500;

export const title = (flow) => `Fail over ${flow}`;
export const json = (flow) => url("api", "failover", flow);

export async function show(root, [flow], signal) {
  const checks = h("div", { role: "status" });
  const groups = h("input", { type: "text", placeholder: "all groups", "aria-label": "Only groups that this regular expression matches whole" });
  const keep = h("input", { type: "checkbox" });
  const plan = h("div");
  const confirm = h("div");
  const progress = h("div", { "aria-live": "polite" });
  replace(root, flowHead(flow, "failover"), h("h1", null, `Fail over ${flow}`),
    h("p", { class: "faint" }, "Consumer groups go on at the target, each at its exact offset, and the flow is held. The same as the command ", h("code", null, `heliograph failover FILE --flow '${flow}'`), "."),
    h("ol", { class: "steps" },
      h("li", null, h("h2", null, "Scope"), h("div", { class: "bar" }, h("label", null, "Groups", groups),
        h("label", null, keep, "Move the groups alone; the flow goes on, as in a migration (--keep-flow)"),
        h("button", { type: "button", onclick: look }, "Check again"))),
      h("li", null, h("h2", null, "Checks"), checks),
      h("li", null, h("h2", null, "Plan"), plan),
      h("li", null, h("h2", null, "Do it"), confirm, progress)));

  async function look() {
    replace(checks, h("p", { class: "faint" }, "Looking at both clusters. It takes some seconds if one does not answer."));
    replace(plan);
    replace(confirm);
    const asked = { groups: groups.value, keep_flow: keep.checked };
    try {
      const found = await get(url("api", "failover", flow, asked), signal);
      showChecks(checks, found);
      showPlan(plan, found);
      showConfirm(confirm, found, asked);
    } catch (error) {
      if (error.name !== "AbortError") replace(checks, alarm(error.message));
    }
  }

  function showConfirm(into, found, asked) {
    if (!may("failover")) {
      replace(into, h("p", null, "To carry it out needs the role failover."));
      return;
    }
    if (found.done && !found.objections.length) {
      replace(into, h("p", { class: "done" }, "Nothing is left to do."), wayBack());
      return;
    }
    const never = found.objections.some((o) => !o.forcible);
    const force = found.objections.length ? h("input", { type: "checkbox" }) : null;
    const word = h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": `Type ${found.confirm} to confirm` });
    const button = h("button", { type: "button", class: "danger", disabled: true, onclick: begin }, `Fail over to ${found.confirm}`);
    const weigh = () => (button.disabled = never || word.value !== found.confirm || (force !== null && !force.checked));
    word.addEventListener("input", weigh);
    force?.addEventListener("change", weigh);
    replace(into,
      force && h("p", null, h("label", null, force, "Do it in spite of what speaks against it (--force)")),
      h("div", { class: "bar" }, h("label", null, "Type ", h("strong", null, found.confirm), " to confirm", word), button));

    async function begin() {
      button.disabled = true;
      const order = { confirm: word.value, groups: asked.groups || null, keep_flow: asked.keep_flow, force: force?.checked ?? false };
      try {
        await send("POST", url("api", "failover", flow), order);
        replace(into);
        await watch();
      } catch (error) {
        replace(progress, alarm(error.message));
        weigh();
      }
    }
  }

  async function watch() {
    while (!signal.aborted) {
      const now = await get(url("api", "failover", flow, "progress"), signal);
      replace(progress, progressOf(now));
      if (!["planning", "moving"].includes(now.state)) return now;
      await new Promise((done) => setTimeout(done, POLL));
    }
    return null;
  }

  function progressOf(now) {
    switch (now.state) {
      case "none": return null;
      case "planning": return [h("p", null, "Looking at both clusters once more…"), h("progress")];
      case "moving": return [h("p", null, `Moving groups: ${count(now.number)} of ${count(now.total)}${now.group ? `, ${now.group}` : ""}`), h("progress", { max: now.total || 1, value: now.number })];
      case "refused": return [alarm("It was refused; nothing was changed."), objections(now.objections)];
      case "failed": return alarm(now.error);
      default: return report(now.report);
    }
  }

  function report(done) {
    const left = Object.entries(done.left);
    return [
      h("p", { class: "done" }, `Done in ${seconds(done.seconds)}: ${count(Object.keys(done.moved).length)} groups go on at the target.${done.held ? ` ${flow} is held.` : ""}`),
      left.length ? h("ul", { class: "checks" }, left.map(([group, why]) => h("li", { class: "bad" }, `${group}: ${why}`))) : null,
      done.held ? wayBack() : null,
    ];
  }

  function wayBack() {
    return h("p", null, "The way back, once the source is well again: ", h("code", null, `heliograph failback FILE --flow '${flow}'`), ".");
  }

  const before = await get(url("api", "failover", flow, "progress"), signal);
  if (before.state === "planning" || before.state === "moving") await watch();
  else replace(progress, progressOf(before));
  await look();
}

function objections(all) {
  return h("ul", { class: "checks" }, all.map((o) => h("li", { class: o.forcible ? "warning" : "bad" }, o.sentence)));
}

function showChecks(into, found) {
  const source = found.source_answers
    ? h("li", { class: found.behind ? "warning" : "good" }, `The source answers; ${count(found.behind)} of its records are not on the target yet.`)
    : h("li", { class: "warning" }, "The source does not answer.");
  const rpo = found.rpo_ms === null ? null : h("li", { class: found.rpo_ms ? "warning" : "good" }, `RPO: ${found.source_answers ? "" : "at most "}${seconds(found.rpo_ms / 1000)}.`);
  const held = found.held_since_ms === null ? null : h("li", { class: "good" }, "The flow is held already.");
  const none = found.objections.length ? null : h("li", { class: "good" }, "Nothing speaks against it.");
  replace(into, h("ul", { class: "checks" }, source, rpo, held, none), objections(found.objections));
}

function showPlan(into, found) {
  const groups = table("Groups to move", [
    { title: "Group", cell: (g) => g.group },
    { title: "Partitions", number: true, cell: (g) => count(g.partitions.length) },
    { title: "To move", number: true, cell: (g) => count(g.partitions.filter((p) => p.at !== null && (p.committed_there === null || p.committed_there < p.at)).length) },
    { title: "Missing", number: true, cell: (g) => count(sum(g.partitions, "missing")) },
    { title: "", cell: (g) => (g.moved ? pill("good", "is there") : g.ready ? pill("good", "ready") : pill("bad", "not ready")) },
    { title: "", cell: (g) => g.reason ?? g.partitions.find((p) => p.reason)?.reason ?? "" },
  ]);
  groups.element.classList.add("tall");
  groups.fill(found.groups, "There is no group to move.");
  replace(into, groups.element, h("p", null, link(path("flows", found.flow, "groups"), "Every partition of every group")));
}

function sum(partitions, field) {
  return partitions.some((p) => p[field] === null) ? null : partitions.reduce((all, p) => all + p[field], 0);
}
