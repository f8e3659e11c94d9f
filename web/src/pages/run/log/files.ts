// Which files of a run are logs, in the order people look at them, and what each is.
import type { Run, RunFile } from '../../../api/types';
import { bytes } from '../../../lib/format';

export interface LogFile {
  name: string;
  label: string;
  size: number;
}

export interface LogGroup {
  title: string;
  files: LogFile[];
}

const TEXT = /\.(?:txt|log|out|err|csv|json|jsonl|ya?ml|md|py|sh)$/i;
const RANK = /^user_logs\/std_log_(?:process|node)_0*(\d+)(?:_(\w+))?\.txt$/;

export function groupsOf(files: readonly RunFile[], run: Run): LogGroup[] {
  const groups: LogGroup[] = [
    { title: 'Program', files: [] },
    { title: 'Building the environment', files: [] },
    { title: 'System', files: [] },
    { title: 'Other text files', files: [] },
  ];
  const failed = failedLog(run);
  for (const file of files) {
    const kind = kindOf(file);
    if (kind >= 0) groups[kind]!.files.push({ name: file.name, size: file.size, label: labelOf(file, failed) });
  }
  for (const group of groups)
    group.files.sort((one, other) => one.name.localeCompare(other.name, 'en', { numeric: true }));
  return groups.filter((group) => group.files.length > 0);
}

/** The log to show first: of the rank that failed, else the program's first, else any that is not empty. */
export function firstLog(groups: readonly LogGroup[], run: Run): string | undefined {
  const all = groups.filter((group) => group.title !== 'Other text files').flatMap((group) => group.files);
  const failed = failedLog(run);
  if (failed && all.some((file) => file.name === failed)) return failed;
  return (all.find((file) => file.size > 0) ?? all[0])?.name;
}

export function failedLog(run: Run): string | null {
  const found = run.error?.details?.log;
  return typeof found === 'string' ? found : null;
}

function kindOf(file: RunFile): number {
  if (/^(user_logs|logs)\//.test(file.name)) return 0;
  if (file.name.startsWith('azureml-logs/')) return /20_image_build_log/.test(file.name) ? 1 : 0;
  if (file.kind === 'stream') return 2;
  return TEXT.test(file.name) ? 3 : -1;
}

function labelOf(file: RunFile, failed: string | null): string {
  const rank = RANK.exec(file.name);
  const name = rank
    ? `${rank[2] ? `${rank[2]} ` : 'rank '}${rank[1]} · ${file.name.slice(10)}`
    : file.name.replace(/^user_logs\//, '');
  return `${file.name === failed ? '✗ ' : ''}${name} (${bytes(file.size)})`;
}
