// Figures as files. The shadow that covers the lines behind a label is not what every program draws: in a picture each
// has a box behind it.

const WIDE = 1920, NARROW = 1040; // px of a PNG; of a figure in it that has no need of more
const TITLE = 34, BELOW = 18, LONGEST = 90; // px; of the line below it; characters
const SLIM = 0.8; // height of the box behind a label, of the text's

/** Save an element's figure, all of it and with a title and a line below it, as png or svg of 16 to 9. */
export function picture({full: {data, layout}, style}, format, name, {surface, text, muted}, title, small) {
  const tall = ((layout.height + TITLE + BELOW) * 16) / 9; // at less the labels of a large tree would lie over one another
  const width = 16 * Math.ceil(Math.max(NARROW, parseFloat(style.minWidth) || 0, tall) / 16); // whole pixels high, too
  const size = {width, height: (width * 9) / 16};
  const look = {x: 0, xref: 'paper', xanchor: 'left', y: 1, yref: 'container', yanchor: 'top', pad: {t: 12}};
  const subtitle = {text: plain(small, 2 * LONGEST), font: {size: 11, color: muted}};
  const head = {...look, text: plain(title, LONGEST), font: {size: 15, color: text}, subtitle};
  const above = Math.max(0, (layout.legend?.y ?? 1) - 1) * (size.height - layout.height); // a legend's place is a share of the height
  const margin = {...layout.margin, t: layout.margin.t + TITLE + BELOW + Math.max(0, above)};
  const whole = {...layout, ...size, autosize: false, paper_bgcolor: surface, plot_bgcolor: surface, title: head, margin};
  return save({data, layout: whole}, size, format, name, surface, format === 'png' ? WIDE / width : 1);
}

/** In one line, not longer than that, and nothing of it mark-up. */
function plain(words, longest) {
  const line = [...words.replace(/\s+/g, ' ')];
  const cut = line.length > longest ? [...line.slice(0, longest - 1), '…'] : line;
  return cut.join('').replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/\$/g, '＄');
}

/** plotly's camera, but of the full figure, labels and all, over the ranges that are on screen, and not on nothing: it may
 * be put on paper of another colour. */
export function download(element) {
  const {full: {data, layout}, layout: drawn, offsetWidth: width, offsetHeight: height} = element;
  const axes = Object.keys(layout).filter((name) => /^[xy]axis/.test(name));
  const ranges = Object.fromEntries(axes.map((name) => [name, {...layout[name], range: drawn[name].range}]));
  const surface = getComputedStyle(element).getPropertyValue('--surface').trim();
  const {race, method, round} = element.closest('[data-race]').dataset, report = element.closest('[data-part=benchmarks]')?.dataset.drawn;
  const name = report ?? `${race}-${method}-round${Number(round) + 1}-${element.dataset.figure ?? 'timeline'}`;
  const look = {...layout, ...ranges, paper_bgcolor: surface, plot_bgcolor: surface};
  return save({data, layout: look}, {width, height}, 'png', name, surface, 2);
}

async function save(figure, {width, height}, format, name, surface, scale) {
  const url = await window.Plotly.toImage(figure, {format: 'svg', width, height});
  const svg = new DOMParser().parseFromString(decodeURIComponent(url.slice(url.indexOf(',') + 1)), 'image/svg+xml').documentElement;
  document.body.append(svg); // else nothing of it has a size
  svg.style.cssText = 'position: absolute; visibility: hidden';
  for (const layer of svg.querySelectorAll('.scatterlayer')) labelsOnTop(layer, surface);
  svg.remove();
  svg.removeAttribute('style');
  const vector = new Blob([new XMLSerializer().serializeToString(svg)], {type: 'image/svg+xml'});
  const file = format === 'svg' ? vector : await raster(vector, width * scale, height * scale);
  const link = Object.assign(document.createElement('a'), {href: URL.createObjectURL(file), download: `${name}.${format}`});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a browser may ask first where to put it
}

/** Labels above all lines and points, the path's first: one that would lie over another is left out. */
function labelsOnTop(layer, surface) {
  const bold = (label) => Number(label.querySelector('text').innerHTML.includes('bold'));
  const labels = [...layer.querySelectorAll('.textpoint:has(text)')].sort((one, other) => bold(other) - bold(one));
  const kept = [];
  for (const label of labels) {
    const box = label.getBoundingClientRect();
    if (kept.some(({box: one}) => meet(one, box))) label.remove(); else kept.push({label, box});
  }
  for (const {label} of kept) {
    const {x, y, width, height} = label.getBBox();
    for (const text of label.querySelectorAll('text')) text.style.textShadow = 'none';
    const behind = document.createElementNS(layer.namespaceURI, 'rect'), place = {x, y: y + (height * (1 - SLIM)) / 2, width, height: height * SLIM, fill: surface};
    for (const [name, value] of Object.entries(place)) behind.setAttribute(name, value);
    label.prepend(behind);
    layer.append(label);
  }
}

/** Whether two boxes {x, y, width, height} have some of their insides in common. */
export const meet = (one, other) => one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;

async function raster(vector, width, height) {
  const image = new Image();
  image.src = URL.createObjectURL(vector);
  await image.decode();
  const canvas = Object.assign(document.createElement('canvas'), {width: Math.round(width), height: Math.round(height)});
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done, 'image/png'));
}
