// Prepared figures: fill a template with a round's patch, paint its roles with the theme, give it to plotly.

import {download} from './pictures.js';

const PAPER = 630; // px that an upright page of A4 or Letter has for a figure

let asked = null;

/** plotly.js, which the page's head has sent for. */
export function plotly() {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  return asked ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = document.getElementById('plotly-js').href;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error('plotly.js could not be loaded from this server; reload the page'));
    document.head.append(script);
  });
}

const painted = new WeakMap(); // a theme's colours -> template or figure -> it in these colours

/** A figure of the whole run in a theme's colours, made once. */
export function whole(figure, colors) {
  if (!painted.has(colors)) painted.set(colors, new WeakMap());
  const known = painted.get(colors);
  if (!known.has(figure)) known.set(figure, paint(figure, colors));
  return known.get(figure);
}

/** A timeline with another run's bars below its axis. */
export const hung = ({data: [first, ...rest], layout}, {bars, yaxis}) =>
  ({data: [first, bars, ...rest], layout: {...layout, yaxis: {...layout.yaxis, ...yaxis}}});

/** A round's figure: dotted keys of the patch set into the template, node indices in customdata replaced by rows. */
export function fill(source, round, lane, words, colors) {
  const patch = paint(source.rounds[round], colors);
  const figure = structuredClone(whole(source.template, colors));
  figure.data.forEach((trace, at) => {
    put(trace, patch.data[at] ?? {});
    if (Array.isArray(trace.customdata)) trace.customdata = trace.customdata.map((node) => row(lane, round, node, words));
  });
  put(figure.layout, patch.layout ?? {});
  return figure;
}

function put(target, changes) {
  for (const [dotted, value] of Object.entries(changes)) {
    const keys = dotted.split('.');
    const last = keys.pop();
    const place = keys.reduce((above, key) => (above[key] ??= {}), target);
    place[last] = value;
  }
}

function row(lane, round, node, words) {
  if (!Number.isInteger(node) || node < 0) return {node: -1};
  const table = lane.nodes[round];
  const found = {};
  for (const [name, values] of Object.entries(table)) {
    const value = values[node];
    if (value !== null) found[name] = words[name]?.[value] ?? value;
  }
  return {...found, node, label: lane.labels[found.id]};
}

/** Every string that starts with "@" replaced by the theme's colour of that name. */
function paint(value, colors) {
  if (typeof value === 'string') return value.startsWith('@') ? colors[value.slice(1)] ?? value : value;
  if (Array.isArray(value)) {
    return typeof value[0] === 'number' && typeof value[1] !== 'string' ? value : value.map((item) => paint(item, colors));
  }
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, colors)]));
  }
  return value;
}

/** Where a node is drawn: [x, y], or null. */
export function place(figure, node) {
  for (const trace of figure.data) {
    const at = trace.customdata?.findIndex?.((row) => row?.node === node) ?? -1;
    if (at >= 0) return [trace.x[at], trace.y[at]];
  }
  return null;
}

/** Draw into an element; the same element keeps its zoom from call to call. `full`, if given, is what is downloaded.
 * plotly gets a layout of its own: it writes the zoom into it, and takes the height out of it where the width changes. */
export function draw(Plotly, element, figure, config, full = figure) {
  element.dataset.drawn = 'no';
  element.full = full;
  if (!element._fullLayout) {
    boxes.observe(element); // it follows the width of its box
    element.addEventListener('touchend', tap);
  }
  if (element === tapped) unhover(); // of what was drawn before
  return react(Plotly, element, {...figure, layout: structuredClone(figure.layout)}, withDownload(Plotly, config))
    .then(() => {
      for (const svg of element.querySelectorAll('.main-svg')) svg.setAttribute('aria-hidden', 'true'); // else its scraps of text are read
      element.dataset.drawn = 'yes';
    });
}

/** What may change faster than it can be drawn gets a quarter of the time, and what it was last is always drawn. What is
 * drawn for the first time waits for the frame: of a view with many figures nothing would be seen until all are there.
 * `later(begin)` has begin() draw, `settle()` draws at once what is still to be drawn. */
export function paced(element) {
  let timer = null, waiting = null, free = 0;
  return {later, settle};

  function later(begin) {
    waiting = begin;
    element.dataset.drawn = 'no';
    const rest = free - performance.now();
    if (rest <= 0 && element.firstChild) settle(); else timer ??= setTimeout(settle, rest);
  }

  function settle() {
    const begin = waiting, from = performance.now();
    clearTimeout(timer);
    [waiting, timer] = [null, null];
    if (!begin) return;
    begin();
    const rest = () => { free = Math.max(free, performance.now() + 3 * (performance.now() - from)); };
    rest();
    requestAnimationFrame(() => setTimeout(rest)); // painting counts, too
  }
}

let tapped = null; // the plot that was tapped last

/** plotly takes a tap as a click, and shows what a mouse would be shown. The browser would have its mouse do it again, which
 * plotly takes for a double click: what is shown would go, and the zoom, too. It goes with the next touch. */
function tap(event) {
  if (!event.cancelable || !event.target.closest('.draglayer')) return;
  event.preventDefault();
  tapped = event.currentTarget;
}

function unhover() {
  if (tapped?._fullLayout) window.Plotly.Fx.unhover(tapped);
  tapped = null;
}

addEventListener('pointerdown', unhover, true);

/** Plots follow the width of their boxes, which changes without the window's, too: plotly looks at the window only. */
const boxes = new ResizeObserver((entries) => {
  for (const {target: box} of entries) {
    const wide = box.clientWidth;
    if (wide && Math.abs(wide - box._fullLayout?.width) > 1) window.Plotly.Plots.resize(box); // once the width is at rest
  }
});

/** Paper is narrower than the window that figures are drawn for, and they are not drawn anew: they get smaller. */
addEventListener('beforeprint', () => {
  document.querySelector('#viewer')?.classList.add('paper');
  for (const box of document.querySelectorAll('#viewer .scroll')) box.style.setProperty('--on-paper', Math.min(1, PAPER / box.scrollWidth));
});
addEventListener('afterprint', () => document.querySelector('#viewer')?.classList.remove('paper'));

/** Plotly.react without the page's <base>: with it plotly refers to its clip paths by the full address, and they are lost
 * when the address changes. A finger scrolls the page: plotly would keep it for panning. */
export function react(Plotly, element, {data, layout}, config) {
  if (matchMedia('(pointer: coarse)').matches) layout = {...layout, dragmode: false};
  const base = document.querySelector('base');
  const href = base?.getAttribute('href');
  base?.removeAttribute('href');
  try {
    return Plotly.react(element, data, layout, config);
  } finally {
    if (href) base.setAttribute('href', href);
  }
}

/** The configuration with a button for a picture. Always the same function: plotly starts anew where a configuration differs. */
function withDownload(Plotly, config) {
  const camera = {name: 'download', title: 'Download as a picture', icon: Plotly.Icons.camera, click: download};
  return {...config, modeBarButtonsToAdd: [camera]};
}
