// The virtual table: only lines that are seen, and some around them, are in the page.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { now as time } from '../../parts/basics';
import { go, runHref } from '../../lib/router';
import { kindOf, looksNumeric, tracksOf, type Column, type Row } from './fields';
import type { Model } from './model';
import { GroupLine, lineId, ROW_PX, RunLine, ticks } from './row';
import { lineCount, placeOf, windowsBetween, type Group, type Segment } from './segments';

const OVER = 6; // lines beyond each edge
const MISSING = 40; // drawn before anybody knows how many there are

export interface GridProps {
  model: Model;
  /** Its rows stand in until the model's own are there: another column was added, nothing moved. */
  before: Model | undefined;
  segments: readonly Segment[] | undefined;
  columns: readonly Column[];
  groupLabel: string;
  open: readonly string[];
  selected: ReadonlySet<string>;
  onSort: (field: string) => void;
  onSelect: (line: number, row: Row, isRange: boolean) => void;
  onSelectAll: () => void;
  onToggle: (group: Group) => void;
}

export function Grid(props: GridProps) {
  const { model, before, segments, columns, open, selected, onSelect } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(-1);
  const [first, count] = useVisible(scroller);
  const lines = segments ? lineCount(segments) : MISSING;
  const known = segments ?? (props.groupLabel ? [] : [{ key: '', start: 0, length: MISSING }]);
  void model.version.value;

  useLayoutEffect(() => {
    for (const { key, from, to } of windowsBetween(known, first, first + count)) model.want(key, from, to);
  });

  const rowAt = (line: number): Row | undefined => model.row(known, line) ?? before?.row(known, line);
  const isOpen = (group: Group): boolean => open.includes(group.filter);
  const move = (line: number): void => {
    const next = Math.max(0, Math.min(lines - 1, line));
    setActive(next);
    reveal(scroller.current, next);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, count - 2 * OVER - 2);
    const at = active < 0 ? Math.ceil((scroller.current?.scrollTop ?? 0) / ROW_PX) - 1 : active;
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: lines - 1,
    };
    const step = steps[event.key];
    if (step !== undefined) move(step);
    else if (active >= 0 && (event.key === 'Enter' || event.key === ' ')) act(active, event);
    else return;
    event.preventDefault();
  };
  const act = (line: number, event: KeyboardEvent): void => {
    const group = placeOf(known, line)?.segment.group;
    const row = rowAt(line);
    if (group) props.onToggle(group);
    else if (row && event.key === 'Enter') go(runHref(row.id));
    else if (row) onSelect(line, row, event.shiftKey);
  };

  const isNumeric = (field: string): boolean => {
    for (let line = first; line < first + count; line++) {
      const value = rowAt(line)?.values[field];
      if (value !== null && value !== undefined) return looksNumeric(value);
    }
    return false;
  };

  // Elements are used again for the lines that come into sight, so their order in the page is not that of the lines.
  const shown = [];
  for (let slot = 0; slot < count; slot++) {
    const line = first + ((((slot - first) % count) + count) % count);
    if (line >= lines) continue;
    const group = placeOf(known, line)?.segment.group;
    if (group) {
      shown.push(
        <GroupLine
          key={`g${slot}`}
          line={line}
          group={group}
          label={props.groupLabel}
          isOpen={isOpen(group)}
          isActive={line === active}
          onToggle={props.onToggle}
        />,
      );
    } else {
      const row = rowAt(line);
      shown.push(
        <RunLine
          key={slot}
          line={line}
          row={row}
          columns={columns}
          now={row && ticks(row, time.peek()) ? time.value : 0}
          isSelected={row !== undefined && selected.has(row.id)}
          isActive={line === active}
          onSelect={onSelect}
        />,
      );
    }
  }
  return (
    <div
      ref={scroller}
      class="rt card"
      role="grid"
      tabIndex={0}
      aria-label="Runs"
      aria-multiselectable="true"
      aria-rowcount={lines + 1}
      aria-activedescendant={active >= 0 ? lineId(active) : undefined}
      aria-busy={segments === undefined}
      style={tracksOf(columns)}
      onKeyDown={press}
    >
      <Head
        {...props}
        columns={columns.map((one) =>
          one.isKeyed && !one.isNumber ? { ...one, isNumber: isNumeric(one.field) } : one,
        )}
        lines={lines}
      />
      <div class="rt-lines" style={{ height: `${lines * ROW_PX}px` }}>
        {shown}
      </div>
    </div>
  );
}

/** The first line to draw and how many, by one measuring per frame. */
function useVisible(scroller: { current: HTMLDivElement | null }): readonly [number, number] {
  const [range, setRange] = useState<readonly [number, number]>([0, MISSING]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    let frame = 0;
    const measure = (): void => {
      frame = 0;
      const first = Math.max(0, Math.floor(element.scrollTop / ROW_PX) - OVER);
      const count = Math.ceil(element.clientHeight / ROW_PX) + 2 * OVER;
      setRange((old) => (old[0] === first && old[1] === count ? old : [first, count]));
    };
    const soon = (): void => {
      frame ||= requestAnimationFrame(measure);
    };
    // Lines that pass below the pointer would each be styled as pointed at.
    let rest: ReturnType<typeof setTimeout> | undefined;
    const scrolled = (): void => {
      soon();
      element.classList.toggle('is-sideways', element.scrollLeft > 0);
      if (rest === undefined) element.classList.add('is-scrolling');
      clearTimeout(rest);
      rest = setTimeout(() => {
        rest = undefined;
        element.classList.remove('is-scrolling');
      }, 120);
    };
    const observer = new ResizeObserver(soon);
    observer.observe(element);
    element.addEventListener('scroll', scrolled, { passive: true });
    measure();
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      element.removeEventListener('scroll', scrolled);
      clearTimeout(rest);
    };
  }, []);
  return range;
}

function reveal(element: HTMLDivElement | null, line: number): void {
  if (!element) return;
  const top = line * ROW_PX;
  const height = element.clientHeight - ROW_PX - 4; // the header covers a line
  if (top < element.scrollTop) element.scrollTop = top;
  else if (top + ROW_PX > element.scrollTop + height) element.scrollTop = top + ROW_PX - height;
}

function Head({ model, columns, selected, lines, onSort, onSelectAll }: GridProps & { lines: number }) {
  return (
    <div class="rt-head" role="row" aria-rowindex={1}>
      <span class="rt-check" role="columnheader">
        <input
          type="checkbox"
          aria-label={selected.size ? 'Select nothing' : 'Select all'}
          title={selected.size ? 'Select nothing' : 'Select all that match, up to 1000'}
          checked={selected.size > 0}
          ref={(box) => {
            if (box) box.indeterminate = selected.size > 0 && selected.size < lines;
          }}
          onClick={onSelectAll}
        />
      </span>
      <Title model={model} field="name" label="Run" class="rt-name" onSort={onSort} />
      {columns.map((one) => (
        <Title
          key={one.field}
          model={model}
          field={one.field}
          label={one.label}
          class={one.isNumber ? 'right' : ''}
          onSort={onSort}
        />
      ))}
    </div>
  );
}

function Title({
  model,
  field,
  label,
  class: more,
  onSort,
}: {
  model: Model;
  field: string;
  label: string;
  class: string;
  onSort: (field: string) => void;
}) {
  const { sort, descending } = model.view;
  const isSorted = sort === field;
  const kind = kindOf(field);
  return (
    <span
      class={`rt-title ${more}`}
      role="columnheader"
      aria-sort={isSorted ? (descending ? 'descending' : 'ascending') : 'none'}
    >
      <button type="button" title={`Sort by ${field}`} onClick={() => onSort(field)}>
        <span class="cut">{label}</span>
        {kind && (
          <span class="rt-kind" aria-hidden="true">
            {kind[0]}
          </span>
        )}
        {isSorted && (
          <span class="rt-arrow" aria-hidden="true">
            {descending ? '↓' : '↑'}
          </span>
        )}
      </button>
    </span>
  );
}
