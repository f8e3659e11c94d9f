// Charts of metrics. The metrics tab, the compare page and the sweep page draw with these:
//
//   const [view, setView] = useState<ChartView>({ x: 'step', isLog: false, smoothing: 0 });   // or viewOf(query.value)
//   <ChartControls view={view} onChange={setView} />
//   <Chart title="loss" view={view} version={version} lines={[{ run: 'a_1', metric: 'loss', label: 'a_1', color: 0, start }]} />
//
// A chart reads its lines itself (many charts in one request), with exact minima and maxima at every zoom, and reads them
// again when `version` changes: count it up when `useWatch(runIds, ['metrics'], …, 1000)` calls. Keep `color` of a run the
// same in all charts of a page; colours are `seriesColor(color)` of parts/fields/color. `start` (ms since 1970) is where
// relative time begins: the run's start. `lastS` with the wall clock as x keeps to the last seconds, and moves on. `isSmall` is for grids: no legend, no buttons. In a long grid wrap each chart in
// <LazyMount height={…}>: it is made only when it is scrolled near.
export { Chart, type ChartProps, type Line } from './chart';
export { ChartControls } from './controls';
export { LazyMount } from './lazymount';
export { viewOf, viewQuery, type ChartView, type XAxis } from './model';
