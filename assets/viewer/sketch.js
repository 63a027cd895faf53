// The tree on a canvas, the same marks at the same places as in plotly's picture: before plotly is there, and where rounds
// follow one another too fast for it.

import {clear, share, write} from './labels.js';

const CORNERS = {diamond: [4, 1.3, 0], square: [4, Math.SQRT2, Math.PI / 4], 'triangle-up': [3, 1.15, 0], 'triangle-down': [3, 1.15, Math.PI],
  'triangle-left': [3, 1.15, -Math.PI / 2], 'triangle-right': [3, 1.15, Math.PI / 2], pentagon: [5, 1, 0], hexagon: [6, 1, 0], hexagon2: [6, 1, Math.PI / 6], octagon: [8, 1, Math.PI / 8],
  star: [5, 1.4, 0], 'star-diamond': [4, 1.4, 0], 'star-square': [4, 1.55, Math.PI / 4], 'star-triangle-up': [3, 1.6, 0], 'star-triangle-down': [3, 1.6, Math.PI]};
const DASHES = {dot: [3, 3], '2px,2px': [2, 2]}; // px
const NOTCH = 0.38; // of a star's radius

/** The frame of a figure that plotly has not drawn, as plotly describes it, in a width in px. */
export function frame({margin: {l, r, t, b}, height, xaxis, yaxis}, width) {
  return {
    width, height,
    xaxis: {range: xaxis.range, _offset: l, _length: width - l - r},
    yaxis: {range: yaxis.range, _offset: t, _length: height - t - b},
  };
}

/** Draw a figure without its labels (labels.js) on a canvas, and the labels over it. */
export function sketch(canvas, {data, layout}, labels, {width, height, xaxis, yaxis}, colors) {
  const pen = clear(canvas, {width, height});
  const [left, wide, top, high] = [xaxis._offset, xaxis._length, yaxis._offset, yaxis._length];
  const [across, down] = [(x) => left + wide * share(x, xaxis), (y) => top + high * (1 - share(y, yaxis))];
  const inside = (x, y) => x >= left && x <= left + wide && y >= top && y <= top + high;
  pen.save();
  pen.beginPath();
  pen.rect(left, top, wide, high);
  pen.clip();
  for (const shape of layout.shapes) {
    if (shape.type === 'rect') shade(pen, shape, layout.font.family, [across(shape.x0), across(shape.x1)], [top, high]);
  }
  for (const trace of data) if (trace.mode === 'lines') curves(pen, trace, across, down);
  pen.restore();
  for (const {mode, x, y, marker} of data) {
    if (mode === 'lines') continue;
    x.forEach((_, at) => { if (inside(across(x[at]), down(y[at]))) mark(pen, marker, at, across(x[at]), down(y[at])); });
  }
  for (const {type, xanchor, yanchor, x1, line} of layout.shapes) {
    if (type === 'circle' && inside(across(xanchor), down(yanchor))) {
      stroke(pen, line, () => pen.arc(across(xanchor), down(yanchor), x1, 0, 2 * Math.PI));
    }
  }
  write(pen, {xaxis, yaxis}, labels, colors.surface);
}

const pick = (value, at) => (Array.isArray(value) ? value[at] : value);

function shade(pen, {fillcolor, line, label: {text, font}}, family, [from, to], [top, high]) {
  pen.fillStyle = fillcolor;
  pen.fillRect(from, top, to - from, high);
  stroke(pen, line, () => pen.rect(from, top, to - from, high));
  pen.font = `${font.size}px ${family}`;
  Object.assign(pen, {fillStyle: font.color, textAlign: 'center', textBaseline: 'top'});
  pen.fillText(text, (from + to) / 2, top + 5);
}

/** Edges, with gaps between them: each from its first to its last point, level at both. */
function curves(pen, {x, y, line}, across, down) {
  stroke(pen, line, () => {
    let begin = 0;
    for (let at = 0; at <= x.length; at += 1) {
      if (at < x.length && x[at] !== null) continue;
      if (at > begin) {
        const [left, right] = [across(x[begin]), across(x[at - 1])];
        const [from, to] = [down(y[begin]), down(y[at - 1])];
        pen.moveTo(left, from);
        pen.bezierCurveTo((2 * left + right) / 3, from, (left + 2 * right) / 3, to, right, to); // through plotly's points
      }
      begin = at + 1;
    }
  });
}

function mark(pen, {symbol = 'circle', size, color, opacity = 1, line}, at, x, y) {
  const radius = pick(size, at) / 2;
  const [corners, stretch, turn] = CORNERS[pick(symbol, at)] ?? [];
  const notched = pick(symbol, at).startsWith('star');
  pen.globalAlpha = pick(opacity, at);
  pen.beginPath();
  if (!corners) pen.arc(x, y, radius, 0, 2 * Math.PI);
  for (let point = 0; point < (corners ?? 0) * (1 + notched); point += 1) {
    const angle = turn + (2 * Math.PI * point) / (corners * (1 + notched));
    const reach = radius * stretch * (notched && point % 2 ? NOTCH : 1);
    pen.lineTo(x + reach * Math.sin(angle), y - reach * Math.cos(angle));
  }
  pen.closePath();
  const open = symbol === 'circle-open';
  pen.fillStyle = pick(color, at);
  if (!open) pen.fill();
  pen.globalAlpha = 1;
  if (line?.width) {
    Object.assign(pen, {lineWidth: line.width, strokeStyle: open ? color : line.color});
    pen.stroke();
  }
}

function stroke(pen, {width, color, dash}, path) {
  Object.assign(pen, {lineWidth: width, strokeStyle: color});
  pen.setLineDash(DASHES[dash] ?? []);
  pen.beginPath();
  path();
  pen.stroke();
  pen.setLineDash([]);
}
