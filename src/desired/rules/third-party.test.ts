import { describe, expect, it } from 'vitest';
import { makeInputs } from '../../../testing/inputs.ts';
import type { MicroserviceEntry, ObservedMicroservice } from '../../api/v3/index.ts';
import { entryUuid } from '../../rules/names.ts';
import { makeNode } from '../../subjects/nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../../subjects/workloads/_make.ts';
import type { MicroserviceView } from '../../wire/agent.ts';
import { desiredState } from './desired.ts';
import { isRebuildDue, thirdPartyRegistries, thirdPartyView } from './third-party.ts';

const desiredOf = (entry: Partial<MicroserviceEntry> = {}) =>
  desiredState(makeInputs({ applications: [makeApplication({ entries: [makeEntry(entry)] })] }));
const application = makeApplication({ entries: [makeEntry({ images: { amd64: 'new:1', registry: 'team' } })] });
const uuid = entryUuid(application, { name: 'reader' });
const known = (facts: Partial<ObservedMicroservice>) =>
  makeNode({ status: { microservices: [observedReader({ uuid, ...facts })] } }).status;

describe('thirdPartyView', () => {
  const held = desiredState(makeInputs({ applications: [application] }));
  const [admitted] = desiredOf().microservices as [MicroserviceView];

  it('has the members of our view, and those of earlier agents in their spelling', () => {
    const desired = desiredOf({ container: { ports: [{ internal: 80, external: 8080, protocol: 'udp' }] } });
    const [ours] = desired.microservices as [MicroserviceView];
    expect(thirdPartyView(desired, new Map(), undefined)).toEqual([
      {
        ...ours,
        logSize: 10,
        isNats: false,
        execEnabled: false,
        delete: false,
        deleteWithCleanUp: false,
        deleteWithCleanup: false,
        portMappings: [
          { internal: 80, external: 8080, protocol: 'udp', portInternal: 80, portExternal: 8080, isUdp: true },
        ],
      },
    ]);
  });

  it('has the last admitted view of a held entry, without a rebuild', () => {
    const requested = { ...admitted, rebuild: true, rebuildCount: 2 };
    expect(thirdPartyView(held, new Map([[uuid, requested]]), known({ rebuildCount: 1 }))).toMatchObject([
      { ...admitted, rebuild: false, rebuildCount: 1, logSize: 10 },
    ]);
  });

  it('has a held entry that was never admitted here with the image and the revision of the node', () => {
    const sent = { revision: 'r0', imageId: 'old:0', rebuildCount: 0, at: 1 };
    expect(thirdPartyView(held, new Map(), known({ imageId: 'sha256:1', revision: 'r1', sent }))).toMatchObject([
      { uuid, imageId: 'sha256:1', revision: 'r1', name: 'reader' },
    ]);
    expect(thirdPartyView(held, new Map(), known({ sent, imageId: undefined }))).toMatchObject([
      { uuid, imageId: 'old:0' },
    ]);
  });

  it('leaves out a held entry when no image of it is known', () => {
    expect(thirdPartyView(held, new Map(), known({ imageId: undefined }))).toEqual([]);
  });

  it('leaves out entries that were neither admitted nor reported', () => {
    expect(thirdPartyView(held, new Map(), undefined)).toEqual([]);
  });
});

describe('a third-party agent is told to make a container anew', () => {
  const [view] = desiredOf().microservices as [MicroserviceView];
  const sent = (revision: string) => ({ revision, imageId: 'a', rebuildCount: 0, at: 1 });
  const CASES: Record<string, [Partial<ObservedMicroservice> | undefined, boolean, Partial<MicroserviceView>?]> = {
    'not while it has no container': [undefined, false],
    'not for a first revision that was sent and has no container yet': [{ sent: sent(view.revision) }, false],
    'not while the container has the revision': [{ containerId: 'c', revision: view.revision }, false],
    'when the container has another revision': [{ containerId: 'c', revision: 'r1-0' }, true],
    'not when nothing is known of the container, which may have run before': [{ containerId: 'c' }, false],
    'when an edit that was sent is taken back, since the container may be made of it by now': [
      { containerId: 'c', revision: view.revision, sent: sent('r1-0') },
      true,
    ],
    'when another revision was sent before, and given up without a container': [
      { state: 'FAILED', sent: sent('r1-0') },
      true,
    ],
    'when a rebuild was ordered': [{ containerId: 'c', revision: view.revision }, true, { rebuild: true }],
  };

  it.each(Object.entries(CASES))('%s', (_, [facts, due, change]) => {
    expect(isRebuildDue({ ...view, ...change }, facts && { uuid, state: 'RUNNING', ...facts })).toBe(due);
  });
});

it('a third-party agent always gets the built-in registries, each once, since it gives up a container whose registry it has not read', () => {
  const hub = { id: 1, url: 'docker.io' };
  const own = { id: 5, url: 'registry.example' };
  const idsOf = (used: object[]) => thirdPartyRegistries(used as never).map(({ id, url }) => [id, url]);
  const builtIn = [
    [1, 'docker.io'],
    [2, 'from_cache'],
  ];
  expect(idsOf([])).toEqual(builtIn);
  expect(idsOf([hub, own])).toEqual([...builtIn, [5, 'registry.example']]);
});
