// One line of a log as pieces of text with their looks: ANSI colours, and control characters made visible and harmless.
//
// Every line begins without colours: lines are read in any order, so none can depend on the one before.

/** Classes say 16 colours and styles; `color` and `background` hold the 256 and the true ones. */
export interface Piece {
  text: string;
  class: string;
  color?: string;
  background?: string;
}

interface Look {
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
  fore: string; // '' | '0'–'15' | 'rgb(…)'
  back: string;
}

const PLAIN: Look = {
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
  fore: '',
  back: '',
};
// Escapes (colours, cursor moves, titles, links), control characters, and marks that turn the direction of text.
const ODD =
  /\x1b\[([0-?]*)[ -/]*([@-~]?)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-Z\\^-~]?|[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MOST_PIECES = 2000;

export function pieces(line: string): Piece[] {
  const found: Piece[] = [];
  let look = PLAIN;
  let from = 0;
  const add = (text: string, also = ''): void => {
    if (text) found.push(pieceOf(text, look, also));
  };
  for (const match of line.matchAll(ODD)) {
    if (found.length >= MOST_PIECES) break;
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    const first = match[0].charCodeAt(0);
    if (match[2] === 'm') look = changed(look, match[1] ?? '');
    else if (first === 8) takeOneBack(found);
    else if (first !== 0x1b) add(visible(first), 'log-control');
  }
  add(line.slice(from));
  return found;
}

/** The line's text alone, as it is shown. */
export const plain = (line: string): string =>
  /[^\t\x20-\x7e\u00a0-\u0600]/.test(line)
    ? pieces(line)
        .map((piece) => piece.text)
        .join('')
    : line;

function visible(code: number): string {
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
}

function takeOneBack(found: Piece[]): void {
  const last = found[found.length - 1];
  if (!last) return;
  last.text = last.text.slice(0, -1);
  if (!last.text) found.pop();
}

function pieceOf(text: string, look: Look, also: string): Piece {
  const [fore, back] = look.inverse ? [look.back || 'back', look.fore || 'fore'] : [look.fore, look.back];
  const words = [
    also,
    look.bold && 'log-bold',
    look.dim && 'log-dim',
    look.italic && 'log-italic',
    look.underline && 'log-under',
    look.strike && 'log-strike',
  ];
  const piece: Piece = { text, class: '' };
  if (fore.startsWith('rgb')) piece.color = fore;
  else if (fore) words.push(`log-f-${fore}`);
  if (back.startsWith('rgb')) piece.background = back;
  else if (back) words.push(`log-b-${back}`);
  piece.class = words.filter(Boolean).join(' ');
  return piece;
}

function changed(look: Look, parameters: string): Look {
  const next = { ...look };
  // `38:2::r:g:b` is one parameter with parts; `38;2;r;g;b` are five.
  const numbers = parameters
    .replace(/(38|48):2:\d*:/g, '$1;2;')
    .split(/[;:]/)
    .map((part) => (part ? Number.parseInt(part, 10) : 0));
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at]!;
    if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(at + 1));
      at += used;
      if (colour) next[code === 38 ? 'fore' : 'back'] = colour;
    } else apply(next, code);
  }
  return next;
}

function apply(look: Look, code: number): void {
  if (code === 0) Object.assign(look, PLAIN);
  else if (code === 1) look.bold = true;
  else if (code === 2) look.dim = true;
  else if (code === 3) look.italic = true;
  else if (code === 4 || code === 21) look.underline = true;
  else if (code === 7) look.inverse = true;
  else if (code === 9) look.strike = true;
  else if (code === 22) look.bold = look.dim = false;
  else if (code === 23) look.italic = false;
  else if (code === 24) look.underline = false;
  else if (code === 27) look.inverse = false;
  else if (code === 29) look.strike = false;
  else if (code >= 30 && code <= 37) look.fore = String(code - 30);
  else if (code === 39) look.fore = '';
  else if (code >= 40 && code <= 47) look.back = String(code - 40);
  else if (code === 49) look.back = '';
  else if (code >= 90 && code <= 97) look.fore = String(code - 82);
  else if (code >= 100 && code <= 107) look.back = String(code - 92);
}

/** Return the colour after a 38 or 48, and how many numbers it took. */
function extended(numbers: readonly number[]): [string, number] {
  const [kind, ...rest] = numbers;
  if (kind === 5) return [indexed(rest[0] ?? 0), 2];
  if (kind !== 2) return ['', 0];
  const [red = 0, green = 0, blue = 0] = rest.map((one) => Math.max(0, Math.min(255, one)));
  return [`rgb(${red} ${green} ${blue})`, 4];
}

function indexed(index: number): string {
  if (!(index >= 0 && index <= 255)) return '';
  if (index < 16) return String(index);
  const grey = 8 + (index - 232) * 10;
  if (index >= 232) return `rgb(${grey} ${grey} ${grey})`;
  const [red, green, blue] = [36, 6, 1]
    .map((unit) => Math.floor((index - 16) / unit) % 6)
    .map((level) => (level ? 55 + level * 40 : 0));
  return `rgb(${red} ${green} ${blue})`;
}
