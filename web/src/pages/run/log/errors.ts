// The first line that tells of an error, by the server's rule (`core/error_lines.py`), asked for until it is sure.
import { getJson } from '../../../api/http';

export interface ErrorAnswer {
  size: number;
  line: number | null;
  text: string;
  kind: string;
  sure: boolean;
  searched_to: number;
  offset: number | null;
  done: boolean;
}

/** Return it, or null. A doubtful one counts when nothing sure follows. */
export async function findError(
  at: string,
  file: string,
  after: number,
  progress: (part: number) => void,
  signal: AbortSignal,
): Promise<{ line: number; text: string } | null> {
  let doubtful: { line: number; text: string } | null = null;
  let offset: number | null = null;
  for (;;) {
    const answer: ErrorAnswer = await getJson<ErrorAnswer>(`${at}/first-error`, { file, after, offset }, signal);
    const found = answer.line === null ? null : { line: answer.line, text: answer.text };
    if (found && answer.sure) return found;
    doubtful ??= found;
    if (answer.done) return doubtful;
    after = answer.searched_to;
    offset = answer.offset;
    progress(answer.size ? (offset ?? 0) / answer.size : 0);
  }
}
