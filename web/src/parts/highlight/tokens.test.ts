import { describe, expect, it } from 'vitest';
import { languageOf } from './languages';
import { colour, splitLines } from './tokens';

const marked = (text: string, language: string): string[] =>
  colour(text, language).map((line) =>
    line.map((token) => (token.kind ? `<${token.kind}:${token.text}>` : token.text)).join(''),
  );

describe('colours', () => {
  it('finds the parts of Python', () => {
    expect(marked('@cache\ndef f(x):  # why\n    return "a\\"b" + 1e-3', 'python')).toEqual([
      '<name:@cache>',
      '<keyword:def> <name:f>(x):  <comment:# why>',
      '    <keyword:return> <string:"a\\"b"> + <number:1e-3>',
    ]);
  });
  it('keeps a string of many lines together, also without an end', () => {
    expect(marked('x = """a\n# no\n"""\ny = 2', 'python')).toEqual([
      'x = <string:"""a>',
      '<string:# no>',
      '<string:""">',
      'y = <number:2>',
    ]);
    expect(marked("f'''a\nb", 'python')).toEqual(["<string:f'''a>", '<string:b>']);
  });
  it('takes no number out of a name, no keyword out of a word', () => {
    expect(marked('x2 = import_it(layer_10, v1e5)', 'python')).toEqual(['x2 = import_it(layer_10, v1e5)']);
  });
  it.each([
    ['json', '{"a": [1.5, "b", true]}', '{<name:"a">: [<number:1.5>, <string:"b">, <keyword:true>]}'],
    ['yaml', 'lr: 0.1 # rate', '<name:lr>: <number:0.1> <comment:# rate>'],
    ['yaml', 'url: http://x#y', '<name:url>: http://x#y'],
    ['shell', 'echo "$HOME" # x', 'echo <string:"$HOME"> <comment:# x>'],
    ['shell', 'A=$B', '<name:A>=<name:$B>'],
    ['toml', 'lr = 0.1', '<name:lr> = <number:0.1>'],
    ['c', 'int x = 0xFF; // y', '<keyword:int> x = <number:0xFF>; <comment:// y>'],
    ['markdown', '# Title', '<keyword:# Title>'],
    ['markup', '<a href="x">', '<keyword:<a> <name:href>=<string:"x"><keyword:>>'],
    ['patch', '+new', '<added:+new>'],
    ['', 'def x', 'def x'],
  ])('%s: %s', (language, text, expected) => {
    expect(marked(text, language)).toEqual([expected]);
  });
  it('gives back exactly the text', () => {
    const text = 'a = 1\r\n\r\n\tb = "<script>alert(1)</script>"\n# ☃ end';
    for (const language of ['python', 'json', 'yaml', 'shell', 'toml', 'markdown', 'c', 'markup', 'patch']) {
      expect(colour(text, language).map((line) => line.map((token) => token.text).join(''))).toEqual(splitLines(text));
    }
  });
  it('stays linear on what is made to be slow', () => {
    const hostile = [
      '"'.repeat(4000),
      "'\\".repeat(2000),
      '/*'.repeat(2000),
      '`'.repeat(4000),
      '<'.repeat(4000),
      `${' '.repeat(4000)}x`,
      '[a]('.repeat(1000),
      '**'.repeat(2000),
      '- '.repeat(2000),
      `${'1'.repeat(4000)}x`,
    ];
    const text = Array.from({ length: 50 }, (_, at) => hostile[at % hostile.length]).join('\n');
    for (const language of ['python', 'json', 'yaml', 'shell', 'toml', 'markdown', 'c', 'markup']) {
      expect(colour(text, language)).toHaveLength(50);
    }
  });
});

it('ends lines as every system does', () => {
  expect(splitLines('a\r\nb\rc\n')).toEqual(['a', 'b', 'c']);
  expect(splitLines('')).toEqual(['']);
});

it.each([
  ['train.py', 'python'],
  ['a/Dockerfile', 'shell'],
  ['Dockerfile.gpu', 'shell'],
  ['Makefile', 'shell'],
  ['x.unknown', ''],
  ['README.MD', 'markdown'],
  ['git/uncommitted.patch', 'patch'],
])('%s is %s', (name, language) => {
  expect(languageOf(name)).toBe(language);
});
