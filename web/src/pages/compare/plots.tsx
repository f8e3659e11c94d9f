// Scatter plot and parallel coordinates of the runs; the address holds what they show.
import { useMemo } from 'preact/hooks';
import type { Run, Summaries } from '../../api/types';
import { Empty } from '../../parts/basics';
import { firstAxes, firstPair } from '../../parts/fields/defaults';
import type { Field } from '../../parts/fields/values';
import { Parallel } from '../../parts/parallel';
import { Scatter } from '../../parts/scatter';
import { query, setQuery } from '../../lib/router';
import { fieldsOf, rowsOf } from './runs';

interface PlotProps {
  runs: readonly Run[];
  summaries: Summaries;
  rowColors: readonly string[];
  onOpen: (id: string) => void;
}

export function ScatterTab({ runs, summaries, rowColors, onOpen }: PlotProps) {
  const { rows, fields } = usePlotted(runs, summaries);
  const first = firstPair(fields);
  if (fields.length < 2) return <Nothing />;
  return (
    <Scatter
      rows={rows}
      fields={fields}
      x={known(fields, query.value.get('sx')) ?? first.x}
      y={known(fields, query.value.get('sy')) ?? first.y}
      color={known(fields, query.value.get('color')) ?? ''}
      onPick={({ x, y, color }) =>
        setQuery({
          ...(x === undefined ? {} : { sx: x }),
          ...(y === undefined ? {} : { sy: y }),
          ...(color === undefined ? {} : { color }),
        })
      }
      rowColors={rowColors}
      onOpen={onOpen}
    />
  );
}

export function ParallelTab({ runs, summaries, rowColors, onOpen }: PlotProps) {
  const { rows, fields } = usePlotted(runs, summaries);
  const chosen = query.value.getAll('axis');
  if (fields.length < 2) return <Nothing />;
  return (
    <Parallel
      rows={rows}
      fields={fields}
      axes={chosen.length ? chosen : firstAxes(fields)}
      onAxes={(ids) => setQuery({ axis: ids.length ? ids : ['none'] })}
      color={known(fields, query.value.get('color')) ?? ''}
      onColor={(color) => setQuery({ color })}
      rowColors={rowColors}
      onOpen={onOpen}
    />
  );
}

const known = (fields: readonly Field[], id: string | null): string | undefined =>
  fields.find((field) => field.id === id)?.id;

function usePlotted(runs: readonly Run[], summaries: Summaries) {
  return useMemo(() => ({ rows: rowsOf(runs), fields: fieldsOf(runs, summaries) }), [runs, summaries]);
}

const Nothing = () => (
  <Empty title="Nothing to plot these runs by" command={'run.log("loss", loss)'}>
    Plots need parameters or metrics: pass arguments as <code>--name value</code>, and log numbers.
  </Empty>
);
