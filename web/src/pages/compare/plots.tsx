// Scatter plot and parallel coordinates of the runs; the address holds what they show.
import { useMemo } from 'preact/hooks';
import type { Run } from '../../api/types';
import { Empty } from '../../parts/basics';
import type { Field } from '../../parts/fields/values';
import { Parallel } from '../../parts/parallel';
import { Scatter } from '../../parts/scatter';
import { query, setQuery } from '../../lib/router';
import type { Summaries } from './differences';
import { fieldsOf, firstAxes, firstPair, rowsOf } from './runs';

interface PlotProps {
  runs: readonly Run[];
  summaries: Summaries;
  inks: readonly string[];
  onOpen: (id: string) => void;
}

export function ScatterTab({ runs, summaries, inks, onOpen }: PlotProps) {
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
      inks={inks}
      onOpen={onOpen}
    />
  );
}

export function ParallelTab({ runs, summaries, inks, onOpen }: PlotProps) {
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
      inks={inks}
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
