// The parts of a visible line that match the search, by the server's rules.
import type { Piece } from './ansi';

export interface Wanted {
  text: string;
  case: boolean;
  word: boolean;
}

export interface Shown extends Piece {
  isMatch?: boolean;
}

const MOST = 200; // of a line
const isWord = (char: string | undefined): boolean => char !== undefined && /[\p{L}\p{N}_]/u.test(char);

/** Return [start, end) of every match in a text. */
export function matches(text: string, wanted: Wanted): [number, number][] {
  const look = wanted.case ? text : text.toLowerCase();
  const needle = wanted.case ? wanted.text : wanted.text.toLowerCase();
  const found: [number, number][] = [];
  // Where lower case has another length (İ), the marks would be shifted.
  if (!needle || look.length !== text.length) return found;
  for (let at = look.indexOf(needle); at >= 0 && found.length < MOST; ) {
    const end = at + needle.length;
    const touches =
      (isWord(look[at - 1]) && isWord(needle[0])) || (isWord(look[end]) && isWord(needle[needle.length - 1]));
    if (wanted.word && touches) at = look.indexOf(needle, at + 1);
    else {
      found.push([at, end]);
      at = look.indexOf(needle, end);
    }
  }
  return found;
}

/** Cut a line's pieces where matches begin and end. */
export function marked(pieces: readonly Piece[], wanted: Wanted | null): readonly Shown[] {
  if (!wanted) return pieces;
  const spans = matches(pieces.map((piece) => piece.text).join(''), wanted);
  if (!spans.length) return pieces;
  const shown: Shown[] = [];
  let start = 0;
  let next = 0;
  for (const piece of pieces) {
    let at = 0;
    while (at < piece.text.length) {
      while (next < spans.length && spans[next]![1] <= start + at) next++;
      const [begin, end] = spans[next] ?? [Infinity, Infinity];
      const isMatch = begin <= start + at;
      const stop = Math.min(piece.text.length, (isMatch ? end : begin) - start);
      shown.push({ ...piece, text: piece.text.slice(at, stop), isMatch });
      at = stop;
    }
    start += piece.text.length;
  }
  return shown;
}
