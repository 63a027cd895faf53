// Labels of points, painted on one canvas over a plot: as plotly's SVG text they slow every redraw.

import {h} from './dom.js';
import {meet} from './pictures.js';

const GAP = 3, PAD = 1; // px between a point and its label, and around it where it covers the lines behind
const EDGE = 8; // px beside a caption
const FOR_A_TALK = 1.3; // times as large are labels and small print where the race is presented
const pen = document.createElement('canvas').getContext('2d'); // which measures
const ESCAPED = {'&amp;': '&', '&lt;': '<', '&gt;': '>', '&#36;': '$', '&#64;': '@'}; // what labels.py escapes

/** How many times as large text is to be in a figure. */
export const enlarged = (element) => (element.closest('.presenting') ? FOR_A_TALK : 1);

/** The same as far as there is room in the box of a figure whose text fits the width `least` as it is. */
export const roomy = (box, least) => (enlarged(box) > 1 ? Math.max(1, Math.min(enlarged(box), box.clientWidth / least)) : 1);

/** A figure as large as its box asks for and has room for. */
export const large = (box, {data, layout}, least) => {
  const times = roomy(box, least), figure = larger(layout, times);
  figure.annotations = layout.annotations && figure.annotations.map((one) => (one.x === 0 ? broken(one, box.closest('.scroll').clientWidth - figure.margin.l - EDGE, figure.font.family) : one));
  return {data: data.map((trace) => (trace.textfont ? {...trace, textfont: larger(trace.textfont, times, 'textfont')} : trace)), layout: figure};
};

/** A caption in two lines where it is wider than what is seen of its figure. */
function broken(caption, room, family) {
  pen.font = `${caption.font.size}px ${family}`;
  if (room <= 0 || caption.text.includes('<br>') || pen.measureText(caption.text).width <= room) return caption;
  const words = caption.text.split(' ');
  const fits = words.findLastIndex((_, at) => pen.measureText(words.slice(0, at).join(' ')).width <= room);
  return {...caption, align: 'left', text: `${words.slice(0, fits).join(' ')}<br>${words.slice(fits).join(' ')}`};
}

/** A layout with text so many times as large, and with the space for it. */
function larger(value, times, name = '', above = '') {
  if (typeof value === 'number') return (name === 'size' && above.endsWith('font')) || above === 'margin' || ['height', 'yshift'].includes(name) ? value * times : value;
  if (Array.isArray(value)) return value.map((one) => larger(one, times));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, larger(one, times, key, name)]));
}

/** A figure without its labels, and the labels by themselves. */
export function lift({data, layout}) {
  const labels = [];
  const bare = data.map((trace) => {
    if (trace.mode !== 'markers+text') return trace;
    const {text, textfont, textposition, ...rest} = trace;
    text.forEach((html, at) => html && labels.push({
      x: trace.x[at], y: trace.y[at], ...words(html), size: textfont.size, family: textfont.family, color: textfont.color,
      radius: (trace.marker.size?.[at] ?? trace.marker.size) / 2, below: textposition.startsWith('bottom'),
    }));
    return {...rest, mode: 'markers'};
  });
  return {bare: {data: bare, layout}, labels};
}

function words(html) {
  const bold = html.startsWith('<b>');
  const inner = bold ? html.slice(3, -4) : html;
  return {bold, text: inner.replace(/&[^;]+;/g, (entity) => ESCAPED[entity] ?? entity)};
}

/** Keep labels over a plot that has been drawn once, through redraw, zoom and pan. `now()` gives {labels, behind}:
 * `behind` is the colour that covers what is under them. */
export function labelLayer(plot, now) {
  const canvas = h('canvas', {class: 'labels', 'aria-hidden': 'true'});
  plot.querySelector('.main-svg:last-of-type').before(canvas); // below what is hovered
  const paint = () => {
    const {labels, behind} = now();
    write(clear(canvas, plot._fullLayout), plot._fullLayout, labels, behind);
  };
  plot.on('plotly_afterplot', paint);
  plot.on('plotly_relayouting', paint);
  onOtherScreen(paint);
  paint();
}

/** Call `draw()` whenever the window gets another number of pixels to the px, as on another screen; not for paper. */
function onOtherScreen(draw) {
  const scale = window.devicePixelRatio;
  matchMedia(`(resolution: ${scale}dppx)`).addEventListener('change', () => {
    if (window.devicePixelRatio !== scale) draw();
    onOtherScreen(draw);
  }, {once: true});
}

/** An empty canvas of a size in px, and the pen on it. */
export function clear(canvas, {width, height}) {
  const scale = window.devicePixelRatio;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    Object.assign(canvas, {width: Math.round(width * scale), height: Math.round(height * scale)});
    Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** How far a value is along an axis: 0 at the beginning of its range, 1 at the end. */
export const share = (value, {range: [low, high]}) => (value - low) / (high - low);

/** Labels at their places between axes as plotly describes them; `behind` covers what is under them. One that would lie
 * over another is left out: first come those of the path, then those of the likeliest. */
export function write(pen, {xaxis, yaxis}, labels, behind) {
  const taken = [], ranked = [...labels].sort((one, other) => other.bold - one.bold || other.radius - one.radius);
  pen.textBaseline = 'middle';
  for (const {x, y, text, bold, size, family, color, radius, below} of ranked) {
    const right = share(x, xaxis), up = share(y, yaxis);
    if (right < 0 || right > 1 || up < 0 || up > 1) continue; // its point is out of sight too
    const left = xaxis._offset + right * xaxis._length + (below ? 0 : radius + GAP);
    const top = yaxis._offset + (1 - up) * yaxis._length + (below ? radius + GAP + size / 2 : 0);
    pen.font = `${bold ? 'bold ' : ''}${size}px ${family}`;
    pen.textAlign = below ? 'center' : 'left';
    const wide = pen.measureText(text).width;
    const box = {x: left - PAD - (below ? wide / 2 : 0), y: top - size / 2, width: wide + 2 * PAD, height: size};
    if (taken.some((one) => meet(one, box))) continue;
    taken.push(box);
    pen.fillStyle = behind;
    pen.fillRect(box.x, box.y, box.width, box.height);
    pen.fillStyle = color;
    pen.fillText(text, left, top);
  }
}
