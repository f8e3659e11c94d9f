// The properties of every tab of a service's page.
import type { ServiceDescription, Webservice } from '../../api/services';
import type { Resource } from '../../lib/useResource';

export interface TabProps {
  /** The service as it is now. */
  service: Webservice;
  /** Its own description; read again when another revision serves. */
  description: Resource<ServiceDescription>;
  /** Read the service again at once, after the tab changed something of it. */
  again: () => void;
}

/** The service's part of the API. */
export const apiOf = ({ workspace, name }: Webservice): string =>
  `/workspaces/${encodeURIComponent(workspace)}/services/${encodeURIComponent(name)}`;
