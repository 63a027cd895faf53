// The timeline is the scrubber: a slider, the figure of all rounds with a playhead over it, and the replay.

import {tell, show as reveal} from './dom.js';
import {fixed} from './format.js';
import {doneAt, length, longest, paced, roundAt, ticking} from './race.js';

const PASSES_PER_SECOND = 8; // of the replay on the clock of passes
const SLOW = 10; // seconds that a race takes in slow motion

/** `go({round})` moves the playhead; `frame(time)` shows the race at a time of the clock, null at rest. */
export function timelineView(part, go, frame) {
  const slider = part('scrub'), plot = part('timeline'), head = part('playhead'), play = part('play'), counter = part('count');
  const help = counter.dataset.help;
  const spoken = [counter, part('why'), part('fate')]; // what is read out when it changes
  let lane = null, figure = null, replay = null, width = 0;

  slider.addEventListener('input', () => go({round: Number(slider.value), node: null}));
  plot.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || !figure || event.target.closest('.modebar, .legend, .legend2')) return;
    const over = new AbortController();
    const drag = (move) => go({round: roundUnder(move), node: null});
    const on = (kind, act) => window.addEventListener(kind, (one) => one.pointerId === event.pointerId && act(one), {signal: over.signal});
    on('pointermove', drag);
    on('pointerup', (up) => { drag(up); over.abort(); });
    on('pointercancel', () => over.abort()); // the browser takes the swipe for scrolling
    if (event.pointerType !== 'touch') drag(event);
  }, true);
  new ResizeObserver(() => { width = plot.clientWidth; if (lane) placeHead(); }).observe(plot);

  return {show, at, toggle, pace, stop, playing: () => replay !== null};

  /** Another lane or race: its figure and its number of rounds. */
  function show(next, nextFigure) {
    lane = next;
    figure = nextFigure;
    slider.max = Math.max(0, lane.rounds.at.length - 1);
    counter.style.minWidth = `${counted(lane.rounds.at.length - 1).length}ch`; // what is beside it stays where it is
    plot.style.height = `${figure.layout.height}px`;
    head.style.top = `${figure.layout.margin.t}px`; // below the legend
  }

  /** Move slider, counter and playhead to a round. */
  function at(round) {
    slider.value = round;
    slider.setAttribute('aria-valuetext', counted(round).replace('/', 'of'));
    tell(counter, counted(round));
    counter.dataset.help = [help, ...took(round)].join(' ');
    placeHead();
  }

  function counted(round) {
    const count = lane.rounds.at.length;
    return count ? `round ${round + 1} / ${count}` : 'no rounds';
  }

  /** What the figure tells of a round where it is pointed at. */
  function took(round) {
    if (!lane.summary.tps) return []; // no rounds, or no times
    const told = ['draft', 'verify', 'overhead'].map((phase) => `${phase} ${fixed(1000 * lane.rounds[phase][round], 2)} ms`);
    return [`This one: ${told.join(', ')}.`];
  }

  function placeHead() {
    if (!reveal(head, lane.rounds.at.length > 0)) return;
    const {left, scale, low} = axis();
    head.style.transform = `translateX(${left + (Number(slider.value) - low) * scale}px)`;
  }

  function roundUnder(event) {
    const {left, scale, low} = axis();
    const round = Math.round(low + (event.clientX - plot.getBoundingClientRect().left - left) / scale);
    return Math.min(Math.max(round, 0), lane.rounds.at.length - 1);
  }

  /** The x axis: its left edge in px, px a round, the round at its left edge. */
  function axis() {
    const {l, r} = figure.layout.margin;
    const [low, high] = figure.layout.xaxis.range;
    return {left: l, scale: (width - l - r) / (high - low), low};
  }

  /** Start the replay, at `speed` times the true one or in slow motion, from the round shown (from the start, if that is the last), or
   * have it pause or go on. Where it is over the playhead stays at the last round, or goes to the round `end`. */
  function toggle(race, own, {round, clock: wanted, speed}, end = own.rounds.at.length - 1) {
    if (replay) return replay.frame ? pause() : run();
    const clock = ticking(race, wanted);
    const begin = round <= 0 || round >= own.rounds.at.length - 1 ? 0 : doneAt(own, round, clock);
    replay = {race, own, end, clock, speed: paced(race, clock, speed), begin, time: begin, started: null, frame: null};
    run();
  }

  function run() {
    replay.frame = requestAnimationFrame(step);
    play.textContent = '▮▮ Pause';
    for (const one of spoken) one.setAttribute('aria-live', 'off'); // nobody can listen that fast
  }

  /** Hold the picture until it goes on from there, or until a move. */
  function pause() {
    cancelAnimationFrame(replay.frame);
    Object.assign(replay, {begin: replay.time, started: null, frame: null});
    play.textContent = '▶ Play';
    for (const one of spoken) one.setAttribute('aria-live', 'polite');
  }

  function step(now) {
    if (!replay?.frame) return; // this frame was asked for before it was stopped
    replay.started ??= now;
    const {race, own, end, clock, speed, begin, started} = replay;
    const whole = length(longest(race, clock), clock);
    const rate = speed === 'slow' ? whole / SLOW : Number(speed) * (clock === 'passes' ? PASSES_PER_SECOND : 1);
    const time = begin + ((now - started) / 1000) * rate;
    if (time >= whole) {
      stop();
      return go({round: end, node: null}, true); // nobody moved: what is said stays
    }
    replay.time = time;
    replay.frame = requestAnimationFrame(step);
    frame(time);
    go({round: roundAt(own, time, clock), node: null}, true);
  }

  /** A replay goes on at the speed and on the clock that are chosen now: on another one from the round that it has got
   * to, in the lane shown or, where that is through, in the one that takes the longest. */
  function pace({clock: wanted, speed: chosen}) {
    if (!replay) return;
    const {race, own, time, clock: before} = replay, clock = ticking(race, wanted), speed = paced(race, clock, chosen);
    if (clock === before && speed === replay.speed) return;
    const guide = time < length(own, before) ? own : longest(race, before);
    const begin = clock === before || !time ? time : doneAt(guide, roundAt(guide, time, before), clock);
    Object.assign(replay, {clock, speed, begin, time: begin, started: null});
    if (!replay.frame) frame(begin);
  }

  function stop() {
    if (!replay) return;
    pause();
    replay = null;
    frame(null);
  }
}
