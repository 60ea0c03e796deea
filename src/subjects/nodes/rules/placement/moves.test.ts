import { describe, expect, it } from 'vitest';
import { makeInputs, makeLookups, NOW } from '../../../../../testing/inputs.ts';
import type { Application, EdgeNode } from '../../../../api/v3/index.ts';
import { desiredState } from '../../../../desired/rules/desired.ts';
import { nodeUuid } from '../../../../rules/identity.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';
import { makeApplication, makeEntry, observedReader } from '../../../workloads/_make.ts';
import { verdict } from '../../../workloads/rules/verdicts/verdict.ts';
import { makeNode, NODE_UUID } from '../../_make.ts';
import {
  afterSighting,
  digestWithMoves,
  type FormerNode,
  type FormerNodeFacts,
  isNode,
  type NodeId,
  placements,
  replaced,
  type Sighting,
  sightingOf,
  waitsFor,
  withPlacements,
} from './moves.ts';

const B_UUID = '99999999-9999-4999-8999-999999999999';
const SINCE = '2026-01-02T03:00:00.000Z';
const a = (status: Parameters<typeof makeNode>[0] = {}) => makeNode({ status: { daemonStatus: 'RUNNING' }, ...status });
const b = (status: Parameters<typeof makeNode>[0] = {}) =>
  makeNode({ name: 'gw-2', uuid: B_UUID, status: { daemonStatus: 'RUNNING' }, ...status });
const former = (state: FormerNode['state'] = 'Stopping', more: Partial<FormerNode> = {}): FormerNode => ({
  node: 'gw-1',
  uuid: NODE_UUID,
  since: SINCE,
  state,
  ...more,
});
const digestSince = (since: string) =>
  digestWithMoves('0123456789abcdef', [moved({ node: 'gw-2', formerNodes: [former('Stopping', { since })] })], a());

/** An application whose microservice names `gw-2` now, with this line in its status. */
function moved(
  line: { node?: string; nodeUuid?: string; formerNodes?: FormerNode[] } | undefined,
  { to = 'gw-2', generation = 2 }: { to?: string; generation?: number } = {},
): Application {
  const application = makeApplication({ generation, entries: [makeEntry({ agent: { name: to } })] });
  const uuid = entryUuid(application, { name: 'reader' });
  const lines = line ? [{ name: 'reader', uuid, state: 'RUNNING', ready: true, ...line }] : [];
  return { ...application, status: { observedGeneration: 1, microservices: lines } };
}
const uuid = entryUuid(makeApplication(), { name: 'reader' });
/** What is heard of a node whose stored state is up to date. */
const livenessOf = (node: EdgeNode | undefined) =>
  (({ UNKNOWN: 'silent', NOT_PROVISIONED: 'never', DEPROVISIONED: 'never' }) as const)[
    node?.status?.daemonStatus ?? ''
  ] ?? 'live';
const item = (state: string) => observedReader({ uuid, state });

describe('what a node waits for', () => {
  const cases: Record<string, [Parameters<typeof moved>[0], string[]]> = {
    'nothing for an entry that was nowhere': [undefined, []],
    'nothing for an entry that is here': [{ node: 'gw-2' }, []],
    'nothing for an entry whose node was deleted after it was emptied': [{}, []],
    'the node of the line, before the leader recorded the move': [{ node: 'gw-1' }, ['gw-1']],
    'a former node that is stopping': [{ node: 'gw-2', formerNodes: [former()] }, ['gw-1']],
    'all former nodes of a chain': [{ node: 'gw-3', formerNodes: [former()] }, ['gw-3', 'gw-1']],
    'not itself, when the entry comes back': [
      { node: 'gw-2', formerNodes: [former('Stopping', { uuid: B_UUID })] },
      [],
    ],
    'not a node that is silent': [{ node: 'gw-2', formerNodes: [former('Unreachable')] }, []],
    'not a node that was deleted': [{ node: 'gw-2', formerNodes: [former('Gone')] }, []],
    'not a node that is heard again, since it was not waited for before': [
      { node: 'gw-2', formerNodes: [former('Removing')] },
      [],
    ],
  };
  it.each(Object.entries(cases))('%s', (_, [line, names]) => {
    const application = moved(line);
    expect(waitsFor(application, 'reader', uuid, b())).toEqual(names);
    const found = verdict(application, application.spec.microservices?.[0] as never, lookups(application));
    expect(found?.reason).toBe(names.length > 0 ? 'MovingFromNode' : undefined);
    for (const name of names) expect(found?.message).toContain(`"${name}"`);
    const { microservices } = desiredState(makeInputs({ node: b(), applications: [application] }));
    expect(microservices.map((one) => ('hold' in one ? one.reason : 'runs'))).toEqual([
      names.length > 0 ? 'MovingFromNode' : 'runs',
    ]);
  });

  it('no write is refused because of a move', () => {
    const application = moved({ node: 'gw-1' });
    const entry = application.spec.microservices?.[0] as never;
    expect(verdict(application, entry, lookups(application), { writing: true })).toBeUndefined();
  });

  const lookups = (application: Application) => makeLookups({ applications: [application], nodes: [a(), b()] });
});

describe('what a former node is', () => {
  const ours: FormerNodeFacts['observation'] = { agent: '1.0.0', reportedAt: Date.parse(SINCE) + 1, sentRevisions: {} };
  const theirs: FormerNodeFacts['observation'] = { reportedAt: Date.parse(SINCE) + 1, sentRevisions: {} };
  const sent = { revision: 'r', imageId: 'i', rebuildCount: 0, at: 1 };
  const after = digestSince(SINCE);
  const before = digestSince('2026-01-02T02:59:59.999Z');
  const live = (microserviceList?: string, ...items: ReturnType<typeof item>[]) =>
    a({ status: { daemonStatus: 'RUNNING', microserviceList, microservices: items } });
  const cases: Record<string, [EdgeNode | undefined, FormerNodeFacts['observation'], Sighting]> = {
    deleted: [undefined, undefined, 'Absent'],
    'running the microservice': [live(after, item('RUNNING')), ours, 'Live'],
    'stopping it': [live(after, item('STOPPING')), ours, 'Live'],
    'unable to stop it': [live(after, item('FAILED')), ours, 'Live'],
    'unable to read its engine': [live(after, item('UNKNOWN')), ours, 'Live'],
    'without it, by a list of after the move': [live(after), ours, 'Stopped'],
    'without it, and this process has not heard of it yet': [live(after), undefined, 'Stopped'],
    'stopped as the list of after the move asks': [live(after, item('STOPPED')), ours, 'Stopped'],
    'without it yet, by a list that is older than the move': [live(before), ours, 'Live'],
    'without it yet, and without a list': [live(''), ours, 'Live'],
    'without it yet, by a list that no move concerned': [live('0123456789abcdef'), ours, 'Live'],
    'an older agent of ours that reported later': [live(), ours, 'Stopped'],
    'an older agent of ours that reported before': [live(), { ...ours, reportedAt: Date.parse(SINCE) }, 'Live'],
    'an agent that says no list and was not heard yet': [live(), undefined, 'Live'],
    'a third-party agent that was last sent a list without it': [live(), theirs, 'Stopped'],
    'a third-party agent that was last sent a list with it': [
      live(),
      { ...theirs, sentRevisions: { [uuid]: sent } },
      'Live',
    ],
    'a third-party agent in place of ours': [live(before), theirs, 'Stopped'],
    silent: [a({ status: { daemonStatus: 'UNKNOWN', microservices: [item('UNKNOWN')] } }), ours, 'Silent'],
    'silent, and may have been sent it': [a({ status: { daemonStatus: 'UNKNOWN' } }), undefined, 'Silent'],
    'silent after it stopped it': [
      a({ status: { daemonStatus: 'UNKNOWN', microserviceList: after } }),
      ours,
      'Stopped',
    ],
    'never provisioned': [a({ status: { daemonStatus: 'NOT_PROVISIONED' } }), undefined, 'Stopped'],
    'deprovisioned, and empty': [a({ status: { daemonStatus: 'DEPROVISIONED', microservices: [] } }), ours, 'Stopped'],
    'deprovisioned with its containers': [
      a({ status: { daemonStatus: 'DEPROVISIONED', microservices: [item('DELETING')] } }),
      ours,
      'Silent',
    ],
    'being deleted with the container': [
      { ...live(after, item('STOPPING')), metadata: { ...a().metadata, deletionTimestamp: NOW } },
      ours,
      'Live',
    ],
  };
  it.each(Object.entries(cases))('%s', (_, [node, observation, sighting]) =>
    expect(sightingOf(uuid, SINCE, { node, liveness: livenessOf(node), observation }, NOW)).toBe(sighting),
  );

  it.each(['UNKNOWN', 'NOT_PROVISIONED', 'DEPROVISIONED'])('that is heard is live while %s is stored', (daemonStatus) =>
    expect(sightingOf(uuid, SINCE, { node: a({ status: { daemonStatus } }), liveness: 'live' }, NOW)).toBe('Live'),
  );

  it.each(['0123456789abcdefzzzzzzzzzzzz', '0123456789abcdefffffffffffff', '0123456789abcdef000000000NaN'])(
    'that says the list %s knows no move by it',
    (list) => expect(sightingOf(uuid, SINCE, { node: live(list), liveness: 'live' }, NOW)).toBe('Live'),
  );

  it('is never one that has stopped it while the move is not recorded', () =>
    expect(sightingOf(uuid, undefined, { node: live(after), liveness: 'live', observation: ours }, NOW)).toBe('Live'));

  it.each([
    ['Live', ['Stopping', 'Removing', 'Removing', 'Removing']],
    ['Stopped', [undefined, undefined, undefined, undefined]],
    ['Silent', ['Unreachable', 'Unreachable', 'Unreachable', 'Unreachable']],
    ['Absent', ['Gone', 'Gone', 'Gone', 'Gone']],
  ] as const)('that is %s is waited for only if it was waited for before', (sighting, next) =>
    expect(
      (['Stopping', 'Unreachable', 'Removing', 'Gone'] as const).map((state) => afterSighting(state, sighting)),
    ).toEqual(next),
  );
});

describe('what the leader records', () => {
  const all = [
    a(),
    b(),
    makeNode({ name: 'gw-3', uuid: '77777777-7777-4777-8777-777777777777', status: { daemonStatus: 'RUNNING' } }),
  ];
  const record = (application: Application, nodes: readonly EdgeNode[] = all, leftEarly?: () => Iterable<NodeId>) =>
    placements({
      application,
      nodeOf: ({ agent }) => nodes.find((node) => v3Name(node) === agent?.name),
      factsOf(one) {
        const node = nodes.find((other) => isNode(one, other));
        return { node, liveness: livenessOf(node) };
      },
      ...(leftEarly && { leftEarly }),
      now: NOW,
    }).get('reader');
  const added = former('Stopping', { since: NOW });
  const atB = { node: 'gw-2', nodeUuid: B_UUID };

  it('nothing for an entry that stays', () => {
    expect(record(moved({ node: 'gw-2' }))).toEqual({ ...atB, formerNodes: [] });
    expect(record(moved(undefined))).toEqual({ ...atB, formerNodes: [] });
  });
  it('the node of the line when the entry names another one', () =>
    expect(record(moved({ node: 'gw-1' }))).toEqual({ ...atB, formerNodes: [added] }));
  it('the node that an entry left before it had a line', () =>
    expect(record(moved(undefined), all, () => [{ node: 'gw-1', uuid: NODE_UUID }])).toEqual({
      ...atB,
      formerNodes: [added],
    }));
  it('each node of a chain', () =>
    expect(record(moved({ node: 'gw-3', formerNodes: [former()] }))?.formerNodes.map(({ node }) => node)).toEqual([
      'gw-1',
      'gw-3',
    ]));
  it('no longer the node to which the entry comes back', () =>
    expect(
      record(moved({ node: 'gw-1', formerNodes: [former('Stopping', { node: 'gw-2', uuid: B_UUID })] }))?.formerNodes,
    ).toEqual([added]));
  it('that a former node is silent, and nothing more once it is without the microservice', () => {
    const silent = a({ status: { daemonStatus: 'UNKNOWN' } });
    expect(record(moved({ node: 'gw-1' }), [silent, b()])?.formerNodes).toEqual([{ ...added, state: 'Unreachable' }]);
    const back = a({ status: { daemonStatus: 'RUNNING', microserviceList: digestSince(SINCE) } });
    const seen = moved({ node: 'gw-2', formerNodes: [former('Unreachable')] });
    expect(record(seen, [back, b()])?.formerNodes).toEqual([]);
  });
  it('that the former node was deleted, until the next edit', () => {
    const gone: FormerNode = { node: 'gw-1', since: NOW, state: 'Gone' };
    expect(record(moved({ node: 'gw-1' }), [b()])?.formerNodes).toEqual([gone]);
    // deleted first, then moved
    const orphaned = moved({ node: 'gw-1' }, { to: 'gw-1', generation: 1 });
    expect(record(orphaned, [b()])).toEqual({ formerNodes: [gone] });
    expect(record(moved({ formerNodes: [gone] }), [b()])).toEqual({ ...atB, formerNodes: [gone] });
    expect(record(moved({ node: 'gw-2', formerNodes: [gone] }, { generation: 1 }), [b()])?.formerNodes).toEqual([gone]);
    expect(record(moved({ node: 'gw-2', formerNodes: [gone] }), [b()])?.formerNodes).toEqual([]);
    // another node of that name has nothing to do with it
    expect(record(moved({ formerNodes: [gone] }))?.formerNodes).toEqual([gone]);
  });
  it('nothing of a node that removed everything before it was deleted', () => {
    const emptied = a({ deletionTimestamp: NOW, status: { daemonStatus: 'RUNNING', microserviceList: 'due' } });
    const inputs = {
      application: moved({ node: 'gw-1' }, { to: 'gw-1', generation: 1 }),
      nodeOf: () => emptied,
      factsOf: () => ({ node: emptied, due: 'due' }),
      now: NOW,
    };
    expect(placements(inputs).get('reader')).toEqual({ formerNodes: [] });
    expect(placements({ ...inputs, factsOf: () => ({ node: emptied, due: 'newer' }) }).get('reader')?.node).toBe(
      'gw-1',
    );
  });
  it('a time that is later than what the node was told before, whatever the clock says', () => {
    const ahead = '2026-01-02T12:00:00.000Z';
    const told = a({ status: { daemonStatus: 'RUNNING', microserviceList: digestSince(ahead) } });
    expect(record(moved({ node: 'gw-1' }), [told, b()])?.formerNodes[0]?.since).toBe('2026-01-02T12:00:00.001Z');
  });
  it.each(['0123456789abcdefzzzzzzzzzzzz', '0123456789abcdefffffffffffff', digestSince('2027-01-01T00:00:00.000Z')])(
    'the time of now, whatever list the former node says: %s',
    (microserviceList) => {
      const odd = a({ status: { daemonStatus: 'RUNNING', microserviceList } });
      expect(record(moved({ node: 'gw-1' }), [odd, b()])?.formerNodes).toEqual([added]);
    },
  );
  it.each(['', 'soon', '2027-01-01T00:00:00.000Z', '+012000-01-01T00:00:00.000Z'])(
    'again a move whose recorded time is "%s"',
    (since) => {
      const heard = a({ status: { daemonStatus: 'RUNNING', microserviceList: digestSince(SINCE) } });
      const seen = moved({ node: 'gw-2', formerNodes: [former('Stopping', { since })] });
      expect(digestWithMoves('0123456789abcdef', [seen], a())).toMatch(/^[0-9a-f]{28}$/);
      expect(record(seen, [heard, b()])?.formerNodes).toEqual([added]);
    },
  );
  it('the former node of an entry that is renamed and moved in one edit', () => {
    const own = '33333333-3333-4333-8333-333333333333';
    const application = makeApplication({
      generation: 2,
      entries: [makeEntry({ uuid: own, name: 'reader', agent: { name: 'gw-2' } })],
    });
    const line = { name: 'old', uuid: own, state: 'RUNNING', ready: true, node: 'gw-1' };
    const renamed = { ...application, status: { observedGeneration: 1, microservices: [line] } };
    expect(waitsFor(renamed, 'reader', own, b())).toEqual(['gw-1']);
    expect(record(renamed)).toEqual({ ...atB, formerNodes: [added] });
    const recorded = withPlacements(renamed, new Map([['reader', { node: 'gw-2', formerNodes: [] }]]));
    expect([...replaced(recorded, renamed)].sort()).toEqual(['gw-1', 'gw-2']);
  });
  it('the machine that was replaced under the name of its node', () => {
    const old = '88888888-8888-4888-8888-888888888888';
    const application = moved({ node: 'gw-2', nodeUuid: old });
    expect(waitsFor(application, 'reader', uuid, b())).toEqual(['gw-2']);
    const gone: FormerNode = { node: 'gw-2', uuid: old, since: NOW, state: 'Gone' };
    expect(record(application)).toEqual({ ...atB, formerNodes: [gone] });
    const nameOnly: FormerNode = { node: 'gw-2', since: NOW, state: 'Gone' };
    expect(record(moved({ formerNodes: [nameOnly] }))?.formerNodes).toEqual([nameOnly]);
  });
  it('the other node of the same name, when an entry moves between the two', () => {
    const twin = b({ uuid: '88888888-8888-4888-8888-888888888888' });
    const application = moved({ node: 'gw-2', nodeUuid: nodeUuid(twin) });
    expect(record(application, [b(), twin])?.formerNodes).toEqual([
      { node: 'gw-2', uuid: nodeUuid(twin), since: NOW, state: 'Stopping' },
    ]);
    const placed = withPlacements(application, new Map([['reader', { ...atB, formerNodes: [] }]]));
    expect([...replaced(placed, application)]).toEqual(['gw-2']);
    expect([...replaced(placed, moved({ node: 'gw-2' }))]).toEqual([]);
  });
  it('nothing of a node that never had an agent before it was deleted', () => {
    const never = a({ deletionTimestamp: NOW, status: { daemonStatus: 'NOT_PROVISIONED' } });
    expect(record(moved({ node: 'gw-1' }, { to: 'gw-1', generation: 1 }), [never])).toEqual({ formerNodes: [] });
  });
});

describe('the digest of a list', () => {
  it('is the same as before unless something left the node', () => {
    const plain = desiredState(makeInputs({ node: a(), applications: [] })).digests.microserviceList;
    expect(plain).toMatch(/^[0-9a-f]{16}$/);
    expect(digestWithMoves(plain ?? '', [moved({ node: 'gw-2' })], a())).toBe(plain);
  });
  it('differs from that of before a microservice came, once it has left', () => {
    const application = moved({ node: 'gw-2', formerNodes: [former()] });
    const lists = [[], [application]].map(
      (applications) => desiredState(makeInputs({ node: a(), applications })).digests.microserviceList,
    );
    expect(new Set(lists).size).toBe(2);
    expect(desiredState(makeInputs({ node: b(), applications: [application] })).digests.microserviceList).toHaveLength(
      16,
    );
  });
});

describe('a status', () => {
  const names = (now: Parameters<typeof moved>[0], before: Parameters<typeof moved>[0]) =>
    [...replaced(moved(now), moved(before))].sort();
  it('concerns the new and the former node alone, and only when a place differs', () => {
    const waits = { node: 'gw-2', formerNodes: [former()] };
    expect(names({ node: 'gw-2' }, undefined)).toEqual([]);
    expect(names({ node: 'gw-2' }, { node: 'gw-2' })).toEqual([]);
    expect(names(waits, structuredClone(waits))).toEqual([]);
    expect(names(waits, { node: 'gw-1' })).toEqual(['gw-1', 'gw-2']);
    expect(names({ node: 'gw-2' }, waits)).toEqual(['gw-1', 'gw-2']);
    expect(names({ node: 'gw-2' }, { node: 'gw-1' })).toEqual(['gw-1', 'gw-2']);
  });
  it('has the places of its entries for verdicts', () => {
    const application = moved({ node: 'gw-1' });
    const placed = withPlacements(application, new Map([['reader', { node: 'gw-2', formerNodes: [] }]]));
    expect(waitsFor(placed, 'reader', uuid, b())).toEqual([]);
    expect(waitsFor(application, 'reader', uuid, b())).toEqual(['gw-1']);
  });
});
