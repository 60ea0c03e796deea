import { describe, expect, test } from 'vitest';
import type { Kube } from '../../hack/kube.ts';
import { type Chain, EVERY_KIND, systemChains } from '../../testing/system-references.ts';
import { LABELS } from '../api/names.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { editsOfKinds } from '../rest/_edits.ts';
import { MERGE, startSystemCluster, verdict } from './_system-cluster.ts';

// Who may change over kubectl what microservices of the system use, by every reference that there is.

/** Long enough for the reconcilers and for policies to take effect on a slow machine. */
const timeout = 60_000;
const chains = await systemChains();

const system = await startSystemCluster({ policies: ['skerry-used-by-system', 'skerry-accounts-of-system'] });
const { kube } = system;

const user = (role: 'developer' | 'admin') => system.user(role);
const pathOf = (kind: Kind, name?: string) => system.path(kind, name);

describe.each(chains)('of $title', (chain: Chain) => {
  const { kind, object } = chain.links.at(-1) as Chain['links'][number];
  const { name } = object.metadata;
  const row = editsOfKinds().find((one) => one.kind.key === kind.key);

  /** What becomes of each kind of write with kubectl. */
  async function writes(by: Kube) {
    const path = pathOf(kind, name);
    const stored = (await kube.get(path)) as unknown as KindObject;
    const { [LABELS.usedBySystem]: _, ...labels } = stored.metadata.labels ?? {};
    return {
      patch: await verdict(by, 'PATCH', path, row?.edits.kubectl(1), MERGE),
      replace: await verdict(by, 'PUT', path, { ...stored, metadata: { ...stored.metadata, labels } }),
      delete: await verdict(by, 'DELETE', path),
    };
  }

  test('kubectl patch, replace and delete are refused to a developer and not to an admin', async () => {
    const refused = expect.stringContaining(
      'only who may update systemapplications in skerry.dev changes or deletes it',
    );
    await expect
      .poll(() => writes(user('developer')), { timeout })
      .toEqual({ patch: refused, replace: refused, delete: refused });
    expect(await writes(user('admin'))).toEqual({ patch: 'allowed', replace: 'allowed', delete: 'allowed' });
  });
});

describe('the label of what the system uses', () => {
  const kind = EVERY_KIND.runtimeClasses as Kind;
  const labels = { [LABELS.usedBySystem]: 'true' };
  const free = (metadata: object = {}) => ({
    apiVersion: 'skerry.dev/v3',
    kind: kind.definition.kind,
    metadata: { name: 'free', ...metadata },
    spec: { handler: 'crun' },
  });

  test('is set by no developer, who changes and deletes an object without it', async () => {
    await kube.request('POST', pathOf(kind), free());
    const developer = user('developer');
    const path = pathOf(kind, 'free');
    await expect
      .poll(() => verdict(developer, 'POST', pathOf(kind), free({ name: 'labelled', labels })), { timeout })
      .toContain('applications of the system use it');
    expect(await verdict(developer, 'PATCH', path, { metadata: { labels } }, MERGE)).toContain(
      'applications of the system use it',
    );
    expect(await verdict(developer, 'PATCH', path, { spec: { handler: 'runc' } }, MERGE)).toBe('allowed');
    expect(await verdict(developer, 'DELETE', path)).toBe('allowed');
  });

  test('is removed by the reconciler from what no application of the system uses', async () => {
    const path = pathOf(kind, 'marked');
    await kube.request('POST', pathOf(kind), free({ name: 'marked', labels }));
    const mark = async () => ((await kube.get(path)) as unknown as KindObject).metadata.labels?.[LABELS.usedBySystem];
    await expect.poll(mark, { timeout }).toBeUndefined();
  });
});

test('kubectl gives an application of the system no service account of a developer, before it exists', async () => {
  const kind = EVERY_KIND.serviceAccounts as Kind;
  const account = (applicationName: string) => ({
    apiVersion: 'skerry.dev/v3',
    kind: kind.definition.kind,
    metadata: { name: 'early' },
    spec: { applicationName, roleRef: { name: 'viewer' } },
  });
  const make = (role: 'developer' | 'admin', application: string) =>
    verdict(user(role), 'POST', pathOf(kind), account(application));
  await expect
    .poll(() => make('developer', 'system-later'), { timeout })
    .toContain('names of applications of the system begin with "system-"');
  expect(await make('admin', 'system-later')).toBe('allowed');
  expect(await make('developer', 'shop')).toBe('allowed');
});
