import { hash } from 'node:crypto';
import { type Destination, destinationOf, staysWithin } from '../../../api/destination.ts';
import type { RegistrySpec } from '../../../api/v3/index.ts';

/**
 * The one destination that the passwords of a Secret may be sent to, which the Secret names: `https://host`, with
 * `#sha256:<digest>` of the field `ca` when the registry has a CA of its own, or `http://host` when the server is not
 * authenticated. A user who may write Registries and no Secrets thus cannot send a password to another destination.
 */
export function destinationText(spec: RegistrySpec): string {
  const { host, verified, ca } = withDigest(destinationOf(spec));
  return `${verified ? 'https' : 'http'}://${host}${verified && ca ? `#${ca}` : ''}`;
}

/** Whether a password that may be sent to `allowed` (see destinationText) may be sent to this registry. */
export function mayBeSentTo(spec: RegistrySpec, allowed: string): boolean {
  const [url = '', ca] = allowed.split('#');
  return staysWithin(withDigest(destinationOf(spec)), destinationOf({ url, ca }));
}

const withDigest = ({ ca, ...rest }: Destination): Destination => ({
  ...rest,
  ca: ca && `sha256:${hash('sha256', ca, 'hex')}`,
});
