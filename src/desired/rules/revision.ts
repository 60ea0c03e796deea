import { createHmac } from 'node:crypto';
import { CONTAINER_FIELDS } from '../../api/container/index.ts';
import { BUILT_IN_REGISTRIES } from '../../api/names.ts';
import type { MicroserviceView } from '../../wire/agent.ts';
import { containerForm, type Fingerprint, itemForm, sorted } from '../../wire/container.ts';
import { canonicalJson, digestOf } from '../../wire/digest.ts';

/** Version of the form below. It changes only when equal views must get new containers on the whole fleet. */
const FORM = 'r1-';

const PLAIN = { leavesOutItemDefaults: true, sortKey: canonicalJson };

/**
 * Revision of a view: a versioned hash of its non-default fields that need a new container. Config, schedule, rebuild
 * counts and the items of catalogs take no part; nor does the order of env, ports, volumes and the like. Members that
 * equal their default take no part either, so that a new optional field changes no revision. A test has golden
 * values, because a changed revision makes every container of a fleet out of date.
 *
 * Revisions are part of statuses, so values of Secrets enter them only through a keyed hash: without `key` the revision
 * depends on which variables come from a Secret, and not on their values.
 */
export function revisionOf(view: MicroserviceView, key?: string): string {
  const form = containerForm(view, {
    ...PLAIN,
    own: {
      ...OWN,
      env: (items) =>
        sorted(
          items.map((item) => variableForm(item, key)),
          PLAIN,
        ),
    },
  });
  // The same image name at another registry is another image.
  if (view.registryId !== BUILT_IN_REGISTRIES.remote.id) form.registry = view.registryId;
  return `${FORM}${digestOf(form)}`;
}

const OWN: Omit<Fingerprint['own'], 'env'> = {
  annotations: (text) => text,
  healthCheck: (check) => (check.test.length > 0 ? check : undefined),
  volumes: (volumes) =>
    sorted(
      volumes.map((volume) =>
        itemForm(
          { ...volume, scope: volume.type === 'volume' ? volume.scope : undefined },
          CONTAINER_FIELDS.volumes.itemDefaults,
          PLAIN,
        ),
      ),
      PLAIN,
    ),
};

function variableForm({ key: name, value, secret }: MicroserviceView['env'][number], key: string | undefined): unknown {
  if (!secret) return { name, value };
  const keyed =
    key &&
    createHmac('sha256', key)
      .update(JSON.stringify([name, value]))
      .digest('hex');
  return { name, secret: keyed || true };
}
