import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeApplication, makeEntry, makeNode, makeObserved, NODE_UUID } from '../_util.ts';
import { entryUuid } from '../names.ts';
import { portClaims, portHolder } from './ports.ts';

const port = (external: number) => ({ internal: 80, external, protocol: 'tcp' as const });
const asks = (name: string, external: number, createdAt: string, uid = `uid-${name}`) =>
  makeApplication({
    name,
    uid,
    createdAt,
    entries: [makeEntry({ name: 'm', container: { ports: [port(external)] } })],
  });

const OLD = '2025-01-01T00:00:00Z';
const NEW = '2026-01-01T00:00:00Z';

const holder = (
  applications: Parameters<typeof portClaims>[1],
  observed: Parameters<typeof makeObserved>[0][] = [],
) => {
  const node = makeNode({ status: { microservices: observed.map(makeObserved) } });
  const found = portHolder(portClaims(node, applications), 8080, 'tcp');
  return found && `${found.application}/${found.name}`;
};
const uuidOf = (application: ReturnType<typeof asks>) => entryUuid(application, { name: 'm' });

describe('the holder of a port', () => {
  const a = asks('a', 8080, OLD);
  const b = asks('b', 8080, NEW);

  const cases: Record<string, [string | undefined, () => string | undefined]> = {
    'the older application': ['a/m', () => holder([b, a])],
    'the one whose container the node last reported, however young': [
      'b/m',
      () => holder([a, b], [{ uuid: uuidOf(b), ports: [port(8080)] }]),
    ],
    'the smaller uid of two of one age': [
      'x/m',
      () => holder([asks('y', 8080, OLD, 'uid-2'), asks('x', 8080, OLD, 'uid-1')]),
    ],
    'the first name within one application': [
      'a/k',
      () =>
        holder([
          makeApplication({
            name: 'a',
            entries: ['n', 'k'].map((name) => makeEntry({ name, container: { ports: [port(8080)] } })),
          }),
        ]),
    ],
    'a removed microservice that is still reported': [
      'gone/x',
      () => holder([a], [{ uuid: 'other', application: 'gone', name: 'x', ports: [port(8080)] }]),
    ],
    'a stopped microservice that is still reported': [
      'a/m',
      () => {
        const stopped = makeApplication({
          ...{ name: 'a', uid: 'uid-a', createdAt: NEW, spec: { isActivated: false } },
          entries: [makeEntry({ name: 'm', container: { ports: [port(8080)] } })],
        });
        return holder([stopped, asks('b', 8080, OLD)], [{ uuid: uuidOf(stopped), ports: [port(8080)] }]);
      },
    ],
    'no microservice, once a stopped one is no longer reported': [
      undefined,
      () => holder([makeApplication({ spec: { isActivated: false }, entries: a.spec.microservices })]),
    ],
    'the former asker, while its container is still reported with the port': [
      'b/m',
      () => holder([a, asks('b', 9090, NEW)], [{ uuid: uuidOf(b), ports: [port(8080)] }]),
    ],
    'an agent that names no ports is taken to hold those that are declared': [
      'b/m',
      () => holder([a, b], [{ uuid: uuidOf(b), state: 'RUNNING' }]),
    ],
    'an agent that says it holds none holds none': [
      'a/m',
      () => holder([a, b], [{ uuid: uuidOf(b), state: 'RUNNING', ports: [] }]),
    ],
    'a container that was never made holds nothing': [
      'a/m',
      () => holder([a, b], [{ uuid: uuidOf(b), state: 'QUEUED' }]),
    ],
    'a new application that is not stored comes last': [
      'b/m',
      () => {
        const fresh = asks('a', 8080, OLD);
        delete fresh.metadata.uid;
        delete fresh.metadata.creationTimestamp;
        return holder([fresh, b]);
      },
    ],
    'an entry that names the node by uuid': [
      'a/m',
      () => {
        const entry = { ...makeEntry({ name: 'm', container: { ports: [port(8080)] } }), agent: { uuid: NODE_UUID } };
        return holder([makeApplication({ name: 'a', entries: [entry] })]);
      },
    ],
    'no microservice, when the entry names another node by uuid': [
      undefined,
      () => {
        const agent = { uuid: '99999999-9999-4999-8999-999999999999' };
        return holder([makeApplication({ entries: [makeEntry({ agent, container: { ports: [port(8080)] } })] })]);
      },
    ],
    'no microservice, when no entry asks for the port': [undefined, () => holder([asks('a', 1, OLD)])],
  };
  it.each(Object.entries(cases))('%s', (_, [want, act]) => expect(act()).toBe(want));

  it('distinguishes ports that are asked for from ports that are only still held', () => {
    const moved = asks('b', 9090, NEW);
    const node = makeNode({ status: { microservices: [makeObserved({ uuid: uuidOf(moved), ports: [port(8080)] })] } });
    expect(portClaims(node, [moved]).map(({ external, wanted, reported }) => [external, wanted, reported])).toEqual([
      [9090, true, false],
      [8080, false, true],
    ]);
  });

  it('is one of the claims, and the same for any order of them', () => {
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
