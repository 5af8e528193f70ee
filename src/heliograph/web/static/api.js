// What the server is asked. A refusal is an ApiError with the server's own sentence.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function url(...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : null;
  const told = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const tail = new URLSearchParams(told).toString();
  return "/" + parts.map(encodeURIComponent).join("/") + (tail ? `?${tail}` : "");
}

export async function get(address, signal) {
  return ask(address, { signal });
}

export async function send(method, address, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  return ask(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, { ...options, headers: { Accept: "application/json", ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "heliograph does not answer. Check that it still runs.");
  }
  const text = await answer.text();
  let plain = null;
  try {
    plain = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(answer.status, `The answer of ${address} is not JSON (status ${answer.status}).`);
  }
  if (!answer.ok) throw new ApiError(answer.status, plain?.message ?? `${address} answers ${answer.status}.`);
  return plain;
}
