// A text as lines of coloured pieces. Linear in its length; what is too long stays plain.
import { LANGUAGES, type Kind, type Language } from './languages';

export interface Token {
  kind: Kind;
  text: string;
}
export type Line = readonly Token[];

export const MAX_COLOURED = 2_000_000;
const MAX_LINE = 5_000;

/** `\r\n` and `\r` end lines too, and are not shown. A last line end makes no empty line. */
export function splitLines(text: string): string[] {
  const lines = text.split(/\r\n|\n|\r/);
  if (lines.length > 1 && lines.at(-1) === '') lines.pop();
  return lines;
}

/** Return the lines of `text` as tokens; those joined are the line. */
export function colour(text: string, language: string): Line[] {
  const rules = LANGUAGES[language];
  const lines = splitLines(text);
  if (!rules || text.length > MAX_COLOURED || lines.some((line) => line.length > MAX_LINE)) return lines.map(plain);
  try {
    return tokenized(lines.join('\n'), rules);
  } catch {
    return lines.map(plain); // the browser's own limit on a pattern's stack
  }
}

function tokenized(clean: string, { pattern, kinds, keywords, makers }: Language): Line[] {
  const lines: Token[][] = [];
  let line: Token[] = [];
  const addPart = (kind: Kind, text: string): void => {
    const last = line[line.length - 1];
    if (last?.kind === kind) last.text += text;
    else if (text) line.push({ kind, text });
  };
  const add = (kind: Kind, from: number, to: number): void => {
    for (let at = from; ; ) {
      const end = clean.indexOf('\n', at);
      if (end < 0 || end >= to) {
        addPart(kind, clean.slice(at, to));
        return;
      }
      addPart(kind, clean.slice(at, end));
      lines.push(line);
      line = [];
      at = end + 1;
    }
  };
  let end = 0;
  let isMaking = false;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(clean); match; match = pattern.exec(clean)) {
    const to = match.index + match[0].length;
    if (to === match.index) pattern.lastIndex++;
    if (match.index > end) add('', end, match.index);
    const word = match[kinds.length + 1];
    if (word === undefined) {
      let group = 0;
      while (group < kinds.length && match[group + 1] === undefined) group++;
      add(kinds[group] ?? '', match.index, to);
      isMaking = false;
    } else {
      add(keywords.has(word) ? 'keyword' : isMaking ? 'name' : '', match.index, to);
      isMaking = makers?.has(word) ?? false;
    }
    end = to;
  }
  add('', end, clean.length);
  lines.push(line);
  return lines;
}

const plain = (line: string): Line => (line ? [{ kind: '', text: line }] : []);
