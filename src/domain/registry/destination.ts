import { hash } from 'node:crypto';
import { type Destination, destinationOf, staysWithin } from '../../api/destination.ts';
import type { RegistrySpec } from '../../api/v3/index.ts';

/**
 * A Secret names the one place that its passwords may be sent to: `https://host`, with `#sha256:<digest>` of the field
 * `ca` where a CA of the registry's own is trusted there, or `http://host` where the way is not checked. So whoever may
 * write Registries, and no Secrets, cannot send a password anywhere else, in however many steps.
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
