// The best value so far over time, with a dot for what each child reached.
import { useMemo, useRef } from 'preact/hooks';
import { duration, number } from '../../lib/format';
import { useWidth } from '../../parts/fields/canvas';
import { scaleOf } from '../../parts/fields/scale';
import { childName, CUT_WORDS, type Dot, type Progress, type SweepSpec } from './report';

const HEIGHT = 220;
const LEFT = 64;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 26;

export function ProgressChart({
  progress,
  spec,
  best,
  onOpen,
}: {
  progress: Progress;
  spec: SweepSpec;
  best: string | undefined;
  onOpen: (id: string) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const width = Math.max(200, useWidth(box));
  const scale = useMemo(() => scaleOf(progress.dots.map((dot) => dot.value)), [progress]);
  const x = (at: number): number =>
    LEFT + ((at - progress.start) / (progress.end - progress.start)) * (width - LEFT - RIGHT);
  const y = (value: number): number => HEIGHT - BOTTOM - 8 - (scale.at(value) ?? 0.5) * (HEIGHT - TOP - BOTTOM - 16);
  const line = progress.steps
    .map(
      (step, index) =>
        `${index ? 'H' : 'M'}${x(step.at).toFixed(1)}${index ? `V${y(step.value).toFixed(1)}` : ` ${y(step.value).toFixed(1)}`}`,
    )
    .join('');
  const span = progress.end - progress.start;
  const last = progress.steps.at(-1);
  return (
    <div class="card plot-card">
      <h2 class="small soft">Best {spec.primary_metric} so far</h2>
      <div class="plot" ref={box}>
        <svg
          class="progress"
          width={width}
          height={HEIGHT}
          role="img"
          aria-label={`Best ${spec.primary_metric} so far: ${last ? number(last.value) : 'none'} after ${duration(span)}. The table below has what each child reached.`}
        >
          {scale.ticks.map((tick) => {
            const at = HEIGHT - BOTTOM - 8 - tick.at * (HEIGHT - TOP - BOTTOM - 16);
            return (
              <g key={tick.text}>
                <line class="progress-grid" x1={LEFT} x2={width - RIGHT} y1={at} y2={at} />
                <text class="progress-text" x={LEFT - 8} y={at + 4} text-anchor="end">
                  {tick.text}
                </text>
              </g>
            );
          })}
          {[0, 0.25, 0.5, 0.75, 1].map((part) => (
            <text
              key={part}
              class="progress-text"
              x={LEFT + part * (width - LEFT - RIGHT)}
              y={HEIGHT - 6}
              text-anchor={part === 0 ? 'start' : part === 1 ? 'end' : 'middle'}
            >
              {part === 0 ? '0' : duration(part * span)}
            </text>
          ))}
          {line && <path class="progress-line" d={`${line}H${x(progress.end).toFixed(1)}`} />}
          {progress.dots.map((dot) => (
            // biome-ignore lint/a11y/noStaticElementInteractions: the table of children has a link to each of them
            <circle
              key={dot.child.run_id}
              class={`progress-dot${dot.child.run_id === best ? ' best' : dot.child.cut_short ? ' cut-short' : ''}`}
              cx={x(dot.at)}
              cy={y(dot.value)}
              r={dot.child.run_id === best ? 5.5 : progress.dots.length > 300 ? 2.8 : 4}
              onClick={() => onOpen(dot.child.run_id)}
            >
              <title>{dotText(dot)}</title>
            </circle>
          ))}
        </svg>
      </div>
      <p class="small soft progress-legend">
        <span class="progress-key" aria-hidden="true" /> finished{' '}
        <span class="progress-key cut-short" aria-hidden="true" /> cut short{' '}
        <span class="progress-key best" aria-hidden="true" /> best
      </p>
    </div>
  );
}

function dotText({ child, value }: Dot): string {
  const cut = child.cut_short ? `\n${CUT_WORDS[child.cut_short.kind]}: ${child.cut_short.reason}` : '';
  return `${childName(child)}: ${number(value)}${cut}`;
}
