// Dark or light: as the machine says, until somebody chooses.
import { computed, effect, signal } from '@preact/signals';
import { keep, recall } from './browser';

export type Theme = 'auto' | 'light' | 'dark';
const KEY = 'runyard-theme';
const machine = matchMedia('(prefers-color-scheme: dark)');
const isMachineDark = signal(machine.matches);
machine.addEventListener('change', () => (isMachineDark.value = machine.matches));

/** What was chosen. */
export const theme = signal<Theme>(read());

/** What is shown. Whoever draws on a canvas reads it, and draws again when it changes. */
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
