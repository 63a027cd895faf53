// The tree before plotly is there: the same marks at the same places, on a canvas that plotly's picture replaces.

import {clear, write} from './labels.js';

const CORNERS = {diamond: [4, 1.3, 0], square: [4, Math.SQRT2, Math.PI / 4], 'triangle-up': [3, 1.15, 0], star: [5, 1.4, 0]};
const NOTCH = 0.38; // of a star's radius

/** Draw a figure without its labels (labels.js) on a canvas of some width, and the labels over it. */
export function sketch(canvas, {data, layout}, labels, width, colors) {
  const {margin: {l, r, t, b}, height} = layout;
  const axes = {
    xaxis: {range: layout.xaxis.range, _offset: l, _length: width - l - r},
    yaxis: {range: layout.yaxis.range, _offset: t, _length: height - t - b},
  };
  const pen = clear(canvas, {width, height});
  const across = (x) => place(x, axes.xaxis);
  const down = (y) => t + height - b - place(y, axes.yaxis);
  for (const {type, x0, x1, fillcolor} of layout.shapes) {
    pen.fillStyle = fillcolor;
    if (type === 'rect') pen.fillRect(across(x0), t, across(x1) - across(x0), height - t - b);
  }
  for (const trace of data) {
    if (trace.mode === 'lines') curves(pen, trace, across, down);
    else trace.x.forEach((x, at) => mark(pen, trace.marker, at, across(x), down(trace.y[at])));
  }
  for (const {type, xanchor, yanchor, x1, line} of layout.shapes) {
    if (type === 'circle') stroke(pen, line, () => pen.arc(across(xanchor), down(yanchor), x1, 0, 2 * Math.PI));
  }
  write(pen, axes, labels, colors.surface);
}

const place = (value, {range: [low, high], _offset, _length}) => _offset + (_length * (value - low)) / (high - low);
const pick = (value, at) => (Array.isArray(value) ? value[at] : value);

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
        pen.bezierCurveTo((left + right) / 2, from, (left + right) / 2, to, right, to);
      }
      begin = at + 1;
    }
  });
}

function mark(pen, {symbol = 'circle', size, color, opacity = 1, line}, at, x, y) {
  const radius = pick(size, at) / 2;
  const [corners, stretch, turn] = CORNERS[pick(symbol, at)] ?? [];
  const notched = pick(symbol, at) === 'star';
  pen.globalAlpha = pick(opacity, at);
  pen.beginPath();
  if (!corners) pen.arc(x, y, radius, 0, 2 * Math.PI);
  for (let point = 0; point < (corners ?? 0) * (1 + notched); point += 1) {
    const angle = turn + (2 * Math.PI * point) / (corners * (1 + notched));
    const reach = radius * stretch * (notched && point % 2 ? NOTCH : 1);
    pen.lineTo(x + reach * Math.sin(angle), y - reach * Math.cos(angle));
  }
  pen.closePath();
  pen.fillStyle = pick(color, at);
  pen.fill();
  pen.globalAlpha = 1;
  if (line?.width) {
    Object.assign(pen, {lineWidth: line.width, strokeStyle: line.color});
    pen.stroke();
  }
}

function stroke(pen, {width, color, dash}, path) {
  Object.assign(pen, {lineWidth: width, strokeStyle: color});
  pen.setLineDash(dash && dash !== 'solid' ? [2, 2] : []);
  pen.beginPath();
  path();
  pen.stroke();
  pen.setLineDash([]);
}
