// The tree's plot: what changes with the round goes to plotly, its legend is drawn once, its labels have a layer of
// their own: both would slow every redraw. Where rounds follow one another faster than plotly draws them, they are
// sketched, and plotly draws the one that is shown at rest. A download is drawn by plotly alone, from the full figure.

import {h} from './dom.js';
import {draw, place, react} from './figures.js';
import {labelLayer, lift} from './labels.js';
import {frame, sketch} from './sketch.js';

const SPACE = 4; // px between the legend and the tree
const REST = 120; // ms after a figure in which the next one is sketched
const RING = {type: 'scatter', mode: 'markers', hoverinfo: 'skip', showlegend: false, cliponaxis: false,
  marker: {symbol: 'circle-open', size: 26, line: {width: 2}}}; // around the node that the inspector shows

/** A view of trees in `box`. */
export function treePlot(box) {
  const key = h('div', {class: 'key', 'aria-hidden': 'true'});
  const quick = h('canvas', {class: 'labels sketch', 'aria-hidden': 'true'});
  let now = null, layer = false, group = null, last = -Infinity, timer = null, waiting = null;
  let top = 0; // px that the legend takes: in a narrow box several lines
  box.after(key, quick);
  return {preview, show, settle};

  /** Draw a figure before plotly is there. */
  function preview(figure, colors) {
    const {bare, labels} = parts(figure);
    sketched(bare, labels, frame(bare.layout, box.clientWidth), colors);
  }

  /** Draw a figure with a ring around `node`, in colours of the theme. `like`: equal for figures with the same axes and
   * legend. `drawn()` is called each time that plotly has drawn. */
  function show(Plotly, figure, node, like, colors, config, drawn = () => {}) {
    figure.layout.uirevision = like; // the zoom is that of one lane's trees
    if (group !== like) drawLegend(Plotly, figure);
    figure.layout.margin = {...figure.layout.margin, t: Math.max(figure.layout.margin.t, top)};
    ring(figure, node, colors.text);
    const {bare, labels} = parts(figure);
    const hurried = layer && group === like && performance.now() - last < REST;
    waiting = () => {
      now = {labels, behind: colors.surface};
      return draw(Plotly, box, bare, config, figure).then(() => {
        if (!layer) labelLayer(box, () => now);
        layer = true;
        box.parentElement.classList.toggle('sketched', waiting !== null);
        drawn();
      });
    };
    last = performance.now();
    clearTimeout(timer);
    if (hurried) {
      box.dataset.drawn = 'no';
      sketched(bare, labels, box._fullLayout, colors);
      timer = setTimeout(settle, REST);
    } else {
      group = like;
      settle();
    }
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

  function drawLegend(Plotly, figure) {
    const {legend: data} = parts(figure), {layout} = figure, nothing = {visible: false};
    key.style.minWidth = box.style.minWidth;
    react(Plotly, key, {data, layout: {...layout, xaxis: nothing, yaxis: nothing, shapes: []}}, {staticPlot: true, responsive: true});
    top = key.querySelector('.legend')?.getBoundingClientRect().height ?? 0;
    top += SPACE;
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

function ring(figure, node, color) {
  const at = place(figure, node);
  figure.data.push({...RING, marker: {...RING.marker, color}, x: at ? [at[0]] : [], y: at ? [at[1]] : []});
}
