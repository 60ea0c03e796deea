import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { containerForm, type Fingerprint, sorted } from '../../../src/wire/container.ts';
import { digestOf } from '../../../src/wire/digest.ts';

/**
 * The container digest: a hash of everything in the desired view that is baked into a container. It is stamped on the
 * container as a label, and a container whose label differs is replaced.
 *
 * Guarantees: members that equal their default take no part, so a new member of the view with a default changes no
 * digest; the order of env, ports, volumes and the like takes no part. The golden test pins values across versions,
 * because a changed digest would recreate every container of a fleet on an upgrade of the agent.
 */
export function containerDigest(view: MicroserviceView): string {
  return `${FORM}${digestOf(containerForm(view, DIGEST))}`;
}

/** Names the form below. It changes only when equal views must lead to new containers. */
const FORM = 'c1-';

const DIGEST: Fingerprint = {
  leavesOutItemDefaults: false,
  sortKey: digestOf,
  own: {
    annotations: stringMap,
    env: (variables) =>
      sorted(
        variables.map(({ key, value }) => ({ key, value })),
        DIGEST,
      ),
    volumes: (volumes) =>
      sorted(
        // What the container binds of a volume mount is its path, which the agent has added and which names the content.
        volumes.map(({ scope, content, ...volume }) => ({
          ...volume,
          scope: volume.type === 'volume' ? scope : undefined,
        })),
        DIGEST,
      ),
    healthCheck: (check) => (check.test.length > 0 ? check : undefined),
  },
};

/** The text form of a string map, as `annotations` travels; anything else reads as empty. */
export function stringMap(text: string): Record<string, string> {
  try {
    const value: unknown = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return {};
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, String(member)]));
  } catch {
    return {};
  }
}
