// The overview as it comes, each second, and what is logged. One stream for the whole page.

const listeners = { overview: new Set(), log: new Set(), state: new Set() };
let newest = null;
let connected = false;
let stream = null;

export function start() {
  stream = new EventSource("/api/live");
  stream.addEventListener("open", () => tell("state", (connected = true)));
  stream.addEventListener("error", () => {
    tell("state", (connected = false));
    // A browser gives up for good on an answer that is no stream; the server may be back later.
    if (stream.readyState === EventSource.CLOSED) setTimeout(start, 3000);
  });
  stream.addEventListener("overview", (event) => tell("overview", (newest = JSON.parse(event.data))));
  stream.addEventListener("log", (event) => tell("log", JSON.parse(event.data)));
}

export function overview() {
  return newest;
}

// Call back with what is there now, then with each that comes, until the signal.
export function follow(kind, signal, call) {
  listeners[kind].add(call);
  signal.addEventListener("abort", () => listeners[kind].delete(call));
  if (kind === "overview" && newest) call(newest);
  if (kind === "state") call(connected);
}

function tell(kind, data) {
  for (const call of [...listeners[kind]]) call(data);
}

// Call again and again, but never twice at once, while the screen is there and somebody can see it.
export function every(ms, signal, call) {
  const again = () => setTimeout(async () => {
    if (signal.aborted) return;
    if (!document.hidden) await call();
    again();
  }, ms);
  again();
}
