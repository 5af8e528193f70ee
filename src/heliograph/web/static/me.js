// Who looks at the page, and so what it offers: a button whose route would be refused is not shown.

const RANKS = { view: 1, operate: 2, failover: 3 };
export const me = { name: null, role: "view", version: "" };

export function may(role) {
  return RANKS[me.role] >= RANKS[role];
}
