// Small helpers around the DOM. Text from a model or a file enters the page here, as text, never as mark-up.

/** An element with attributes ("class", "data-x", ...; false and null leave one out) and children (nodes or text). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A table of rows under the names of its columns. */
export const tabled = (names, rows) => h('table', {},
  h('thead', {}, h('tr', {}, ...names.map((text) => h('th', {scope: 'col'}, text)))), h('tbody', {}, ...rows));

/** Lookup of the template's parts: part('lanes') is the element with data-part="lanes". */
export function parts(root) {
  const found = new Map([...root.querySelectorAll('[data-part]')].map((element) => [element.dataset.part, element]));
  return (name) => {
    if (!found.has(name)) throw new Error(`the page has no part ${name}`);
    return found.get(name);
  };
}

/** Show or hide, and tell whether it is shown. */
export function show(element, visible) {
  element.hidden = !visible;
  return visible;
}

/** Write a sentence that is read out, though not again where it says the same. */
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make what is in `box` anew: what of it has the focus hands that to what then stands in its place. */
export function keepFocus(box, make) {
  const {activeElement: one} = document, alike = () => [...box.querySelectorAll(one.localName)].filter((other) => other.tabIndex >= 0 && other.getClientRects().length);
  const place = alike().indexOf(one);
  make();
  if (place >= 0) (alike()[place] ?? alike().at(-1))?.focus({preventScroll: true});
}

/** At most one call a frame, with the arguments of the last. */
export function eachFrame(callback) {
  let waiting = null;
  return (...given) => {
    const first = waiting === null;
    waiting = given;
    if (first) requestAnimationFrame(() => { const now = waiting; waiting = null; callback(...now); });
  };
}

/** What the browser keeps under a name in 'localStorage', or for the visit in 'sessionStorage'; null where there is nothing, or
 * where it refuses, as in private windows. */
export function stored(where, name) {
  try { return window[where].getItem(name); } catch { return null; }
}

/** Keep a text there; where the browser refuses, nothing is kept. */
export function store(where, name, text) {
  try { window[where].setItem(name, text); } catch { /* as far as this page goes, then */ }
}

/** True where the address asks for no motion, by ?motion=0: for pictures, and to show the same thing twice. */
export const posed = () => new URLSearchParams(location.search).get('motion') === '0';

/** True where the visitor asked for little motion, in the system or by the address. */
export function stillness() {
  return posed() || matchMedia('(prefers-reduced-motion: reduce)').matches;
}

/** Definitions: one floating box that shows data-help of whatever is hovered or focused. */
export function helpBox(root, tip) {
  let described = null, control = null, still = false; // what it is of, what is told so, and whether a key was the last: what then scrolls under a mouse was not pointed at
  const opened = (one) => one.matches('[open] > summary'); // a definition would lie over what it opens
  const gone = new MutationObserver(() => { if (!described?.getClientRects().length || opened(described)) hide(); });
  const hide = () => {
    gone.disconnect();
    tip.hidden = true;
    control?.removeAttribute('aria-describedby');
    described = control = null;
  };
  const place = () => {
    const box = described.getBoundingClientRect();
    tip.style.left = '0'; // elsewhere it may have to be narrower
    const left = Math.min(Math.max(8, box.left), document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = box.bottom + 8 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`;
  };
  const open = (event) => {
    if (event.type === 'focusin' ? !event.target.matches(':focus-visible') : event.type === 'pointerover' && still) return;
    const owner = event.target.closest?.('[data-help]');
    hide();
    if (!owner?.dataset.help || opened(owner)) return;
    tip.textContent = owner.dataset.help;
    tip.hidden = false;
    described = owner;
    control = owner.control ?? owner; // of a label
    gone.observe(root, {childList: true, subtree: true, attributeFilter: ['hidden', 'class', 'open']});
    control.setAttribute('aria-describedby', tip.id);
    place();
  };
  root.addEventListener('pointerover', open);
  root.addEventListener('focusin', open);
  root.addEventListener('pointerleave', ({pointerType}) => { if (pointerType !== 'touch') hide(); }); // a finger leaves what it has tapped
  document.addEventListener('pointerdown', ({target}) => { if (!root.contains(target)) hide(); });
  root.addEventListener('focusout', ({target}) => { if (described?.contains(target)) hide(); }); // not what was tapped next
  root.addEventListener('click', ({target}) => { if (target.closest('button, summary, a')) hide(); }); // it would lie over what comes of that
  window.addEventListener('scroll', () => (described?.matches(':focus-visible') ? place() : hide()), {passive: true});
  document.addEventListener('pointermove', (event) => {
    if (!still) return;
    still = false;
    open(event); // of what it came over when nobody listened
  }, {passive: true});
  document.addEventListener('keydown', (event) => {
    still = true;
    if (event.key === 'Escape') hide();
  }, true);
}
