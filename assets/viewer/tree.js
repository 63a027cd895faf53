// The tree's plot: what changes with the round goes to plotly, its legend is drawn once, its labels have a layer of
// their own: both would slow every redraw. A download is drawn by plotly alone, from the full figure.

import {h} from './dom.js';
import {draw, place, react} from './figures.js';
import {labelLayer, lift} from './labels.js';
import {sketch} from './sketch.js';

const RING = {type: 'scatter', mode: 'markers', hoverinfo: 'skip', showlegend: false, cliponaxis: false,
  marker: {symbol: 'circle-open', size: 26, line: {width: 2}}}; // around the node that the inspector shows

/** A view of trees in `box`. */
export function treePlot(box) {
  const key = h('div', {class: 'key', 'aria-hidden': 'true'});
  const first = h('canvas', {class: 'labels sketch', 'aria-hidden': 'true'}); // what is seen before plotly is there
  let now = null, layer = false, shown = null;
  box.after(key, first);
  return {show, preview};

  /** Draw a figure without plotly. */
  function preview(figure, colors) {
    const {bare, labels} = lift(figure);
    const drawn = bare.data.filter((trace) => trace.showlegend === false);
    sketch(first, {data: drawn, layout: bare.layout}, labels, box.clientWidth, colors);
  }

  /** Draw a figure with a ring around `node`, in colours of the theme. `group`: figures with the same legend. */
  function show(Plotly, figure, node, group, colors, config) {
    ring(figure, node, colors.text);
    const {bare, labels} = lift(figure);
    const rest = bare.data.filter((trace) => trace.showlegend === false);
    if (shown !== group) legend(Plotly, bare);
    shown = group;
    now = {labels, behind: colors.surface};
    return draw(Plotly, box, {data: rest, layout: {...bare.layout, showlegend: false}}, config, figure)
      .then(() => { if (!layer) labelLayer(box, () => now); layer = true; first.remove(); });
  }

  function legend(Plotly, {data, layout}) {
    key.style.minWidth = box.style.minWidth;
    const nothing = {visible: false};
    const look = {...layout, xaxis: nothing, yaxis: nothing, shapes: []};
    react(Plotly, key, {data: data.filter((trace) => trace.showlegend !== false), layout: look}, {staticPlot: true, responsive: true});
  }
}

function ring(figure, node, color) {
  const at = place(figure, node);
  figure.data.push({...RING, marker: {...RING.marker, color}, x: at ? [at[0]] : [], y: at ? [at[1]] : []});
}
