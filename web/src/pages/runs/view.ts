// The view of the table, read from the address: a copied link shows the same view.
import type { Query } from '../../api/http';

export interface View {
  experiment: string;
  filter: string;
  sort: string;
  descending: boolean;
  /** null: the usual columns. */
  columns: readonly string[] | null;
  group: string;
  /** Filters of the groups that are open. */
  open: readonly string[];
  children: boolean;
  view: string;
}

export const VIEWS = ['active', 'archived', 'all', 'deleted'] as const;
const NONE = '-';

export function viewOf(query: URLSearchParams): View {
  const columns = query.getAll('columns');
  const view = query.get('view') ?? '';
  const sort = query.get('sort') || 'created';
  return {
    experiment: query.get('experiment') ?? '',
    filter: query.get('filter') ?? '',
    sort,
    descending: (query.get('descending') ?? String(sort === 'created')) === 'true',
    columns: columns.length ? columns.filter((one) => one !== NONE) : null,
    group: query.get('group') ?? '',
    open: query.getAll('open'),
    children: query.get('children') === 'true',
    view: (VIEWS as readonly string[]).includes(view) ? view : 'active',
  };
}

/** The address of a sort: the default is left out. */
export function sortQuery(sort: string, descending: boolean): Query {
  if (sort === 'created') return { sort: null, descending: descending ? null : 'false' };
  return { sort, descending: descending ? 'true' : null };
}

export const columnsQuery = (columns: readonly string[]): Query => ({ columns: columns.length ? columns : [NONE] });

const FALLING = new Set(['created', 'duration', 'number']);

/** The sort order after a click on a header: its usual direction, then the other one, then the default order. */
export function nextSort(view: Pick<View, 'sort' | 'descending'>, field: string): Query {
  const first = FALLING.has(field);
  if (view.sort !== field) return sortQuery(field, first);
  if (view.descending === first) return sortQuery(field, !first);
  return sortQuery('created', true);
}

/** Both conditions, however each is written. */
export function both(one: string, other: string): string {
  if (!one.trim()) return other;
  return other ? `(${one}) and ${other}` : one;
}

/** The query for the server, without sort order and window. */
export function filtersOf(view: View, more = ''): Query {
  return {
    experiment: view.experiment,
    filter: both(view.filter, more),
    include_children: view.children || null,
    view: view.view === 'active' ? null : view.view,
  };
}
