// The tooltip at the pointer: the run and its values.
import { shown } from './table';
import type { Field, Row } from './values';

const MOST = 12;

export function Tip({
  row,
  index,
  fields,
  x,
  y,
  width,
}: {
  row: Row;
  index: number;
  fields: readonly Field[];
  x: number;
  y: number;
  width: number;
}) {
  const side = x > width / 2 ? { right: `${width - x + 14}px` } : { left: `${x + 14}px` };
  return (
    <div class="plot-tip" style={{ top: `${Math.max(0, y - 20)}px`, ...side }}>
      <strong>{row.label}</strong>
      <dl>
        {fields
          .slice(0, MOST)
          .flatMap((field) => [
            <dt key={`${field.id} name`}>{field.label}</dt>,
            <dd key={field.id}>{shown(field.values[index] ?? null)}</dd>,
          ])}
      </dl>
    </div>
  );
}
