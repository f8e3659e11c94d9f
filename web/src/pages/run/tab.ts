// The properties of every tab of the run page; `pages/run/<tab>/index.tsx` exports its component as default.
import type { Run } from '../../api/types';

export interface TabProps {
  /** The run as it is now: the page reads it again whenever the server says that it changed. */
  run: Run;
  /** Read the run again at once, after the tab changed something of it. */
  again: () => void;
}
