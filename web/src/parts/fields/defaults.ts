// Which fields a plot shows before a person chooses some. Pure.
import { varies, type Field } from './values';

const MOST_AXES = 8;

/** Axes of the parallel plot: the parameters that differ, then the metrics. */
export function firstAxes(fields: readonly Field[], last?: string): string[] {
  const differing = fields.filter((field) => varies(field) && field.id !== last);
  const parameters = differing.filter((field) => field.group === 'Parameters').slice(0, MOST_AXES - 2);
  const metrics = differing
    .filter((field) => field.group === 'Metrics')
    .slice(0, MOST_AXES - parameters.length - (last ? 1 : 0));
  const chosen = [...parameters, ...(last && parameters.length ? [] : metrics)].map((field) => field.id);
  if (last) chosen.push(last);
  const rest = fields
    .filter((field) => !chosen.includes(field.id))
    .sort((a, b) => Number(b.group === 'Metrics') - Number(a.group === 'Metrics'));
  return [...chosen, ...rest.slice(0, Math.max(0, 2 - chosen.length)).map((field) => field.id)];
}

/** The same for a scatter plot: a parameter that differs against a metric, numbers before words. */
export function firstPair(fields: readonly Field[]): { x: string; y: string } {
  const differing = fields.filter(varies);
  const isNumber = (field: Field): boolean => field.values.some((value) => typeof value === 'number');
  const parameter =
    differing.find((field) => field.group === 'Parameters' && isNumber(field)) ??
    differing.find((field) => field.group === 'Parameters');
  const metric =
    differing.find((field) => field.group === 'Metrics') ?? fields.find((field) => field.group === 'Metrics');
  const rest = fields.filter((field) => field !== parameter && field !== metric);
  const x = parameter ?? rest.find((field) => field.group === 'Metrics') ?? rest[0];
  const y = metric ?? rest.find((field) => field !== x);
  return { x: x?.id ?? '', y: y?.id ?? '' };
}
