// Colours for canvases, read from the style sheet and read again when dark becomes light.
import { shade } from '../../lib/theme';
import type { Field } from './values';
import { scaleOf } from './scale';
import './color.css';

/** Changes when colours do: read it in a component that draws on a canvas. */
export const colorVersion = (): string => shade.value;

/** The value of a colour's variable, `--accent`. */
export const cssColor = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Beyond the eight named colours: hues by the golden angle, so that neighbours differ. */
export const seriesColor = (index: number): string =>
  index < 8 ? cssColor(`--series-${index + 1}`) : `hsl(${(index * 137.5) % 360} 62% ${index % 2 ? 46 : 60}%)`;

/** For each row its colour by a field: along a ramp for numbers, a colour per word; `none` for rows without a value. */
export function colorsBy(field: Field, none: string): string[] {
  const scale = scaleOf(field.values);
  if (scale.kind === 'words') {
    const known = [...new Set(field.values)];
    return field.values.map((value) => (value === null ? none : seriesColor(known.indexOf(value))));
  }
  const stops = [1, 2, 3, 4].map((index) => rgb(cssColor(`--ramp-${index}`)));
  return field.values.map((value) => {
    const at = scale.at(value);
    return at === null ? none : mix(stops, at);
  });
}

type Rgb = readonly [number, number, number];

export function rgb(hex: string): Rgb {
  const bits = Number.parseInt(hex.slice(1), 16);
  return [bits >> 16, (bits >> 8) & 255, bits & 255];
}

export function mix(stops: readonly Rgb[], at: number): string {
  const place = Math.min(1, Math.max(0, at)) * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(place));
  const [from, to, part] = [stops[index]!, stops[index + 1]!, place - index];
  return `rgb(${from.map((one, channel) => Math.round(one + (to[channel]! - one) * part)).join(' ')})`;
}
