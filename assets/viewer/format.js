// Numbers as the page writes them.

export const WORDS = {
  tps: 'Tokens a second after the first token, by this lane’s own wall clock on its device, which is named above when the lane is chosen. Neither prefill nor the recording of CUDA graphs or tapes is counted.',
  speedup: 'Tokens a second of this lane over those of vanilla in the same race: of one run, which says little on a busy machine.',
  tau: 'Mean tokens that one verify pass of the target adds to the text; the bonus token counts. Vanilla is 1.',
  seconds: 'Seconds of wall clock that this lane needed for its text, prefill included, the recording of CUDA graphs or tapes not.',
  passes: 'Passes of the target that this lane needed for its text, prefill not counted.',
  bar: 'How far this lane is at the time of the clock; at rest, when the first lane has finished. Prefill counts, unlike in tok/s.',
};

export const fixed = (value, digits) => (value === null || value === undefined ? '–' : even(value, digits));

/** What lies between two numbers is the even one, as in Python's sentences: 2.125 is 2.12 in all places. */
function even(value, digits) {
  const text = value.toFixed(digits), between = (value * 2 ** (digits + 1)) % 2 === 1;
  return between && text.at(-1) % 2 ? (value - 0.25 * 10 ** -digits).toFixed(digits) : text;
}

export const seconds = (value) => (value === 0 ? '–' : value < 1 ? `${fixed(value * 1000, 0)} ms` : `${fixed(value, 2)} s`);

/** A cell of the inspector or the table: format is one of token, rank, share, log, exp (a logarithm, shown as the share), number, word. */
export function cell(value, field, lane, words) {
  if (value === null || value === undefined) return '–';
  switch (field.format) {
    case 'token': return `${token(lane, value)}  ${value}`;
    case 'rank': return ordinal(value);
    case 'share': return value !== 0 && value < 0.0001 ? value.toExponential(1) : value.toFixed(4);
    case 'log': return signed(value);
    case 'exp': return cell(Math.exp(value), {...field, format: 'share'}, lane, words);
    case 'word': return words[field.key]?.[value] ?? String(value);
    default: return Number.isInteger(value) ? String(value) : signed(value);
  }
}

const signed = (value) => (Math.abs(value) < 0.0005 ? '0.000' : value.toFixed(3).replace('-', '−'));
const ORDINALS = new Intl.PluralRules('en', {type: 'ordinal'});
const ENDINGS = {one: 'st', two: 'nd', few: 'rd', other: 'th'};
const ordinal = (value) => `${value}${ENDINGS[ORDINALS.select(value)]}`;

const LEFTWARDS = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC]/; // letters of Hebrew, Arabic and the like
const GLYPHS = {' ': '␣', '\n': '⏎', '\r': '␍', '\t': '⇥'};

/** A token's text on one line: glyphs for white space, code points for what has no shape or reorders its neighbours. */
export function token(lane, id) {
  const text = lane.pieces?.[id] ?? `<${id}>`;
  const said = [...text].map((char, at) => GLYPHS[char] ?? shaped(char, at)).join('') || '∅';
  return LEFTWARDS.test(said) ? `${said}\u200E` : said; // else a number after it would be drawn among its letters
}

const shapeless = (char, at) => /[\p{C}\p{Z}]/u.test(char) || (at === 0 && /\p{M}/u.test(char)); // a mark needs what it is put on
const coded = (char) => `·${char.codePointAt(0).toString(16).toUpperCase()}`;
const shaped = (char, at) => (shapeless(char, at) ? coded(char) : char);

/** A token's text among others: as it is, but code points for what would reorder all that follows. */
export const inOrder = (text) => text.replace(/[\u202A-\u202E\u2066-\u2069]/g, coded);
