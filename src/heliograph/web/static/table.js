// Tables: one that is filled anew with rows, and one that asks the server page by page.

import { remember } from "./address.js";
import { get, url } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { count } from "./format.js";

// columns: [{title, cell: row => child, number: bool, tight: bool (stays in one line), wide: bool (long names, sentences), sort: name, falls: bool (from the largest)}]
export function table(caption, columns) {
  const body = h("tbody");
  const head = h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.number && "number" }, c.title))));
  const element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "unseen" }, caption), head, body));
  const fresh = new WeakMap();

  function fill(rows, empty = "There is nothing here.") {
    const lines = rows.length ? rows.map((row) => line(columns, row)) : [h("tr", null, h("td", { colspan: columns.length, class: "faint" }, empty))];
    const held = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    while (body.rows.length > lines.length) body.lastElementChild.remove();
    lines.forEach((now, i) => (i < body.rows.length ? mend(body.rows[i], now) : body.append(now)));
    for (const cell of body.querySelectorAll("td")) if (!fresh.has(cell)) fresh.set(cell, cell.cloneNode(true));
    if (held && !body.contains(document.activeElement)) [...body.querySelectorAll("a")].find((a) => a.getAttribute("href") === held)?.focus({ preventScroll: true });
  }

  // Only cells that say something else are touched, so that focus, selection and what is unfolded stay.
  function mend(before, now) {
    before.className = now.className;
    if (before.cells.length !== now.cells.length) before.replaceChildren(...now.cells);
    else [...now.cells].forEach((cell, i) => fresh.get(before.cells[i])?.isEqualNode(cell) || before.cells[i].replaceWith(cell));
  }

  return { element, head, fill };
}

function line(columns, row) {
  return h("tr", { class: row.class }, columns.map((c) => h("td", { class: kind(c) }, c.cell(row))));
}

function kind(column) {
  return column.number ? "number" : column.tight ? "tight" : column.wide ? "wide" : null;
}

// options: {caption, columns, address: parts for url(), field: name of the list in the answer, sort: first column's name,
// asked: query of the address, prefix: of its names there, extra: more to ask, controls: what stands beside the search}
export function pagedTable(signal, options) {
  const shown = table(options.caption, options.columns);
  const prefix = options.prefix ?? "";
  const told = (name) => options.asked?.get(prefix + name) ?? "";
  const query = { search: told("search"), sort: told("sort") || options.sort, offset: Math.max(Number.parseInt(told("offset"), 10) || 0, 0), limit: options.limit ?? 50, ...options.extra };
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": `Search ${options.caption}`, value: query.search });
  const status = h("span", { role: "status" }, "Loading…");
  const back = h("button", { type: "button", disabled: true, onclick: () => turn(-query.limit) }, "Previous");
  const on = h("button", { type: "button", disabled: true, onclick: () => turn(query.limit) }, "Next");
  let waiting;
  let asked = 0;
  let loaded = false;

  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => load({ search: search.value, offset: 0 }), 250);
  });
  const sorts = options.columns.map((column, index) => ({ ...column, th: shown.head.rows[0].cells[index] })).filter((c) => options.sort && c.sort);
  for (const { sort, title, th } of sorts) replace(th, h("button", { type: "button", class: "sort", onclick: () => load({ sort, offset: 0 }) }, title));

  function turn(by) {
    load({ offset: Math.max(query.offset + by, 0) });
  }

  async function load(changes = {}) {
    Object.assign(query, changes);
    const number = ++asked;
    try {
      const answer = await get(url(...options.address, query), signal);
      if (number !== asked) return;
      if (!answer[options.field].length && query.offset && answer.total) return load({ offset: 0 });
      loaded = true;
      fill(answer);
      if (Object.keys(changes).length) remember({ [`${prefix}search`]: query.search, [`${prefix}sort`]: query.sort === options.sort ? "" : query.sort, [`${prefix}offset`]: query.offset || "" });
    } catch (error) {
      if (error.name === "AbortError" || number !== asked) return;
      setText(status, loaded ? error.message : "");
      if (!loaded) shown.fill([], error.message);
    }
  }

  function fill(answer) {
    const rows = answer[options.field];
    const last = query.offset + rows.length;
    shown.fill(rows, query.search ? `Nothing is called like ${query.search}.` : undefined);
    setText(status, answer.total ? `${count(query.offset + 1)}–${count(last)} of ${count(answer.total)}` : "");
    back.disabled = query.offset === 0;
    on.disabled = last >= answer.total;
    for (const { sort, falls, th } of sorts) th.ariaSort = sort !== query.sort ? "none" : falls ? "descending" : "ascending";
  }

  const element = h("div", { class: "paged" }, h("div", { class: "bar" }, search, options.controls, h("span", { class: "spacer" }), status, back, on), shown.element);
  return { element, load };
}
