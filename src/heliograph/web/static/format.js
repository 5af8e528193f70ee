// Numbers as people read them. What is not known is a dash.

const DASH = "–";
const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value) {
  return value === null || value === undefined ? DASH : WHOLE.format(Math.round(value));
}

export function short(value) {
  if (value === null || value === undefined) return DASH;
  return Math.abs(value) < 10000 ? WHOLE.format(Math.round(value)) : SHORT.format(value);
}

export function rate(value) {
  return value === null || value === undefined ? DASH : `${value > 0 && value < 10 ? value.toFixed(1) : short(value)}/s`;
}

export function bytes(value) {
  if (value === null || value === undefined) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return DASH;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${(value / 3600).toFixed(1)} h` : `${Math.round(value / 86400)} days`;
}

export function millis(value) {
  return value === null || value === undefined ? DASH : value < 1000 ? `${value} ms` : seconds(value / 1000);
}

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return DASH;
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? String(ms) : at.toISOString().replace("T", " ").replace("Z", "");
}

export function ago(ms, now = Date.now()) {
  return ms === null || ms === undefined ? "never" : `${seconds(Math.max(now - ms, 0) / 1000)} ago`;
}
