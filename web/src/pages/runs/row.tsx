// One line of the table: a run, a group, or a place where a run will be.
import { Component, type ComponentChildren } from 'preact';
import { hasEnded } from '../../api/types';
import { ago, duration, exact, number } from '../../lib/format';
import { statusKind, statusWord } from '../../parts/basics';
import { runHref } from '../../lib/router';
import { cellText, halves, looksNumeric, nameOf, type Column, type Row } from './fields';
import type { Group } from './segments';

export const ROW_PX = 32;

interface Line {
  line: number;
  isActive: boolean;
}

const place = (line: number): { transform: string } => ({ transform: `translateY(${line * ROW_PX}px)` });
export const lineId = (line: number): string => `line-${line}`;

export interface RunLineProps extends Line {
  row: Row | undefined;
  columns: readonly Column[];
  /** The present, for what goes on; 0 where it does not matter. */
  now: number;
  isSelected: boolean;
  onSelect: (line: number, row: Row, isRange: boolean) => void;
}

/** Whether a line says something else as time goes by. */
export const ticks = (row: Row, now: number): boolean =>
  !hasEnded(row.status) || now - Date.parse(row.created_at) < 3_600_000;

/** Drawn again only when something of it changed. Its parts are elements, not components: it is drawn while one scrolls. */
export class RunLine extends Component<RunLineProps> {
  override shouldComponentUpdate(next: RunLineProps): boolean {
    return (Object.keys(next) as (keyof RunLineProps)[]).some((key) => next[key] !== this.props[key]);
  }

  override render({ line, row, columns, now, isSelected, isActive, onSelect }: RunLineProps): ComponentChildren {
    if (!row)
      return (
        <div class="rt-line rt-missing" role="row" aria-rowindex={line + 2} style={place(line)}>
          <span class="rt-bone" />
        </div>
      );
    const name = nameOf(row);
    const [head, tail] = row.display_name ? [name, ''] : halves(name);
    return (
      <div
        id={lineId(line)}
        class={`rt-line${isSelected ? ' is-selected' : ''}${isActive ? ' is-active' : ''}`}
        role="row"
        aria-rowindex={line + 2}
        aria-selected={isSelected}
        style={place(line)}
      >
        <span class="rt-check" role="gridcell">
          <input
            type="checkbox"
            tabIndex={-1}
            checked={isSelected}
            aria-label={`Select ${name}`}
            onClick={(event) => onSelect(line, row, event.shiftKey)}
          />
        </span>
        <span class="rt-name" role="gridcell">
          {row.parent_id && (
            <span class="faint" title="A child of another run">
              ↳
            </span>
          )}
          <a
            href={runHref(row.id)}
            tabIndex={-1}
            aria-label={name}
            title={row.display_name ? `${row.display_name}\n${row.id}` : row.id}
          >
            <span class="cut">{head}</span>
            {tail && <span>{tail}</span>}
          </a>
          {row.archived && <span class="rt-mark">archived</span>}
        </span>
        {columns.map((column) => cell(column, row, now))}
      </div>
    );
  }
}

function cell(column: Column, row: Row, now: number): ComponentChildren {
  const { field } = column;
  if (field === 'status') {
    const kind = statusKind(row.status);
    return (
      <span key={field} class="rt-cell cut" role="gridcell" title={whyOf(row)}>
        <span class={`status ${kind}`}>
          <span class={kind === 'busy' ? 'dot pulse' : 'dot'} aria-hidden="true" />
          {statusWord(row.status)}
        </span>
      </span>
    );
  }
  if (field === 'created')
    return (
      <time key={field} class="rt-cell cut" role="gridcell" dateTime={row.created_at} onPointerEnter={titled}>
        {ago(row.created_at, now || Date.now())}
      </time>
    );
  const value = column.isKeyed ? row.values[field] : undefined;
  const text = column.isKeyed ? cellText(value) : builtIn(field, row, now);
  const isRight = column.isKeyed ? looksNumeric(value) : column.isNumber;
  return (
    <span
      key={field}
      class={`rt-cell cut${isRight ? ' number right' : ''}${value === '' ? ' faint' : ''}`}
      role="gridcell"
      title={text}
    >
      {text}
    </span>
  );
}

function builtIn(field: string, row: Row, now: number): string {
  switch (field) {
    case 'experiment':
      return row.experiment;
    case 'duration':
      return row.started_at
        ? duration((row.ended_at ? Date.parse(row.ended_at) : now || Date.now()) - Date.parse(row.started_at))
        : '–';
    case 'number':
      return number(row.number);
    case 'user':
      return row.submitted_by;
    case 'target':
      return row.target;
    default:
      return row.type ?? '';
  }
}

const whyOf = (row: Row): string | undefined =>
  row.error ? [row.error.code, row.error.line].filter(Boolean).join(': ') : row.waits_for || undefined;

/** The exact time, as a tooltip. */
const titled = (event: PointerEvent): void => {
  const element = event.currentTarget as HTMLTimeElement;
  element.title = exact(element.dateTime);
};

export function GroupLine({
  line,
  group,
  label,
  isOpen,
  isActive,
  onToggle,
}: Line & { group: Group; label: string; isOpen: boolean; onToggle: (group: Group) => void }) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid handles the keys of all its lines
    <div
      id={lineId(line)}
      class={`rt-line rt-group${isActive ? ' is-active' : ''}`}
      role="row"
      aria-rowindex={line + 2}
      style={place(line)}
      onClick={() => onToggle(group)}
    >
      <span class="rt-group-text" role="gridcell" aria-expanded={isOpen}>
        <span class={`rt-turn${isOpen ? ' is-open' : ''}`} aria-hidden="true">
          ▸
        </span>
        <span class="faint">{label}</span>
        <strong class="cut">{group.value === null ? 'none' : cellText(group.value)}</strong>
        <span class="rt-count">{number(group.count)}</span>
      </span>
    </div>
  );
}
