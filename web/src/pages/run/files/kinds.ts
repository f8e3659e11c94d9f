// How a file is shown, by its name and then by its first bytes. Pure.

export type Kind = 'image' | 'table' | 'json' | 'notebook' | 'markdown' | 'text' | 'binary';

const IMAGES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  bmp: 'image/bmp',
  svg: 'image/svg+xml',
  avif: 'image/avif',
  ico: 'image/x-icon',
};
const BINARY = new Set(
  'npy npz parquet pkl pickle pt pth ckpt safetensors onnx h5 hdf5 bin zip gz tgz xz bz2 zst tar 7z whl so mp4 webm mov mp3 wav ogg pdf tfrecord arrow feather sqlite db jar exe dll o pyc joblib model'.split(
    ' ',
  ),
);

export const endingOf = (name: string): string => /\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
export const imageType = (name: string): string => IMAGES[endingOf(name)] ?? '';

export function kindOf(name: string): Kind {
  const ending = endingOf(name);
  if (IMAGES[ending]) return 'image';
  if (ending === 'csv' || ending === 'tsv') return 'table';
  if (ending === 'json' || ending === 'geojson') return 'json';
  if (ending === 'ipynb') return 'notebook';
  if (ending === 'md' || ending === 'markdown') return 'markdown';
  return BINARY.has(ending) || /\btfevents\b/.test(name) ? 'binary' : 'text';
}

/** The bytes as text; null when they are none. */
export function textOf(data: Uint8Array, isWhole = true): string | null {
  if (data[0] === 0xff && data[1] === 0xfe) return new TextDecoder('utf-16le').decode(data);
  if (data[0] === 0xfe && data[1] === 0xff) return new TextDecoder('utf-16be').decode(data);
  if (data.subarray(0, 8192).includes(0)) return null;
  const text = new TextDecoder().decode(data, { stream: !isWhole }); // a last character that was cut is left out
  let strange = 0;
  const sample = text.slice(0, 4096);
  for (const char of sample) if (char === '\ufffd' || (char < ' ' && !'\n\r\t\f\b\u001b'.includes(char))) strange++;
  return strange * 10 > sample.length ? null : text;
}

/** `00000000  50 41 52 31 …  PAR1` for the first bytes. */
export function hexOf(data: Uint8Array, most = 512): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, most))];
    const codes = row.map((byte) => byte.toString(16).padStart(2, '0'));
    const left = codes.slice(0, 8).join(' ').padEnd(23);
    const right = codes.slice(8).join(' ').padEnd(23);
    lines.push(
      `${at.toString(16).padStart(8, '0')}  ${left}  ${right}  ${row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('')}`,
    );
  }
  return lines.join('\n');
}

/** Facts from the head of a known format: a NumPy array's shape and type. */
export function factsOf(data: Uint8Array): string {
  const head = String.fromCharCode(...data.subarray(0, 512));
  if (head.startsWith('\x93NUMPY')) {
    const type = /'descr': *'([^']*)'/.exec(head)?.[1];
    const shape = /'shape': *(\([^)]*\))/.exec(head)?.[1];
    return shape ? `NumPy array, shape ${shape}, type ${type ?? 'of several fields'}` : 'NumPy array';
  }
  const known: [string, string][] = [
    ['PAR1', 'Parquet table'],
    ['PK\x03\x04', 'Zip archive (also .npz, .pt, .whl)'],
    ['\x89HDF', 'HDF5 file'],
    ['\x80\x02', 'Python pickle'],
    ['\x80\x03', 'Python pickle'],
    ['\x80\x04', 'Python pickle'],
    ['\x80\x05', 'Python pickle'],
    ['\x1f\x8b', 'Gzip archive'],
    ['%PDF', 'PDF document'],
    ['ARROW1', 'Arrow table'],
    ['SQLite format 3', 'SQLite database'],
    ['\x7fELF', 'Program or library (ELF)'],
  ];
  return known.find(([magic]) => head.startsWith(magic))?.[1] ?? '';
}
