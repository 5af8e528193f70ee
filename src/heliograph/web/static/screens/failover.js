// Fail-over, guided: what speaks against it, what would be done, the word to type, and then its progress.

import { get, send, url } from "../api.js";
import { h, link, path, replace, setText, swap } from "../dom.js";
import { count, seconds } from "../format.js";
import { may } from "../me.js";
import { alarm, flowHead, pill } from "../parts.js";
import { table } from "../table.js";

const POLL = 500;
const LATER = 2000;
const UNDER_WAY = ["planning", "moving"];

export const title = (flow) => `Fail over ${flow}`;
export const json = (flow) => url("api", "failover", flow);

export async function show(root, [flow], signal) {
  const checks = h("div", { role: "status" });
  const keep = h("input", { type: "checkbox" });
  const again = h("button", { type: "button", onclick: look }, "Check again");
  const plan = h("div");
  const confirm = h("div");
  const told = h("p", { role: "status" });
  const bar = h("progress", { hidden: true });
  const result = h("div", { "aria-live": "polite" });
  const left = new Set(); // groups that are not to be moved
  let busy = false;
  replace(root, flowHead(flow, "failover"), h("h1", null, `Fail over ${flow}`),
    h("p", { class: "faint" }, "Consumer groups go on at the target, each at its exact offset, and the flow is held. The same as the command ", h("code", null, `heliograph failover FILE --flow '${flow}'`), "."),
    h("ol", { class: "steps" },
      h("li", null, h("h2", null, "Scope"), h("div", { class: "bar" },
        h("label", null, keep, "Move the groups alone; the flow goes on, as in a migration (--keep-flow)"),
        again)),
      h("li", null, h("h2", null, "Checks"), checks),
      h("li", null, h("h2", null, "Plan"), plan),
      h("li", null, h("h2", null, "Do it"), confirm, told, bar, result)));

  async function look() {
    if (busy) return;
    busy = true;
    replace(checks, h("p", { class: "faint" }, "Looking at both clusters. It takes some seconds if one does not answer."));
    replace(plan);
    replace(confirm);
    const keepFlow = keep.checked;
    try {
      const found = await get(url("api", "failover", flow, { keep_flow: keepFlow }), signal);
      const weigh = showConfirm(confirm, found, keepFlow);
      const chosen = () => {
        showChecks(checks, found, objectionsTo(found, left));
        weigh();
      };
      showPlan(plan, found, left, may("failover") ? chosen : null);
      chosen();
    } catch (error) {
      if (error.name !== "AbortError") replace(checks, alarm(error.message));
    } finally {
      busy = false;
    }
  }

  function lookAgain() {
    again.focus(); // before the button that has the focus goes away
    look();
  }

  // Returns what is to be called when other groups are chosen.
  function showConfirm(into, found, keepFlow) {
    if (!may("failover")) {
      replace(into, h("p", null, "To carry it out needs the role failover."));
      return () => {};
    }
    if (found.done && !found.objections.length) {
      replace(into, h("p", { class: "done" }, "Nothing is left to do."), wayBack());
      return () => {};
    }
    let begun = false;
    const force = h("input", { type: "checkbox", onchange: weigh });
    const forcing = h("p");
    const label = h("label", null, force, "Do it in spite of what speaks against it (--force)");
    const word = h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": `Type ${found.confirm} to confirm`, oninput: weigh });
    const button = h("button", { type: "button", class: "danger", disabled: true, onclick: begin }, `Fail over to ${found.confirm}`);
    replace(into, forcing, h("div", { class: "bar" }, h("label", null, "Type ", h("strong", null, found.confirm), " to confirm", word), button));
    return weigh;

    function weigh() {
      const against = objectionsTo(found, left);
      const nobody = found.groups.length > 0 && !chosenOf(found, left).length;
      if (forcing.contains(label) !== against.length > 0) replace(forcing, against.length ? label : null);
      button.disabled = nobody || against.some((o) => !o.forcible) || word.value !== found.confirm || (against.length > 0 && !force.checked);
    }

    async function begin() {
      if (begun) return;
      begun = true;
      button.ariaDisabled = "true"; // not disabled: that would take the focus from it
      const against = objectionsTo(found, left);
      const chosen = chosenOf(found, left);
      const order = {
        confirm: word.value,
        groups: chosen.length === found.groups.length ? null : chosen,
        keep_flow: keepFlow,
        force: against.length > 0 && force.checked,
        seen: { objections: against.map(({ kind, groups }) => ({ kind, groups })), source_answers: found.source_answers, held: found.held_since_ms !== null },
      };
      try {
        await send("POST", url("api", "failover", flow), order);
        await watch();
        swap(into, h("button", { type: "button", onclick: lookAgain }, "Check what is left"));
      } catch (error) {
        replace(result, alarm(error.message));
        begun = false;
        button.ariaDisabled = null;
      }
    }
  }

  async function watch() {
    while (!signal.aborted) {
      let pause = POLL;
      try {
        const now = await get(url("api", "failover", flow, "progress"), signal);
        showProgress(now);
        if (!UNDER_WAY.includes(now.state)) return;
      } catch (error) {
        if (error.name === "AbortError") return;
        setText(told, `${error.message} How far the fail-over has come is not known; it is asked for again.`);
        pause = LATER;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  function showProgress(now) {
    bar.hidden = !UNDER_WAY.includes(now.state);
    if (now.state === "moving") {
      bar.max = now.total || 1;
      bar.value = now.number;
    } else bar.removeAttribute("value");
    setText(told, progressOf(now));
    replace(result, bar.hidden ? resultOf(now) : null);
  }

  function progressOf(now) {
    switch (now.state) {
      case "planning": return "Looking at both clusters once more…";
      case "moving": return `Moving groups: ${count(now.number)} of ${count(now.total)}${now.group ? `, ${now.group}` : ""}`;
      default: return "";
    }
  }

  function resultOf(now) {
    switch (now.state) {
      case "none": return null;
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
  showProgress(before);
  if (UNDER_WAY.includes(before.state)) await watch();
  await look();
}

function chosenOf(found, left) {
  return found.groups.map((g) => g.group).filter((name) => !left.has(name));
}

// What is about groups alone that are not to be moved does not count.
function objectionsTo(found, left) {
  const known = new Set(found.groups.map((g) => g.group));
  return found.objections.filter((o) => !o.groups.length || o.groups.some((name) => !known.has(name) || !left.has(name)));
}

function objections(all) {
  return h("ul", { class: "checks" }, all.map((o) => h("li", { class: o.forcible ? "warning" : "bad" }, o.sentence)));
}

function showChecks(into, found, against) {
  const source = found.source_answers
    ? h("li", { class: found.behind ? "warning" : "good" }, `The source answers; ${count(found.behind)} of its records are not on the target yet.`)
    : h("li", { class: "warning" }, "The source does not answer.");
  const rpo = found.rpo_ms === null ? null : h("li", { class: found.rpo_ms ? "warning" : "good" }, `RPO: ${found.source_answers ? "" : "at most "}${seconds(found.rpo_ms / 1000)}.`);
  const held = found.held_since_ms === null ? null : h("li", { class: "good" }, "The flow is held already.");
  const none = against.length ? null : h("li", { class: "good" }, "Nothing speaks against it.");
  replace(into, h("ul", { class: "checks" }, source, rpo, held, none), objections(against));
}

function showPlan(into, found, left, onchange) {
  const choose = (g) => h("input", { type: "checkbox", checked: !left.has(g.group), "aria-label": `Move ${g.group}`, onchange: (event) => {
    if (event.target.checked) left.delete(g.group);
    else left.add(g.group);
    onchange();
  } });
  const chooseAll = (every) => {
    for (const g of found.groups) if (every) left.delete(g.group); else left.add(g.group);
    for (const box of groups.element.querySelectorAll("input")) box.checked = every;
    onchange();
  };
  const groups = table("Groups to move", [
    ...(onchange ? [{ title: "Move", cell: choose }] : []),
    { title: "Group", cell: (g) => g.group },
    { title: "Partitions", number: true, cell: (g) => count(g.partitions.length) },
    { title: "To move", number: true, cell: (g) => count(g.partitions.filter((p) => p.at !== null && (p.committed_there === null || p.committed_there < p.at)).length) },
    { title: "Missing", number: true, cell: (g) => count(sum(g.partitions, "missing")) },
    { title: "", cell: (g) => (g.moved ? pill("good", "is there") : g.ready ? pill("good", "ready") : pill("bad", "not ready")) },
    { title: "", cell: (g) => g.reason ?? g.partitions.find((p) => p.reason)?.reason ?? "" },
  ]);
  groups.element.classList.add("tall");
  groups.fill(found.groups, "There is no group to move.");
  replace(into, groups.element, onchange && found.groups.length > 1 ? h("div", { class: "bar" },
    h("button", { type: "button", onclick: () => chooseAll(true) }, "Choose all"),
    h("button", { type: "button", onclick: () => chooseAll(false) }, "Choose none")) : null, h("p", null, link(path("flows", found.flow, "groups"), "Every partition of every group")));
}

function sum(partitions, field) {
  return partitions.some((p) => p[field] === null) ? null : partitions.reduce((all, p) => all + p[field], 0);
}
