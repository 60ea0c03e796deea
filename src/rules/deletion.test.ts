import { describe, expect, it, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../api/names.ts';
import type { Application, ObservedMicroservice } from '../api/v3/index.ts';
import { at, MINUTE, makeDesired, makeNode, makeObserved, T0 } from '../subjects/nodes/_make.ts';
import { checkApplicationDeletion, checkNodeDeletion, DELETION_LIMIT_MS, hasContainer } from './deletion.ts';
import type { Liveness } from './inputs.ts';

const makeApplication = (annotations?: Record<string, string>, deleted = true): Application => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name: 'plant', ...(deleted && { deletionTimestamp: at(T0) }), annotations },
  spec: { isActivated: true, microservices: [{ name: 'renamed', uuid: 'ms-9' }] as never },
});

const makeDeletedNode = (microservices: ObservedMicroservice[], annotations?: Record<string, string>) =>
  makeNode({ status: { microservices }, deletionTimestamp: at(T0), annotations });

const saidGoodbye = (node: ReturnType<typeof makeDeletedNode>) =>
  ({ ...node, status: { ...node.status, daemonStatus: 'DEPROVISIONED' } }) as typeof node;

describe('the deletion of an Application', () => {
  const nodes = (liveness: Liveness, ...microservices: ObservedMicroservice[]) => [
    { node: makeNode({ status: { microservices } }), liveness },
  ];
  test.each<[string, ReturnType<typeof nodes>, boolean]>([
    ['waits for a live node that runs its containers', nodes('live', makeObserved()), true],
    ['waits for containers of entries that were removed before', nodes('live', makeObserved({ uuid: 'gone' })), true],
    [
      'waits for containers by uuid, under any name that the node reports',
      nodes('live', makeObserved({ uuid: 'ms-9', application: 'other' })),
      true,
    ],
    [
      'does not wait for containers of other applications',
      nodes('live', makeObserved({ application: 'other' })),
      false,
    ],
    ['does not wait for a silent node', nodes('silent', makeObserved({ state: 'UNKNOWN' })), false],
    ['does not wait for a node that was never provisioned', nodes('never', makeObserved()), false],
    ['does not wait once no container is reported', nodes('live'), false],
    ['does not wait when no node reports it', [], false],
  ])('%s', (_, given, pending) => {
    expect(checkApplicationDeletion(makeApplication(), given, T0).pending).toBe(pending);
  });

  const desired = makeDesired({ uuid: 'mine', owner: 'uid' }, { uuid: 'theirs', owner: 'uid of the namesake' });
  const owner = { ...makeApplication(), metadata: { ...makeApplication().metadata, uid: 'uid' } };
  test.each<[string, string, boolean, boolean]>([
    ['waits for the container of its own entry', 'mine', false, true],
    ["does not wait for the container of another application's entry", 'theirs', true, false],
    ['waits for a container of a removed entry under its name', 'left', true, true],
    [
      'does not wait for a container of a removed entry under a name that another application owns',
      'left',
      false,
      false,
    ],
  ])('%s', (_, uuid, ownsName, pending) => {
    const [reporting] = nodes('live', makeObserved({ uuid }));
    expect(checkApplicationDeletion(owner, [{ ...reporting, desired } as never], T0, { ownsName }).pending).toBe(
      pending,
    );
  });

  it('names the containers that it waits for, sorted, and until when', () => {
    const given = [
      ...nodes('live', makeObserved({ uuid: 'b', name: 'writer' }), makeObserved()),
      {
        node: makeNode({ name: 'gw-2', status: { microservices: [makeObserved()] } }),
        liveness: 'silent' as const,
      },
    ];
    expect(checkApplicationDeletion(makeApplication(), given, T0)).toEqual({
      pending: true,
      message: 'waiting for reader on gw-1, writer on gw-1',
      until: T0 + DELETION_LIMIT_MS,
    });
  });

  test.each([
    ['waits just before five minutes', 5 * MINUTE - 1, true],
    ['does not wait after five minutes', 5 * MINUTE, false],
  ])('%s', (_, later, pending) => {
    expect(checkApplicationDeletion(makeApplication(), nodes('live', makeObserved()), T0 + later).pending).toBe(
      pending,
    );
  });

  test.each([
    ['true', false],
    ['', true],
    ['false', true],
  ])('with the annotation %j: pending is %s', (value, pending) => {
    const application = makeApplication({ [ANNOTATIONS.forceDelete]: value });
    expect(checkApplicationDeletion(application, nodes('live', makeObserved()), T0).pending).toBe(pending);
  });
});

describe('the deletion of a node', () => {
  test.each<[string, ReturnType<typeof makeDeletedNode>, Liveness, number, boolean]>([
    ['waits for the live machine to remove its containers', makeDeletedNode([makeObserved()]), 'live', T0, true],
    ['waits for the agent to give up its identity once no container is left', makeDeletedNode([]), 'live', T0, true],
    ['does not wait once the agent gave up its identity', saidGoodbye(makeDeletedNode([])), 'live', T0, false],
    [
      'does not wait for containers that a live node no longer reports',
      saidGoodbye(makeDeletedNode([makeObserved({ state: 'UNKNOWN', containerId: undefined })])),
      'live',
      T0,
      false,
    ],
    ['does not wait for a silent machine', makeDeletedNode([makeObserved()]), 'silent', T0, false],
    ['does not wait when no agent ever had the identity', makeDeletedNode([]), 'never', T0, false],
    ['waits for five minutes at most', makeDeletedNode([makeObserved()]), 'live', T0 + DELETION_LIMIT_MS, false],
    ['can be forced', makeDeletedNode([makeObserved()], { [ANNOTATIONS.forceDelete]: 'true' }), 'live', T0, false],
  ])('%s', (_, node, liveness, now, pending) => {
    expect(checkNodeDeletion(node, liveness, now).pending).toBe(pending);
  });

  it('names the containers that it waits for and until when', () => {
    expect(checkNodeDeletion(makeDeletedNode([makeObserved()]), 'live', T0)).toEqual({
      pending: true,
      message: 'waiting for plant/reader',
      until: T0 + DELETION_LIMIT_MS,
    });
  });
});

describe('hasContainer', () => {
  test.each([
    ['RUNNING', undefined, true],
    ['STUCK_IN_RESTART', 'c', true],
    ['DELETING', 'c', true],
    ['UNKNOWN', 'c', true],
    ['UNKNOWN', undefined, false],
    ['PULLING', undefined, false],
    ['PULLING', 'c', true],
    ['QUEUED', undefined, false],
    ['DELETED', 'c', false],
    ['STOPPED', 'c', false],
  ])('%s with container %s: %s', (state, containerId, want) => {
    expect(hasContainer({ state, containerId })).toBe(want);
  });
});
