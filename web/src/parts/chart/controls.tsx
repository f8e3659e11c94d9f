// Controls for all charts of a page: the x axis, a logarithmic y axis, smoothing.
import type { ChartView, XAxis } from './model';
import './chart.css';

const AXES: readonly (readonly [XAxis, string])[] = [
  ['step', 'Step'],
  ['relative', 'Relative time'],
  ['wall', 'Wall time'],
];

export function ChartControls({ view, onChange }: { view: ChartView; onChange: (view: ChartView) => void }) {
  return (
    <div class="row chart-controls">
      <select
        class="input"
        aria-label="X axis"
        value={view.x}
        onChange={(event) => onChange({ ...view, x: event.currentTarget.value as XAxis })}
      >
        {AXES.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <button
        type="button"
        class="button"
        aria-pressed={view.isLog}
        title="Logarithmic y axis"
        onClick={() => onChange({ ...view, isLog: !view.isLog })}
      >
        Log
      </button>
      <label
        class="row chart-smoothing"
        title="Exponential moving average over what is drawn; the raw line stays, faint"
      >
        <span class="soft">Smoothing</span>
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={view.smoothing}
          onInput={(event) => onChange({ ...view, smoothing: Number(event.currentTarget.value) })}
        />
        <output class="number small">{view.smoothing ? view.smoothing.toFixed(2) : 'off'}</output>
      </label>
    </div>
  );
}
