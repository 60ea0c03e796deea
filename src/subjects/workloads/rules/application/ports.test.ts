import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BOUNDS } from '../../../../api/bounds.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { makeNode, NODE_UUID } from '../../../nodes/_make.ts';
import { crowdOn } from '../../../nodes/rules/placement/crowd.ts';
import { makeApplication, makeEntry, observedReader } from '../../_make.ts';
import { portClaims, portHolder } from './ports.ts';

const port = (external: number) => ({ internal: 80, external, protocol: 'tcp' as const });
const asks = (name: string, external: number, createdAt: string, uid = `uid-${name}`) =>
  makeApplication({
    name,
    uid,
    createdAt,
    entries: [makeEntry({ name: 'm', container: { ports: [port(external)] } })],
  });

/** No other node has the name. */
const ALONE = { nodeByName: () => undefined };
const OLD = '2025-01-01T00:00:00Z';
const NEW = '2026-01-01T00:00:00Z';

const holder = (
  applications: Parameters<typeof portClaims>[1],
  observed: Parameters<typeof observedReader>[0][] = [],
) => {
  const node = makeNode({ status: { microservices: observed.map(observedReader) } });
  const found = portHolder(portClaims(node, applications, ALONE), 8080, 'tcp');
  return found && `${found.application}/${found.name}`;
};
const uuidOf = (application: ReturnType<typeof asks>) => entryUuid(application, { name: 'm' });

describe('the holder of a port', () => {
  const a = asks('a', 8080, OLD);
  const b = asks('b', 8080, NEW);

  const cases: Record<string, [string | undefined, () => string | undefined]> = {
    'is the older application': ['a/m', () => holder([b, a])],
    'is the microservice whose container the node reported with the port, even when it is younger': [
      'b/m',
      () => holder([a, b], [{ uuid: uuidOf(b), ports: [port(8080)] }]),
    ],
    'is the application with the smaller uid when two have the same age': [
      'x/m',
      () => holder([asks('y', 8080, OLD, 'uid-2'), asks('x', 8080, OLD, 'uid-1')]),
    ],
    'is the first entry by name within one application': [
      'a/k',
      () =>
        holder([
          makeApplication({
            name: 'a',
            entries: ['n', 'k'].map((name) => makeEntry({ name, container: { ports: [port(8080)] } })),
          }),
        ]),
    ],
    'is a removed microservice that is still reported with the port': [
      'gone/x',
      () => holder([a], [{ uuid: 'other', application: 'gone', name: 'x', ports: [port(8080)] }]),
    ],
    'is a stopped microservice that is still reported with the port': [
      'a/m',
      () => {
        const stopped = makeApplication({
          ...{ name: 'a', uid: 'uid-a', createdAt: NEW, spec: { isActivated: false } },
          entries: [makeEntry({ name: 'm', container: { ports: [port(8080)] } })],
        });
        return holder([stopped, asks('b', 8080, OLD)], [{ uuid: uuidOf(stopped), ports: [port(8080)] }]);
      },
    ],
    'is absent once a stopped microservice is no longer reported': [
      undefined,
      () => holder([makeApplication({ spec: { isActivated: false }, entries: a.spec.microservices })]),
    ],
    'is the microservice that no longer asks for the port, while its container is still reported with it': [
      'b/m',
      () => holder([a, asks('b', 9090, NEW)], [{ uuid: uuidOf(b), ports: [port(8080)] }]),
    ],
    'follows from the declared ports when the agent does not report ports': [
      'b/m',
      () => holder([a, b], [{ uuid: uuidOf(b), state: 'RUNNING' }]),
    ],
    'is not a microservice whose report has an empty list of ports': [
      'a/m',
      () => holder([a, b], [{ uuid: uuidOf(b), state: 'RUNNING', ports: [] }]),
    ],
    'is not a microservice whose container was not created yet': [
      'a/m',
      () => holder([a, b], [{ uuid: uuidOf(b), state: 'QUEUED' }]),
    ],
    'is any stored application before one that is not stored yet': [
      'b/m',
      () => {
        const fresh = asks('a', 8080, OLD);
        delete fresh.metadata.uid;
        delete fresh.metadata.creationTimestamp;
        return holder([fresh, b]);
      },
    ],
    'can be an entry that names the node by uuid': [
      'a/m',
      () => {
        const entry = { ...makeEntry({ name: 'm', container: { ports: [port(8080)] } }), agent: { uuid: NODE_UUID } };
        return holder([makeApplication({ name: 'a', entries: [entry] })]);
      },
    ],
    'is absent when the entry names another node by uuid': [
      undefined,
      () => {
        const agent = { uuid: '99999999-9999-4999-8999-999999999999' };
        return holder([makeApplication({ entries: [makeEntry({ agent, container: { ports: [port(8080)] } })] })]);
      },
    ],
    'is absent when no entry asks for the port': [undefined, () => holder([asks('a', 1, OLD)])],
  };
  it.each(Object.entries(cases))('%s', (_, [want, act]) => expect(act()).toBe(want));

  it('can be an entry that no longer asks for the port: portClaims distinguishes wanted from reported claims', () => {
    const moved = asks('b', 9090, NEW);
    const node = makeNode({
      status: { microservices: [observedReader({ uuid: uuidOf(moved), ports: [port(8080)] })] },
    });
    expect(
      portClaims(node, [moved], ALONE).map(({ external, wanted, reported }) => [external, wanted, reported]),
    ).toEqual([
      [9090, true, false],
      [8080, false, true],
    ]);
  });

  it('is one of the claims, and the same for any order of the claims', () => {
    const claim = fc.record({
      external: fc.constant(8080),
      protocol: fc.constant('tcp' as const),
      uuid: fc.uuid(),
      application: fc.constantFrom('a', 'b'),
      name: fc.constantFrom('m', 'n'),
      reported: fc.boolean(),
      wanted: fc.boolean(),
      present: fc.boolean(),
      createdAt: fc.constantFrom(OLD, NEW, undefined),
      uid: fc.constantFrom('1', '2', undefined),
    });
    fc.assert(
      fc.property(fc.array(claim, { minLength: 1, maxLength: 6 }), fc.nat(), (claims, turn) => {
        const found = portHolder(claims, 8080, 'tcp');
        const at = turn % claims.length;
        expect(portHolder([...claims.slice(at), ...claims.slice(0, at)], 8080, 'tcp')).toBe(found);
        expect(claims).toContain(found);
        if (claims.some(({ reported }) => reported)) expect(found?.reported).toBe(true);
      }),
    );
  });
});

describe('of two nodes with one name', () => {
  const older = makeNode();
  const younger = makeNode({ uuid: '99999999-9999-4999-8999-999999999999', creationTimestamp: NEW });
  const lookups = { nodeByName: () => older };
  const byUuid = { agent: { uuid: '99999999-9999-4999-8999-999999999999' } };
  const application = makeApplication({
    entries: [
      makeEntry({ name: 'by-name', container: { ports: [port(8080)] } }),
      makeEntry({ name: 'by-uuid', ...byUuid, container: { ports: [port(8081)] } }),
    ],
  });
  const claimed = (node: typeof older) => portClaims(node, [application], lookups).map(({ name }) => name);

  it('the older one has the ports of what names them by name, and the younger one those of what names its uuid', () => {
    expect([claimed(older), claimed(younger)]).toEqual([['by-name'], ['by-uuid']]);
  });

  it('what names the older one takes no room of the younger one', () => {
    const entries = Array.from({ length: BOUNDS.entries }, (_, i) => makeEntry({ name: `m-${i}` }));
    const crowded = [0, 1, 2, 3].map((n) => makeApplication({ name: `crowd-${n}`, uid: `uid-${n}`, entries }));
    expect(crowdOn(younger, [...crowded, application], lookups).size).toBe(0);
    expect(crowdOn(older, [...crowded, application], lookups).size).toBeGreaterThan(0);
  });
});
