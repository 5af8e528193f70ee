// Elements from plain values. A child is text or an element: nothing here ever parses HTML.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in PROPERTIES) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(isShown).map(asNode));
  return element;
}

const PROPERTIES = { value: 1, checked: 1, disabled: 1, selected: 1 };

function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(isShown).map(asNode));
  return element;
}

// The same for what may hold the focus: the first of the new buttons or links has it then.
export function swap(element, ...children) {
  const held = element.contains(document.activeElement);
  replace(element, ...children);
  if (held) element.querySelector("button, a")?.focus({ preventScroll: true });
}

// Text that changes often: touched only if it did, so that a selection or a reader is not disturbed.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function link(href, ...children) {
  return h("a", { href }, ...children);
}

// #/flows/A->B/topics: every part escaped, since names may hold anything. An object at the end is the query.
export function path(...parts) {
  const query = typeof parts.at(-1) === "object" ? new URLSearchParams(parts.pop()).toString() : "";
  return "#/" + parts.map(encodeURIComponent).join("/") + (query ? `?${query}` : "");
}
