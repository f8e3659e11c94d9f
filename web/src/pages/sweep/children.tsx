// The children of a sweep as a table: their values, what they reached, and why some were cut short.
import { useState } from 'preact/hooks';
import { number, plural } from '../../lib/format';
import { Lasting, Status } from '../../parts/basics';
import { SortHead } from '../../parts/fields/table';
import { asNumber, asValue } from '../../parts/fields/values';
import { compareHref, MOST_COMPARED, runHref } from '../../lib/router';
import {
  bestOrder,
  childName,
  CUT_WORDS,
  orderedBy,
  parameterName,
  parameterNames,
  type Child,
  type Order,
  type Report,
} from './report';

const PAGE = 100;

export function Children({
  report,
  best,
  kept,
}: {
  report: Report;
  best: string | undefined;
  kept: readonly boolean[] | null;
}) {
  const [order, setOrder] = useState<Order>(bestOrder(report.spec));
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [count, setCount] = useState(PAGE);
  const names = parameterNames(report);
  const listed = orderedBy(report, order).filter((index) => kept?.[index] ?? true);
  const sort = (by: string, label: string, options: { isNumber?: boolean; title?: string } = {}) => (
    <SortHead
      key={by}
      label={label}
      {...options}
      isDown={order.by === by ? order.isDown : undefined}
      onSort={(isDown) => setOrder({ by, isDown })}
    />
  );
  const choose = (id: string, isOn: boolean): void => {
    const next = new Set(selected);
    if (isOn) next.add(id);
    else next.delete(id);
    setSelected(next);
  };
  const top = listed.slice(0, 10).map((index) => report.children[index]!.run_id);
  const compared = selected.size ? [...selected].slice(0, MOST_COMPARED) : top;
  return (
    <section class="stack" aria-label="Children">
      <div class="row">
        <h2 class="grow">
          {kept
            ? `${listed.length} of ${plural(report.children.length, 'child', 'children')}`
            : plural(report.children.length, 'child', 'children')}
        </h2>
        {compared.length > 1 && (
          <a class="button small" href={compareHref(compared)}>
            {selected.size ? `Compare ${compared.length}` : `Compare the first ${compared.length}`}
          </a>
        )}
      </div>
      <div class="card sweep-scroll" tabIndex={0} role="region" aria-label="Table of children">
        <table class="plain-table sweep-children">
          <thead>
            <tr>
              <th scope="col">
                <span class="hidden-text">Select</span>
              </th>
              {sort('index', 'Child')}
              {sort('status', 'Status')}
              {sort('best', report.spec.primary_metric, {
                isNumber: true,
                title: `Best ${report.spec.primary_metric}`,
              })}
              {names.map((name) =>
                sort(`params.${name}`, parameterName(name), { isNumber: isNumberColumn(report, name) }),
              )}
              {sort('duration', 'Duration', { isNumber: true })}
              <th scope="col">Cut short</th>
            </tr>
          </thead>
          <tbody>
            {listed.slice(0, count).map((index) => (
              <Line
                key={report.children[index]!.run_id}
                child={report.children[index]!}
                names={names}
                isBest={report.children[index]!.run_id === best}
                isSelected={selected.has(report.children[index]!.run_id)}
                onSelect={choose}
              />
            ))}
          </tbody>
        </table>
      </div>
      {listed.length > count && (
        <button type="button" class="button small sweep-more" onClick={() => setCount(count + 5 * PAGE)}>
          Show more ({listed.length - count} left)
        </button>
      )}
    </section>
  );
}

const isNumberColumn = (report: Report, name: string): boolean =>
  typeof asValue(report.children[0]?.parameters[name]) === 'number';

function Line({
  child,
  names,
  isBest,
  isSelected,
  onSelect,
}: {
  child: Child;
  names: readonly string[];
  isBest: boolean;
  isSelected: boolean;
  onSelect: (id: string, isOn: boolean) => void;
}) {
  const value = asNumber(child.best);
  return (
    <tr class={isBest ? 'best' : undefined}>
      <td>
        <input
          type="checkbox"
          aria-label={`Select ${childName(child)}`}
          checked={isSelected}
          onChange={(event) => onSelect(child.run_id, event.currentTarget.checked)}
        />
      </td>
      <td>
        <a href={runHref(child.run_id)} title={child.run_id}>
          {childName(child)}
        </a>
      </td>
      <td>
        <Status status={child.status} />
      </td>
      <td class="number" title={value === null ? undefined : String(value)}>
        {value === null ? <span class="faint">{child.best ?? '–'}</span> : number(value)}
        {isBest && (
          <span class="sweep-best" title="The best of this sweep">
            {' '}
            ★<span class="hidden-text"> best</span>
          </span>
        )}
      </td>
      {names.map((name) => {
        const found = asValue(child.parameters[name]);
        return (
          <td key={name} class={typeof found === 'number' ? 'number' : undefined}>
            {found === null ? <span class="faint">–</span> : typeof found === 'number' ? number(found) : found}
          </td>
        );
      })}
      <td class="number">
        <Lasting since={child.started_at} until={child.ended_at} />
      </td>
      <td>
        {child.cut_short && (
          <span class="cut-short-why">
            <span class={`cut-kind ${child.cut_short.kind}`}>{CUT_WORDS[child.cut_short.kind]}</span>{' '}
            <span class="soft">{child.cut_short.reason}</span>
          </span>
        )}
      </td>
    </tr>
  );
}
