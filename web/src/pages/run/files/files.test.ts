import { describe, expect, it } from 'vitest';
import { isNumeric, separatorOf, tableOf } from './csv';
import { parseJson } from '../../../parts/json/json';
import { factsOf, hexOf, kindOf, textOf } from './kinds';

const bytes = (text: string): Uint8Array => Uint8Array.from(text, (char) => char.charCodeAt(0));

describe('kinds', () => {
  it.each([
    ['outputs/a.PNG', 'image'],
    ['a.svg', 'image'],
    ['t.csv', 'table'],
    ['x.ipynb', 'notebook'],
    ['m.pkl', 'binary'],
    ['a.html', 'text'],
    ['log', 'text'],
    ['a.json', 'json'],
    ['r.md', 'markdown'],
    ['events.out.tfevents.1.host', 'binary'],
  ])('%s is %s', (name, kind) => expect(kindOf(name)).toBe(kind));

  it('tells text from bytes', () => {
    expect(textOf(new TextEncoder().encode('größe\n'))).toBe('größe\n');
    expect(textOf(new Uint8Array([65, 0, 66]))).toBeNull();
    expect(textOf(new Uint8Array([0xff, 0xfe, 65, 0]))).toBe('A');
    expect(textOf(Uint8Array.from({ length: 100 }, (_, at) => 128 + at))).toBeNull();
    expect(textOf(new TextEncoder().encode('aé').slice(0, 2), false)).toBe('a');
    expect(textOf(new Uint8Array())).toBe('');
  });
  it('shows bytes', () => {
    expect(hexOf(bytes('PAR1\x00<script>abcdef'))).toBe(
      '00000000  50 41 52 31 00 3c 73 63  72 69 70 74 3e 61 62 63  PAR1·<script>abc\n00000010  64 65 66                                          def',
    );
    expect(factsOf(bytes("\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"))).toBe(
      'NumPy array, shape (3, 4), type <f4',
    );
    expect(factsOf(bytes('PAR1'))).toBe('Parquet table');
    expect(factsOf(bytes('what'))).toBe('');
  });
});

describe('tables', () => {
  it('reads quotes, line ends within them and all kinds of line ends', () => {
    expect(tableOf('a,b\r\n"x, ""y""\nz",2\n3,\n', ',', 10)).toEqual({
      head: ['a', 'b'],
      rows: [
        ['x, "y"\nz', '2'],
        ['3', ''],
      ],
      isCut: false,
    });
  });
  it('stops at the limit, and leaves out a row whose end was cut', () => {
    expect(tableOf('h\n1\n2\n3\n', ',', 2)).toEqual({ head: ['h'], rows: [['1'], ['2']], isCut: true });
    expect(tableOf('h\n1\n2', ',', 9, false)).toEqual({ head: ['h'], rows: [['1']], isCut: true });
    expect(tableOf('h\n"open', ',', 9)).toEqual({ head: ['h'], rows: [['open']], isCut: false });
    expect(tableOf('', ',', 9)).toEqual({ head: [], rows: [], isCut: false });
  });
  it('guesses the separator', () => {
    expect([
      separatorOf('a;b;c,d\n', 'x.csv'),
      separatorOf('a\tb', 'x.csv'),
      separatorOf('a,b', 'x.tsv'),
      separatorOf('a', 'x.csv'),
    ]).toEqual([';', '\t', '\t', ',']);
  });
  it('knows columns of numbers', () => {
    const rows = [
      ['1', 'a', ''],
      ['-2.5e-3', '1', ''],
      ['nan', '2', ''],
    ];
    expect([0, 1, 2].map((column) => isNumeric(rows, column))).toEqual([true, false, false]);
  });
});

describe('json', () => {
  it('keeps what was written', () => {
    expect(parseJson('{"a": [12345678901234567890, NaN, true], "a": "\\u00e9"}')).toEqual({
      kind: 'object',
      entries: [
        [
          'a',
          {
            kind: 'list',
            items: [
              { kind: 'number', text: '12345678901234567890' },
              { kind: 'word', text: 'NaN' },
              { kind: 'word', text: 'true' },
            ],
          },
        ],
        ['a', { kind: 'string', text: 'é' }],
      ],
    });
    expect(parseJson(' [] ')).toEqual({ kind: 'list', items: [] });
  });
  it.each(['', '{', '{"a"}', '[1,]', '[1 2]', '{a: 1}', '"a', '1 2', '['.repeat(5000), 'undefined'])(
    '%s is none',
    (text) => expect(parseJson(text)).toBeNull(),
  );
});
