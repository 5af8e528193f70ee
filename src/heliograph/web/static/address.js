// What a screen shows beside its name, such as a search or a page of a list, is kept in the address: it can be linked to.

// Put values into the query of the address, and take those out that are null or empty; the screen is not shown anew.
export function remember(values) {
  const [place, before] = location.hash.split("?");
  const query = new URLSearchParams(before ?? "");
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "" || value === false) query.delete(name);
    else query.set(name, value);
  }
  const tail = query.toString();
  history.replaceState(history.state, "", `${place || "#/"}${tail ? `?${tail}` : ""}`);
}
