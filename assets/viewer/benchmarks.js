// What was measured: reports of benchmarks/, fetched when the view is first opened.

import {h, show as reveal, tabled} from './dom.js';
import {draw, whole} from './figures.js';
import {reached} from './race.js';

const LATER = 'They are shown below a race that is over, and there is none now.';

/** The view of reports. `go({bench})` names the one that is open, '' when none is. */
export function benchmarksView(part, go, say) {
  const box = part('benchmarks'), choice = part('report');
  let asked = null, shown = null, failed = false, opened = false;

  box.querySelector('summary').addEventListener('click', (event) => { // the state opens it, and only that
    event.preventDefault();
    opened = !opened; // before it shows, which is within a frame
    go({bench: opened ? 'first' : ''});
  });
  choice.addEventListener('change', () => go({bench: choice.value}));
  return {at, experiments, renew};

  /** Show a report in a theme, or none; what no report is called is the first one. */
  function at(name, theme, Plotly) {
    box.open = opened = Boolean(name);
    if (!name) failed = false; // opened again, they are asked for again
    if (!name || !Plotly || failed) return;
    all().then((found) => fill(found, name, theme, Plotly), (error) => {
      if (!failed) say(`The benchmarks could not be read: ${error.message}`);
      failed = true;
    });
  }

  function all() {
    return asked ??= read().catch((error) => { asked = null; throw error; });
  }

  /** A race may have measured which tree pays: what is shown next is asked for again. */
  function renew() { asked = shown = null; }

  async function read() {
    const answer = await reached('benchmarks.json');
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  }

  /** What experiments found: an element for each, with a button that opens its report. For a dialog, which it closes. */
  async function experiments() {
    const {reports} = await all();
    return reports.filter((report) => report.summary.length).map((report) => {
      const button = h('button', {}, 'Figures and tables'), why = h('p', {class: 'none', role: 'status', hidden: true}, LATER);
      button.addEventListener('click', (event) => {
        if (reveal(why, part('stage').matches('.running, [hidden]'))) return event.preventDefault(); // the dialog stays
        go({bench: report.name, present: ''}); // where a race is presented, they are not shown
        box.open = true;
        requestAnimationFrame(() => box.scrollIntoView()); // when all of that is done
      });
      return h('form', {method: 'dialog'}, h('h3', {}, report.figures[0].title), h('p', {}, report.summary.join(' ')), button, why);
    });
  }

  function fill({reports, themes, config}, name, theme, Plotly) {
    const report = reports.find((one) => one.name === name) ?? reports[0];
    if (report) choice.value = report.name;
    if (!report || shown === `${report.name} ${theme}`) return;
    shown = `${report.name} ${theme}`;
    choice.replaceChildren(...reports.map((one) => h('option', {value: one.name}, one.title)));
    choice.value = report.name;
    part('report-summary').textContent = report.summary.join(' ');
    reveal(part('report-summary'), report.summary.length > 0);
    part('report-facts').replaceChildren(...report.facts.flatMap(([label, text]) => [h('dt', {}, label), h('dd', {}, text)]));
    part('report-table').replaceChildren(table(report.table));
    const plots = report.figures.map((figure) => h('div', {class: 'plot', role: 'group', 'aria-label': `Figure: ${figure.title}`, style: `min-width: ${figure.min_width}px`}));
    for (const plot of part('report-figures').querySelectorAll('.plot')) Plotly.purge(plot); // it would stay with the window
    part('report-figures').replaceChildren(...report.figures.flatMap((figure, index) =>
      [h('h3', {}, figure.title), h('div', {class: 'scroll'}, plots[index])]));
    Promise.all(report.figures.map((figure, index) => draw(Plotly, plots[index], whole(figure, themes[theme]), config)))
      .then(() => { box.dataset.drawn = report.name; });
  }
}

function table({head, rows}) {
  return tabled(head, rows.map(([first, ...rest]) =>
    h('tr', {}, h('th', {scope: 'row'}, first), ...rest.map((text) => h('td', {}, text)))));
}
