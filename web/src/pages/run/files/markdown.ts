// Markdown as blocks and pieces to draw as elements; never HTML. Covers the constructs that READMEs and notebooks mostly use. Pure.

export type Piece =
  | { kind: 'text' | 'code' | 'strong' | 'em'; text: string }
  | { kind: 'link'; text: string; to: string };
export type Block =
  | { kind: 'heading'; level: number; pieces: Piece[] }
  | { kind: 'paragraph' | 'quote'; pieces: Piece[] }
  | { kind: 'item'; depth: number; mark: string; pieces: Piece[] }
  | { kind: 'code'; language: string; text: string }
  | { kind: 'table'; rows: Piece[][][] }
  | { kind: 'line' };

const INLINE =
  /`([^`\n]+)`|\*\*([^*\n]+)\*\*|__([^_\n]+)__|(?<![\w*])\*([^*\n]+)\*(?![\w*])|(?<!\w)_([^_\n]+)_(?!\w)|!?\[([^\]\n]{0,500})\]\(([^)\s]{1,2000})[^)\n]{0,200}\)/g;

/** Links lead to pages of the web only: no script, no address of ours. */
const isWeb = (to: string): boolean => /^https?:\/\//i.test(to);

export function piecesOf(text: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) found.push({ kind: 'text', text: text.slice(end, match.index) });
    const [whole, code, strong, strongToo, em, emToo, label, to] = match;
    if (code !== undefined) found.push({ kind: 'code', text: code });
    else if (strong !== undefined || strongToo !== undefined)
      found.push({ kind: 'strong', text: strong ?? strongToo ?? '' });
    else if (em !== undefined || emToo !== undefined) found.push({ kind: 'em', text: em ?? emToo ?? '' });
    else if (!whole.startsWith('!') && isWeb(to ?? ''))
      found.push({ kind: 'link', text: label || (to ?? ''), to: to ?? '' });
    else found.push({ kind: 'text', text: label || whole });
    end = match.index + whole.length;
  }
  if (end < text.length) found.push({ kind: 'text', text: text.slice(end) });
  return found;
}

export function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split(/\r\n|\n|\r/);
  let paragraph: string[] = [];
  const close = (): void => {
    if (paragraph.length) blocks.push({ kind: 'paragraph', pieces: piecesOf(paragraph.join(' ')) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    const fence = /^\s{0,3}(`{3,}|~{3,})\s*([\w+-]*)/.exec(line);
    const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (fence) {
      close();
      const code: string[] = [];
      while (++at < lines.length && !lines[at]!.trimStart().startsWith(fence[1]!)) code.push(lines[at]!);
      blocks.push({ kind: 'code', language: fence[2] ?? '', text: code.join('\n') });
    } else if (heading) {
      close();
      blocks.push({ kind: 'heading', level: heading[1]!.length, pieces: piecesOf(heading[2]!) });
    } else if (/^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/.test(line)) {
      close();
      blocks.push({ kind: 'line' });
    } else if (item) {
      close();
      blocks.push({
        kind: 'item',
        depth: Math.min(6, item[1]!.length >> 1),
        mark: /\d/.test(item[2]!) ? item[2]! : '•',
        pieces: piecesOf(item[3]!),
      });
    } else if (line.startsWith('>')) {
      close();
      blocks.push({ kind: 'quote', pieces: piecesOf(line.replace(/^>\s?/, '')) });
    } else if (
      line.includes('|') &&
      /^[\s|:-]*-[\s|:-]*$/.test(lines[at + 1] ?? '') &&
      (lines[at + 1] ?? '').includes('|')
    ) {
      close();
      const rows = [line];
      at++;
      while (lines[at + 1]?.includes('|')) rows.push(lines[++at]!);
      blocks.push({
        kind: 'table',
        rows: rows.map((row) =>
          row
            .trim()
            .replace(/^\||\|$/g, '')
            .split('|')
            .map((cell) => piecesOf(cell.trim())),
        ),
      });
    } else if (line.trim() === '') close();
    else paragraph.push(line.trim());
  }
  close();
  return blocks;
}
