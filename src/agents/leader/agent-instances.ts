import type { Observation } from '../../rules/inputs.ts';
import type { ObservationDelta } from '../channel/dependencies.ts';

type Instances = Observation['instances'];

/**
 * The agent installations that use the identity of a node; of two at once both are recorded. When a boot sends requests
 * again after another boot of the same installation, two machines have one disk image: the other boot is then recorded as
 * `<instance>#<boot>`. After a restart the old boot sends no more requests.
 */
export interface AgentInstances {
  after(before: Instances, delta: ObservationDelta): Instances;
  forget(uuid: string): void;
}

/** An installation without contact for this long no longer counts. */
const INSTANCE_MS = 10 * 60_000;
const MOST = 8;
/** Former boots of a node that are remembered: whoever has its key can name another one with each request. */
const MOST_FORMER = 32;

export function createAgentInstances(): AgentInstances {
  /** by node: boots that were followed by another one, and when they were last seen */
  const formerBoots = new Map<string, Map<string, number>>();

  function remember(uuid: string, instance: string, seenAt: number, now: number) {
    const former = formerBoots.get(uuid) ?? new Map<string, number>();
    for (const [key, at] of former) if (at + INSTANCE_MS <= now) former.delete(key);
    former.delete(instance);
    if (former.size >= MOST_FORMER) for (const oldest of former.keys()) if (former.delete(oldest)) break;
    former.set(instance, seenAt);
    formerBoots.set(uuid, former);
  }

  return {
    after(before, { uuid, instance, boot, contactAt }) {
      if (instance === undefined) return before;
      const known = before[instance];
      // A delta of another replica that is late does not mean that the boot is back.
      if (known && contactAt < known.seenAt) return before;
      const after: Record<string, Instances[string]> = {};
      for (const [key, seen] of Object.entries(before)) if (seen.seenAt + INSTANCE_MS > contactAt) after[key] = seen;
      if (known?.boot !== undefined && boot !== undefined && known.boot !== boot) {
        const lastSeen = formerBoots.get(uuid)?.get(`${instance}#${boot}`);
        const returned = lastSeen !== undefined && lastSeen + INSTANCE_MS > contactAt;
        remember(uuid, `${instance}#${known.boot}`, known.seenAt, contactAt);
        if (returned) after[`${instance}#${known.boot}`] = known;
        delete after[`${instance}#${boot}`];
      }
      after[instance] = { ...(boot !== undefined && { boot }), seenAt: contactAt };
      return Object.keys(after).length > MOST ? newest(after) : after;
    },
    forget: (uuid) => void formerBoots.delete(uuid),
  };
}

const newest = (instances: Instances): Instances =>
  Object.fromEntries(
    Object.entries(instances)
      .sort(([, a], [, b]) => b.seenAt - a.seenAt)
      .slice(0, MOST),
  );
