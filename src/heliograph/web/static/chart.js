// A time series, drawn by uPlot in the page's own colours.

import { h } from "./dom.js";

const HEIGHT = 160;

// series: [{label, color: name of a style variable, values: text for a value}]
export function chart(signal, title, series, format) {
  const holder = h("div", { class: "plot" });
  const element = h("figure", { class: "chart" }, h("figcaption", null, title), holder);
  let plot = null;
  let data = null;

  function draw() {
    plot?.destroy();
    plot = null;
    if (!data || !holder.isConnected) return;
    const style = getComputedStyle(document.documentElement);
    const pick = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: pick("--faint"), grid: { stroke: pick("--line"), width: 1 }, ticks: { stroke: pick("--line"), width: 1 } };
    plot = new window.uPlot({
      width: Math.max(holder.clientWidth, 200),
      height: HEIGHT,
      cursor: { y: false },
      scales: { y: { range: (_, least, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [{ ...axis, values: (_, all) => all.map(clock) }, { ...axis, size: 64, values: (_, all) => all.map(format) }],
      series: [{ label: "time", value: (_, v) => clock(v) }, ...series.map((s) => ({
        label: s.label, stroke: pick(s.color), width: 1.5, points: { show: false }, value: (_, v) => format(v),
      }))],
    }, data, holder);
    tellLast();
  }

  // The legend tells of the newest, unless somebody points at another.
  function tellLast() {
    if (plot.cursor.idx === null || plot.cursor.left < 0) plot.setLegend({ idx: data[0].length - 1 });
  }

  const resized = new ResizeObserver(() => {
    if (plot && plot.width !== holder.clientWidth && holder.clientWidth) plot.setSize({ width: holder.clientWidth, height: HEIGHT });
    else if (!plot) draw();
  });
  resized.observe(holder);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    plot?.destroy();
  });
  addEventListener("themechange", draw, { signal });

  return {
    element,
    set(columns) {
      data = columns;
      if (plot) {
        plot.setData(data);
        tellLast();
      } else draw();
    },
  };
}

function clock(time) {
  return time === null || time === undefined ? "" : new Date(time * 1000).toTimeString().slice(0, 8);
}
