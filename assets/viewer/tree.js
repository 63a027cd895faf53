// The tree's plot: what changes with the round goes to plotly, its legend is drawn once, its labels have a layer of
// their own: both would slow every redraw. Where rounds follow one another faster than plotly draws them, they are
// sketched, and plotly draws the one that is shown at rest. A download is drawn by plotly alone, from the full figure.

import {h} from './dom.js';
import {draw, place, react} from './figures.js';
import {enlarged, labelLayer, lift, roomy} from './labels.js';
import {frame, sketch} from './sketch.js';

const SPACE = 4; // px between the legend and the tree
const REST = 120; // ms after a figure in which the next one is sketched
const BESIDE = 0.6; // levels beside a node that its label may take
const STILL = 100; // ms after which a width that changes is at rest
const RING = {type: 'scatter', mode: 'markers', hoverinfo: 'skip', showlegend: false, cliponaxis: false,
  marker: {symbol: 'circle-open', size: 26, line: {width: 2}}}; // around the node that the inspector shows

/** A view of trees in `box`. */
export function treePlot(box) {
  const key = h('div', {class: 'key', 'aria-hidden': 'true'}), scroll = box.closest('.scroll');
  const quick = h('canvas', {class: 'labels sketch', 'aria-hidden': 'true'});
  let now = null, layer = false, group = null, last = -Infinity, timer = null, waiting = null;
  let top = 0, wide = 0; // px down to the legend's end, which may take several lines, and the width it was drawn for: what can be seen at once
  let again = null, resting = null;
  box.before(key);
  box.after(quick);
  new ResizeObserver(() => {
    clearTimeout(resting);
    resting = setTimeout(() => { if (scroll.clientWidth && scroll.clientWidth !== wide) again?.(); }, STILL);
  }).observe(scroll);
  return {preview, show, settle};

  /** Draw a figure before plotly is there. */
  function preview(figure, colors) {
    const {bare, labels} = parts(legible(figure));
    sketched(bare, labels, frame(bare.layout, box.clientWidth), colors);
  }

  /** Draw a figure with a ring around `node`, in colours of the theme. `like`: equal for figures with the same axes and
   * legend. `drawn()` is called each time that plotly has drawn. */
  function show(Plotly, figure, node, like, colors, config, drawn = () => {}) {
    again = () => { group = null; show(Plotly, figure, node, like, colors, config, drawn); };
    const {data, layout} = legible(figure), at = place(figure, node);
    if (group !== like) drawLegend(Plotly, {data, layout});
    const margin = {...layout.margin, t: Math.max(layout.margin.t, top)}, height = layout.height + margin.t - layout.margin.t;
    const full = {data, layout: {...layout, margin, height, uirevision: like}}; // the zoom is that of one lane's trees
    const {bare, labels} = parts({...full, data: [...data, ring(at, colors.text)]});
    const chosen = at && labels.find(({x, y}) => x === at[0] && y === at[1]);
    if (chosen) chosen.radius = Math.max(chosen.radius, RING.marker.size / 2); // else it lies over the ring
    const hurried = layer && group === like && performance.now() - last < REST;
    waiting = () => {
      now = {labels, behind: colors.surface};
      return draw(Plotly, box, bare, config, full).then(() => {
        if (!layer) labelLayer(box, () => now);
        layer = true;
        if (at) follow(at);
        box.parentElement.classList.toggle('sketched', waiting !== null);
        drawn();
      });
    };
    clearTimeout(timer);
    if (hurried) {
      box.dataset.drawn = 'no';
      sketched(bare, labels, box._fullLayout, colors);
      timer = setTimeout(settle, REST);
    } else {
      group = like;
      settle();
    }
    last = performance.now(); // drawing may take longer than REST
  }

  /** Where not the whole tree is in sight, bring the chosen node there, and the level below it, on which the bonus is. */
  function follow([x]) {
    const {xaxis} = box._fullLayout, [first, second] = xaxis.tickvals, level = second - first;
    const left = xaxis._offset + xaxis.l2p(x - BESIDE * level), right = xaxis._offset + xaxis.l2p(x + (1 + BESIDE) * level);
    const {scrollLeft, clientWidth} = scroll;
    if (right > scrollLeft + clientWidth) scroll.scrollLeft = right - clientWidth;
    else if (left < scrollLeft) scroll.scrollLeft = left;
  }

  /** Let plotly draw at once what is only sketched. */
  function settle() {
    const begin = waiting;
    waiting = null;
    begin?.();
  }

  function sketched(figure, labels, axes, colors) {
    box.parentElement.classList.add('sketched');
    sketch(quick, figure, labels, axes, colors);
  }

  /** A figure with small print that can be read where it is shown. */
  function legible({data, layout}) {
    const larger = (one, name, times = enlarged(box)) => ({...one, [name]: {...one[name], size: one[name].size * times}});
    const room = roomy(box, parseFloat(box.style.minWidth)); // for labels beside each other
    const shapes = layout.shapes.map((shape) => (shape.label ? {...shape, label: larger(shape.label, 'font')} : shape));
    const labelled = data.map((trace) => (trace.mode === 'markers+text' ? larger(trace, 'textfont', room) : trace));
    return {data: labelled, layout: {...layout, shapes, xaxis: larger(layout.xaxis, 'tickfont'), legend: larger(layout.legend, 'font')}};
  }

  function drawLegend(Plotly, figure) {
    const {legend: data} = parts(figure), {layout} = figure, nothing = {visible: false};
    key.parentElement.style.minWidth = box.style.minWidth; // as far as it goes along
    wide = scroll.clientWidth;
    key.style.width = `${wide}px`;
    Plotly.purge(key); // else a legend stays where it was when it had more lines
    react(Plotly, key, {data, layout: {...layout, xaxis: nothing, yaxis: nothing, shapes: []}}, {staticPlot: true});
    const legend = key.querySelector('.legend')?.getBoundingClientRect();
    top = legend ? legend.bottom - key.getBoundingClientRect().top + SPACE : 0;
  }
}

/** A figure without labels and legend, and both of them. */
function parts(figure) {
  const {bare: {data, layout}, labels} = lift(figure);
  const ofLegend = (trace) => trace.showlegend !== false;
  return {
    bare: {data: data.filter((trace) => !ofLegend(trace)), layout: {...layout, showlegend: false}},
    labels, legend: data.filter(ofLegend),
  };
}

function ring(at, color) {
  return {...RING, marker: {...RING.marker, color}, x: at ? [at[0]] : [], y: at ? [at[1]] : []};
}
