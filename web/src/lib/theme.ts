// Dark or light: the system's setting, until the person chooses one.
import { computed, effect, signal } from '@preact/signals';
import { keep, recall } from './browser';

export type Theme = 'auto' | 'light' | 'dark';
const KEY = 'runyard-theme';
const machine = matchMedia('(prefers-color-scheme: dark)');
const isMachineDark = signal(machine.matches);
machine.addEventListener('change', () => (isMachineDark.value = machine.matches));

/** The person's choice. */
export const theme = signal<Theme>(read());

/** The theme in use. Components that draw on a canvas read it, and so draw again when it changes. */
export const shade = computed<'light' | 'dark'>(() =>
  theme.value === 'auto' ? (isMachineDark.value ? 'dark' : 'light') : theme.value,
);

effect(() => {
  document.documentElement.dataset.theme = shade.value;
  keep(KEY, theme.value);
});

function read(): Theme {
  const kept = recall(KEY);
  return kept === 'light' || kept === 'dark' ? kept : 'auto';
}
