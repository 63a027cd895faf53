// The view state is the address: race, method, round, node, tab, clock, against. Nothing else decides what is shown.

const NUMBERS = new Set(['round', 'node']);
const DEFAULTS = {race: '', method: '', round: null, node: null, tab: 'tree', clock: 'wall', against: ''};

/** The state in the page's address. */
export function fromAddress() {
  const query = new URLSearchParams(location.search);
  const state = {...DEFAULTS};
  for (const name of Object.keys(DEFAULTS)) {
    const value = query.get(name);
    if (value === null) continue;
    if (!NUMBERS.has(name)) state[name] = value;
    else if (/^\d{1,6}$/.test(value)) state[name] = Number(value);
  }
  return state;
}

/** The address of a state; what others put into the query stays. */
export function address(state) {
  const query = new URLSearchParams(location.search);
  for (const [name, standard] of Object.entries(DEFAULTS)) {
    const value = state[name];
    if (value === standard || value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return `${location.pathname}${text ? `?${text}` : ''}`;
}

/** Keep the address in step, at most a few times a second: browsers refuse more. */
export function addressKeeper() {
  let timer = null, latest = null;
  return (state) => {
    latest = state;
    timer ??= setTimeout(() => { timer = null; history.replaceState(history.state, '', address(latest)); }, 250);
  };
}
