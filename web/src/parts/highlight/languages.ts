// The tokens of each language: a few patterns, enough to read a file by its colours.

export type Kind = '' | 'keyword' | 'string' | 'number' | 'comment' | 'name' | 'added' | 'removed';

export interface Language {
  /** One group per kind of `kinds`, then a last one for words. Matches neither overlap nor look back further than a line. */
  pattern: RegExp;
  kinds: readonly Kind[];
  keywords: ReadonlySet<string>;
  /** Keywords whose next word is a name being made: `def`, `class`. */
  makers?: ReadonlySet<string>;
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));
const WORD = String.raw`[A-Za-z_$][\w$]*`;
const NUMBER = String.raw`(?<![\w$])(?:0[xXbBoO][\da-fA-F_]+|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)[jlLuUfFn]?`;
const QUOTED = String.raw`"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?`;

function language(
  rules: readonly (readonly [Kind, string])[],
  keywords: string,
  makers?: string,
  word = WORD,
): Language {
  return {
    pattern: new RegExp([...rules.map(([, pattern]) => `(${pattern})`), `(${word})`].join('|'), 'gm'),
    kinds: rules.map(([kind]) => kind),
    keywords: words(keywords),
    ...(makers ? { makers: words(makers) } : {}),
  };
}

const python = language(
  [
    ['comment', '#.*'],
    [
      'string',
      String.raw`\b[rRbBuUfFtT]{0,2}(?:"""(?:[^\\]|\\[\s\S])*?(?:"""|$(?![\s\S]))|'''(?:[^\\]|\\[\s\S])*?(?:'''|$(?![\s\S])))|"""(?:[^\\]|\\[\s\S])*?(?:"""|$(?![\s\S]))|'''(?:[^\\]|\\[\s\S])*?(?:'''|$(?![\s\S]))`,
    ],
    ['string', String.raw`(?:\b[rRbBuUfFtT]{1,2})?(?:${QUOTED})`],
    ['name', String.raw`^[ \t]*@[\w.]+`],
    ['number', NUMBER],
  ],
  'and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield None True False self cls',
  'def class',
);

const json = language(
  [
    ['name', String.raw`"(?:[^"\\\n]|\\.)*"(?=\s*:)`],
    ['string', String.raw`"(?:[^"\\\n]|\\.)*"?`],
    ['number', String.raw`-?\b\d[\d.eE+-]*`],
  ],
  'true false null NaN Infinity',
);

const yaml = language(
  [
    ['comment', String.raw`(?<=^|\s)#.*`],
    ['name', String.raw`^[ \t]{0,100}(?:- {1,20}){0,5}[^\s#:'"{[&*!|>-][^:#\n]{0,200}?(?=:(?:\s|$))`],
    ['string', QUOTED],
    ['keyword', String.raw`^(?:---|\.\.\.)|(?<=[:\s])[&*!][\w./-]+`],
    ['number', String.raw`(?<=[\s:[,]|^)-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,\]}]|$)`],
  ],
  'true false null yes no on off True False',
);

const shell = language(
  [
    ['comment', String.raw`(?<=^|\s)#.*`],
    ['string', String.raw`"(?:[^"\\]|\\[\s\S])*"?|'[^']*'?`],
    ['name', String.raw`\$\{[^}\n]*\}|\$[\w@*#?!-]+|^[ \t]*[A-Za-z_]\w*(?==)`],
    ['number', String.raw`(?<![\w.-])\d+(?:\.\d+)?(?![\w.-])`],
  ],
  'if then else elif fi for while until do done case esac in function return local export source set unset exit trap FROM RUN COPY ENV WORKDIR ENTRYPOINT CMD ARG USER ADD EXPOSE LABEL',
  undefined,
  String.raw`[A-Za-z_][\w-]*`,
);

const toml = language(
  [
    ['comment', '[#;].*'],
    ['keyword', String.raw`^[ \t]{0,40}\[[^\n]*\]`],
    ['name', String.raw`^[ \t]{0,40}[\w.\-"']{1,100}(?=[ \t]{0,40}=)`],
    ['string', String.raw`"""[\s\S]*?(?:"""|$(?![\s\S]))|'''[\s\S]*?(?:'''|$(?![\s\S]))|${QUOTED}`],
    ['number', NUMBER],
  ],
  'true false inf nan',
);

const markdown = language(
  [
    ['keyword', String.raw`^#{1,6} .*|^[ \t]*(?:[-*+]|\d+\.)(?= )|^---+$`],
    ['string', String.raw`^\x60\x60\x60[\s\S]*?(?:^\x60\x60\x60[ \t]*$|$(?![\s\S]))|\x60[^\x60\n]+\x60`],
    ['comment', String.raw`<!--[\s\S]*?(?:-->|$(?![\s\S]))|^>.*`],
    ['name', String.raw`!?\[[^\]\n]{0,300}\]\([^)\n]{0,1000}\)|https?://[^\s)>]+`],
    ['number', String.raw`\*\*[^*\n]+\*\*|__[^_\n]+__`],
  ],
  '',
);

const c = language(
  [
    ['comment', String.raw`//.*|/\*[\s\S]*?(?:\*/|$(?![\s\S]))`],
    ['string', String.raw`${QUOTED}|\x60(?:[^\x60\\]|\\[\s\S])*\x60?`],
    ['name', String.raw`^[ \t]*#[ \t]*\w+|@\w+`],
    ['number', NUMBER],
  ],
  'abstract as async auto await bool break case catch char class const continue default delete do double else enum export extends false final float fn for from func function if impl import in inline int interface let long match mut namespace new null nullptr override package private protected pub public return short static struct super switch template this throw trait true try type typedef typename undefined unsigned use using var void while yield __global__ __device__',
  'class struct enum interface fn func function namespace trait',
);

const markup = language(
  [
    ['comment', String.raw`<!--[\s\S]*?(?:-->|$(?![\s\S]))`],
    ['keyword', String.raw`</?[A-Za-z!?][\w:.-]*|/?>`],
    ['name', String.raw`(?<=\s)[\w:@.-]+(?==)`],
    ['string', `(?<==)(?:"[^"]*"?|'[^']*'?)`],
  ],
  '',
);

const patch = language(
  [
    ['name', String.raw`^(?:diff|index|---|\+\+\+|@@|new file|deleted file|similarity|rename|Binary).*`],
    ['added', String.raw`^\+.*`],
    ['removed', '^-.*'],
  ],
  '',
);

export const LANGUAGES: Readonly<Record<string, Language>> = {
  python,
  json,
  yaml,
  shell,
  toml,
  markdown,
  c,
  markup,
  patch,
};

const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  python: ['py', 'pyi', 'pyx', 'pyw'],
  json: ['json', 'jsonl', 'ipynb', 'geojson', 'webmanifest'],
  yaml: ['yaml', 'yml'],
  shell: [
    'sh',
    'bash',
    'zsh',
    'fish',
    'sbatch',
    'slurm',
    'mk',
    'dockerfile',
    'makefile',
    'containerfile',
    'env',
    'bashrc',
    'profile',
  ],
  toml: ['toml', 'ini', 'cfg', 'conf', 'lock', 'editorconfig', 'gitconfig', 'properties'],
  markdown: ['md', 'markdown', 'rst'],
  c: [
    'c',
    'cc',
    'cpp',
    'cxx',
    'cu',
    'cuh',
    'h',
    'hpp',
    'java',
    'js',
    'mjs',
    'cjs',
    'jsx',
    'ts',
    'tsx',
    'go',
    'rs',
    'cs',
    'kt',
    'scala',
    'swift',
    'php',
    'proto',
    'css',
    'scss',
  ],
  markup: ['html', 'htm', 'xml', 'svg', 'xhtml', 'vue'],
  patch: ['patch', 'diff'],
};
const BY_ENDING = new Map(
  Object.entries(ENDINGS).flatMap(([name, endings]) => endings.map((ending) => [ending, name] as const)),
);

/** The language of a file by its name; "" when it has none that we know. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  return BY_ENDING.get(name.slice(name.lastIndexOf('.') + 1)) ?? BY_ENDING.get(name.replace(/[.\-_].*$/, '')) ?? '';
}
