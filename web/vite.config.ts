import { defineConfig } from 'vite';

// The page is built into the Python package; `server/routes/pages.py` serves it from there.
export default defineConfig({
  base: '/static/',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../src/runyard/studio/static',
    emptyOutDir: true,
    assetsDir: '.',
    assetsInlineLimit: 0, // `data:` scripts and styles are refused by our policy
    modulePreload: { polyfill: false },
    target: 'es2022',
    reportCompressedSize: true,
  },
});
