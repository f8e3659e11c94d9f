// While it is shown, runs of a workspace that changed have something read again.
import { useWorkspaceWatch } from '../../api/live';

export function Follow({ workspace, act }: { workspace: string; act: () => void }) {
  useWorkspaceWatch(workspace, act, 2000);
  return null;
}
