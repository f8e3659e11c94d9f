// The order of the folders: api, lib ← parts ← pages ← app. Each page is a folder and imports no other page.
import { expect, it } from 'vitest';

const MAY_IMPORT: Record<string, readonly string[]> = {
  api: ['api', 'lib'],
  lib: ['lib', 'api'],
  parts: ['parts', 'lib', 'api'],
  pages: ['parts', 'lib', 'api'], // and its own folder
};

const SOURCES = import.meta.glob<string>('./**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true });

/** The imports of a file that its folder may not have, as `pages/a/x.ts imports pages/b/y`. */
function faults(path: string, source: string): string[] {
  const [room = '', page] = path.split('/');
  const allowed = MAY_IMPORT[room];
  if (!allowed) return []; // app.tsx and main.tsx put everything together
  const found = [...source.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]*)['"]/g)].map((match) =>
    new URL(match[1]!, `file:///${path}`).pathname.slice(1),
  );
  const isFine = (target: string): boolean =>
    allowed.some((one) => target.startsWith(`${one}/`)) || (room === 'pages' && target.startsWith(`pages/${page}/`));
  const own = room === 'pages' ? `pages/${page}` : '';
  return found.filter((target) => target !== own && !isFine(target)).map((target) => `${path} imports ${target}`);
}

it('finds no import against the order of the folders', () => {
  expect(Object.keys(SOURCES).length).toBeGreaterThan(100);
  expect(Object.entries(SOURCES).flatMap(([path, source]) => faults(path.slice(2), source))).toEqual([]);
});

it.each([
  ['pages/sweep/index.tsx', "import { useLast } from '../compare/last';"],
  ['pages/run/log/index.tsx', "import type { Row } from '../../runs/fields';"],
  ['pages/runs/index.tsx', "const load = () => import('../run');"],
  ['pages/runs/index.tsx', "import { App } from '../../app';"],
  ['parts/chart/chart.tsx', "import '../../pages/run/run.css';"],
  ['lib/router.ts', "export { Empty } from '../parts/basics';"],
  ['lib/router.ts', "import Runs from '../pages/runs';"],
  ['api/http.ts', "import {\n  Empty,\n} from '../parts/basics';"],
])('control: in %s it finds %s', (path, line) => {
  expect(faults(path, line)).toHaveLength(1);
});

it.each([
  ['app.tsx', "const load = () => import('./pages/runs');"],
  ['pages/run/log/index.tsx', "import { x } from '../facts';"],
  ['pages/run/log/index.tsx', "import { number } from '../../../lib/format';"],
  ['parts/chart/chart.tsx', "import { h } from 'preact';"],
])('control: in %s it does not mind %s', (path, line) => {
  expect(faults(path, line)).toEqual([]);
});
