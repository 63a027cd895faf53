// Prepared figures: fill a template with a round's patch, paint its roles with the theme, give it to plotly.

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

const painted = new WeakMap(); // template or figure -> {theme: it in the theme's colours}

/** A figure of the whole run in a theme's colours. */
export function whole(figure, name, themes) {
  const known = painted.get(figure) ?? {};
  painted.set(figure, known);
  return (known[name] ??= paint(figure, themes[name]));
}

/** A round's figure: dotted keys of the patch set into the template, node indices in customdata replaced by rows. */
export function fill(source, round, lane, words, name, themes) {
  const patch = paint(source.rounds[round], themes[name]);
  const figure = structuredClone(whole(source.template, name, themes));
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
function paint(value, theme) {
  if (typeof value === 'string') return value.startsWith('@') ? theme[value.slice(1)] ?? value : value;
  if (Array.isArray(value)) {
    return typeof value[0] === 'number' && typeof value[1] !== 'string' ? value : value.map((item) => paint(item, theme));
  }
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, theme)]));
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

/** Draw into an element; the same element keeps its zoom from call to call. `full`, if given, is what is downloaded. */
export function draw(Plotly, element, figure, config, full = figure) {
  element.dataset.drawn = 'no';
  element.full = full;
  if (!element._fullLayout) boxes.observe(element); // it follows the width of its box
  return react(Plotly, element, figure, withDownload(Plotly, config))
    .then(() => {
      for (const svg of element.querySelectorAll('.main-svg')) svg.setAttribute('aria-hidden', 'true'); // else its scraps of text are read
      element.dataset.drawn = 'yes';
    });
}

/** What may change faster than it can be drawn gets a quarter of the time, and what it was last is always drawn.
 * `later(begin)` has begin() draw, `settle()` draws at once what is still to be drawn. */
export function paced(element) {
  let timer = null, waiting = null, free = 0;
  return {later, settle};

  function later(begin) {
    waiting = begin;
    element.dataset.drawn = 'no';
    const rest = free - performance.now();
    if (rest <= 0) settle(); else timer ??= setTimeout(settle, rest);
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

const WIDE = 1920, NARROW = 1040; // px of a PNG; of a figure in it that has no need of more
const TITLE = 34, LONGEST = 90; // px; characters

/** Save an element's figure, all of it and with a title, as png or svg of 16 to 9. */
export function picture({full: {data, layout}, style}, format, name, {surface, text}, title) {
  const width = Math.max(NARROW, parseFloat(style.minWidth) || 0);
  const size = {width, height: Math.round((width * 9) / 16)};
  const line = [...title.replace(/\s+/g, ' ')];
  const words = (line.length > LONGEST ? [...line.slice(0, LONGEST - 1), '…'] : line).join('');
  const head = {text: words.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/\$/g, '＄'), font: {size: 15, color: text}, x: 0, xref: 'paper', xanchor: 'left', y: 1, yref: 'container', yanchor: 'top', pad: {t: 12}};
  const above = Math.max(0, (layout.legend?.y ?? 1) - 1) * (size.height - layout.height); // a legend's place is a share of the height
  const margin = {...layout.margin, t: layout.margin.t + TITLE + Math.max(0, above)};
  const look = {...layout, ...size, autosize: false, paper_bgcolor: surface, plot_bgcolor: surface, title: head, margin};
  return window.Plotly.downloadImage({data, layout: look}, {...size, format, filename: name, scale: format === 'png' ? WIDE / width : 1});
}

/** plotly's camera, but of the full figure, labels and all, over the ranges that are on screen, and not on nothing: it may
 * be put on paper of another colour. */
function download(element) {
  const {full: {data, layout}, layout: {xaxis, yaxis}, offsetWidth: width, offsetHeight: height} = element;
  const ranges = {xaxis: {...layout.xaxis, range: xaxis?.range}, yaxis: {...layout.yaxis, range: yaxis?.range}};
  const surface = getComputedStyle(element).getPropertyValue('--surface').trim();
  const {race, method, round} = element.closest('[data-race]').dataset, report = element.closest('[data-part=benchmarks]')?.dataset.drawn;
  const filename = report ?? `${race}-${method}-round${Number(round) + 1}-${element.dataset.figure ?? 'timeline'}`;
  window.Plotly.downloadImage({data, layout: {...layout, ...ranges, paper_bgcolor: surface, plot_bgcolor: surface}}, {width, height, filename});
}

/** The configuration with that button. Always the same function: plotly starts anew where a configuration differs. */
function withDownload(Plotly, config) {
  const camera = {name: 'download', title: 'Download as a picture', icon: Plotly.Icons.camera, click: download};
  return {...config, modeBarButtonsToAdd: [camera]};
}
