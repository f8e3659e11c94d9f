// JSON as a tree that keeps the text exactly: long integers digit by digit, NaN, the order of keys, repeated keys. Pure.

export type Node =
  | { kind: 'object'; entries: [string, Node][] }
  | { kind: 'list'; items: Node[] }
  | { kind: 'string' | 'number' | 'word'; text: string };

const DEEPEST = 400;
const SCALAR = /"(?:[^"\\\u0000-\u001f]|\\.)*"|-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|true|false|null|NaN/y;
const SPACE = /\s*/y;

/** Return the tree; null when the text is not JSON, or nested deeper than anybody reads. */
export function parseJson(text: string): Node | null {
  try {
    const reader = new Reader(text);
    const found = reader.value(0);
    return reader.isAtEnd() ? found : null;
  } catch {
    return null;
  }
}

class Reader {
  private at = 0;
  constructor(private readonly text: string) {
    if (text.charCodeAt(0) === 0xfeff) this.at = 1;
  }

  value(depth: number): Node {
    const char = this.peek();
    if (depth > DEEPEST) throw new Error('too deep');
    if (char === '{') return this.object(depth);
    if (char === '[') return { kind: 'list', items: this.several(']', () => this.value(depth + 1)) };
    return this.scalar();
  }

  isAtEnd(): boolean {
    return this.peek() === '';
  }

  private object(depth: number): Node {
    const entries = this.several('}', (): [string, Node] => {
      const key = this.scalar();
      if (key.kind !== 'string' || this.peek() !== ':') throw new Error('no key');
      this.at++;
      return [key.text, this.value(depth + 1)];
    });
    return { kind: 'object', entries };
  }

  private several<T>(end: string, one: () => T): T[] {
    const found: T[] = [];
    this.at++;
    if (this.peek() !== end) {
      for (;;) {
        found.push(one());
        const next = this.peek();
        if (next === end) break;
        if (next !== ',') throw new Error('no comma');
        this.at++;
      }
    }
    this.at++;
    return found;
  }

  private scalar(): { kind: 'string' | 'number' | 'word'; text: string } {
    this.peek();
    SCALAR.lastIndex = this.at;
    const match = SCALAR.exec(this.text);
    if (!match) throw new Error('no value');
    this.at = SCALAR.lastIndex;
    const raw = match[0];
    if (raw.startsWith('"')) return { kind: 'string', text: JSON.parse(raw) as string };
    return { kind: /\d/.test(raw) ? 'number' : 'word', text: raw };
  }

  /** Go over white space; return the next character, "" at the end. */
  private peek(): string {
    SPACE.lastIndex = this.at;
    SPACE.exec(this.text);
    this.at = SPACE.lastIndex;
    return this.text[this.at] ?? '';
  }
}
