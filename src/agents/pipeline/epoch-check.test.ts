import { expect, test } from 'vitest';
import { changed, storedNode } from '../../../testing/stored.ts';
import { ANNOTATIONS, HEADERS } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import type { Epochs } from '../../datastore/epochs.ts';
import {
  type EpochLog,
  type EpochPosition,
  isIssued,
  parseEpochLog,
  parsePosition,
  withNewEpoch,
} from '../../rules/epoch.ts';
import { type Answer, startWithNode } from '../_util.ts';
import { createSealedPositions } from './sealed-position.ts';

/** An epoch log in a variable; `late`: as the API server has it, and this replica only after `verify`. */
function makeEpochs(text: string, late?: string): Epochs & { asked: string[]; advance(text: string): void } {
  const listeners = new Set<() => void>();
  let epochLog: EpochLog = parseEpochLog(text);
  const asked: string[] = [];
  const verify = async () => {
    asked.push('verify');
    if (late !== undefined) epochLog = parseEpochLog(late);
  };
  return {
    asked,
    get epochLog() {
      return epochLog;
    },
    isUnverified: false,
    isStale: false,
    invalidate: () => {},
    verify,
    async beginEpochAfter(position) {
      asked.push('beginEpochAfter');
      if (!isIssued(epochLog, position)) epochLog = withNewEpoch(epochLog, 'eeeeeeee', position.epoch);
    },
    lead: async () => {},
    onRestored: () => ({ [Symbol.dispose]: () => {} }),
    subscribe(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    advance(text) {
      epochLog = parseEpochLog(text);
      for (const listener of listeners) listener();
    },
  };
}

const NOW = '1.aaaaaaaa.7\n2.bbbbbbbb.3';
const presenting = (position: string) => ({ headers: { [HEADERS.epochPosition]: position } });
const POSITIONS = createSealedPositions('');
/** A position that was issued to this node. */
const issuedTo = (node: EdgeNode, position: string) =>
  presenting(POSITIONS.seal(node.spec.uuid ?? '', parsePosition(position) as EpochPosition));
const unsealed = (text: unknown) => (text as string | undefined)?.replace(/\.[0-9a-f]{16}$/, '');
const positionIn = ({ headers }: Pick<Answer, 'headers'>) => unsealed(headers[HEADERS.epochPosition]);

test('our agent gets the latest position with every response; a third-party agent does not', async () => {
  const { replica, node, key } = await startWithNode({ epochs: makeEpochs(NOW) });
  for (const path of ['/changes', '/microservices', '/config']) {
    expect(positionIn(await replica.as(node, key, 'GET', path))).toBe('2.bbbbbbbb.3');
    expect(
      (await replica.as(node, key, 'GET', path, { thirdParty: true })).headers[HEADERS.epochPosition],
    ).toBeUndefined();
  }
});

test.each([
  ['of the current epoch', '2.bbbbbbbb.1'],
  ['of a former epoch', '1.aaaaaaaa.7'],
  ['that cannot be parsed', 'anything'],
])('a position %s: the list is complete', async (_, position) => {
  const epochs = makeEpochs(NOW);
  const { replica, node, key } = await startWithNode({ epochs });
  expect(
    (await replica.as(node, key, 'GET', '/microservices', presenting(position))).body.retainUnlisted,
  ).toBeUndefined();
  expect(epochs.asked).toEqual([]);
});

test('a position that the store does not have yet: the API server is read before the response', async () => {
  const epochs = makeEpochs(NOW, `${NOW}\n3.cccccccc.1`);
  const { replica, node, key } = await startWithNode({ epochs });
  const { body, headers } = await replica.as(node, key, 'GET', '/microservices', presenting('3.cccccccc.1'));
  expect(body.retainUnlisted).toBeUndefined();
  expect(positionIn({ headers })).toBe('3.cccccccc.1');
  expect(epochs.asked).toEqual(['verify']);
});

test('a position that was not issued: the list has retainUnlisted, and no new position is sent', async () => {
  const epochs = makeEpochs(NOW);
  const { replica, node, key } = await startWithNode({ epochs });
  const first = await replica.as(node, key, 'GET', '/changes');
  const lost = issuedTo(node, '2.bbbbbbbb.4');
  const poll = await replica.as(node, key, 'GET', `/changes?have=${encodeURIComponent(first.body.due)}`, lost);
  expect(poll.body).toMatchObject({ microserviceList: true });
  const { body, headers } = await replica.as(node, key, 'GET', '/microservices', lost);
  expect(body.retainUnlisted).toMatchObject({ reason: 'DatastoreRestored', acceptEpoch: '3.eeeeeeee' });
  expect(unsealed(body.retainUnlisted.position)).toBe('3.eeeeeeee.0');
  expect(body.microservices).toHaveLength(1);
  expect(headers[HEADERS.epochPosition]).toBeUndefined();
  expect(epochs.asked).toEqual(['verify', 'beginEpochAfter']);
  expect(replica.agents.observations.get(node.spec.uuid ?? '')?.restored).toBe('3.eeeeeeee');
  // What it holds now is what is due to it.
  const held = `${body.retainUnlisted && poll.body.due},${first.body.due}`;
  const again = await replica.as(
    node,
    key,
    'GET',
    `/changes?have=${encodeURIComponent(String(headers.etag).slice(1, -1))}`,
    lost,
  );
  expect(again.body.microserviceList, held).toBeUndefined();
});

test('once the operator has accepted the epoch, the list is complete again', async () => {
  const epochs = makeEpochs(NOW);
  const { replica, node, key } = await startWithNode({ epochs });
  const lost = issuedTo(node, '2.bbbbbbbb.4');
  const { body } = await replica.as(node, key, 'GET', '/microservices', lost);
  replica.stores.nodes.set(
    changed(node, ({ metadata }) => {
      metadata.annotations = { [ANNOTATIONS.acceptEpoch]: body.retainUnlisted.acceptEpoch };
    }),
  );
  const accepted = await replica.as(node, key, 'GET', '/microservices', lost);
  expect(accepted.body.retainUnlisted).toBeUndefined();
  expect(positionIn(accepted)).toBe('3.eeeeeeee.0');
  await replica.as(node, key, 'GET', '/changes', presenting('3.eeeeeeee.0'));
  expect(replica.agents.observations.get(node.spec.uuid ?? '')?.restored).toBeUndefined();
  expect(parsePosition('3.eeeeeeee.0')).toBeDefined();
});

test('a replica whose stores may still have lost objects responds 503', async () => {
  const epochs = Object.defineProperties(makeEpochs(NOW), { isUnverified: { value: true }, isStale: { value: true } });
  const { replica, node, key } = await startWithNode({ epochs });
  for (const path of ['/changes', '/microservices'])
    expect((await replica.as(node, key, 'GET', path, presenting('2.bbbbbbbb.9'))).status).toBe(503);
});

test('while the API server cannot be read, agents get 503', async () => {
  const epochs = { ...makeEpochs(NOW), isUnverified: true, verify: () => Promise.reject(new Error('no answer')) };
  const { replica, node, key } = await startWithNode({ epochs });
  for (const path of ['/changes', '/microservices'])
    expect((await replica.as(node, key, 'GET', path, presenting('1.aaaaaaaa.1'))).status).toBe(503);
});

test('a long poll of an agent that read a list ends with the next two positions; other long polls do not', async () => {
  const epochs = makeEpochs(NOW);
  const setup = await startWithNode({ epochs });
  const { replica, node, key } = setup;
  const { body } = await replica.as(node, key, 'GET', '/changes');
  const poll = (position: string) =>
    replica.as(node, key, 'GET', `/changes?wait=60&have=${encodeURIComponent(body.due)}`, presenting(position));
  const held = () => expect.poll(() => replica.agents.routes.longPolls).toBe(1);
  await replica.as(node, key, 'GET', '/microservices', presenting('2.bbbbbbbb.3'));
  for (const sequenceNumber of [4, 5]) {
    const answer = poll('2.bbbbbbbb.3');
    await held();
    epochs.advance(`1.aaaaaaaa.7\n2.bbbbbbbb.${sequenceNumber}`);
    expect(positionIn(await answer)).toBe(`2.bbbbbbbb.${sequenceNumber}`);
  }
  const answer = poll('2.bbbbbbbb.5');
  await held();
  epochs.advance('1.aaaaaaaa.7\n2.bbbbbbbb.6');
  expect(replica.agents.routes.longPolls).toBe(1);
  await setup.clock.advance(60_000, { timers: 0 });
  expect(positionIn(await answer)).toBe('2.bbbbbbbb.6');
});

test('a node that makes up positions begins no epoch and raises no warning: it retains what it runs', async () => {
  const epochs = makeEpochs(NOW);
  const { replica, node, key } = await startWithNode({ epochs });
  const other = storedNode('edge-2');
  const madeUp = [10, 11, 12, 13, 14].map((n) => presenting(`${n}0.cccccccc.1`));
  for (const presented of [...madeUp, issuedTo(other, '30.cccccccc.1')]) {
    const { status, body } = await replica.as(node, key, 'GET', '/microservices', presented);
    expect({ status, acceptEpoch: body.retainUnlisted?.acceptEpoch }).toEqual({
      status: 200,
      acceptEpoch: '2.bbbbbbbb',
    });
  }
  // A few reads, in case that the store lags behind.
  expect(epochs.asked).toEqual(['verify', 'verify', 'verify']);
});

test('what a node retains for a position that is not authentic is removed once the operator accepts the current epoch', async () => {
  const { replica, node, key } = await startWithNode({ epochs: makeEpochs(NOW) });
  replica.stores.nodes.set(
    changed(node, ({ metadata }) => {
      metadata.annotations = { [ANNOTATIONS.acceptEpoch]: '2.bbbbbbbb' };
    }),
  );
  const answer = await replica.as(node, key, 'GET', '/microservices', presenting('90.cccccccc.1'));
  expect([answer.body.retainUnlisted, positionIn(answer)]).toEqual([undefined, '2.bbbbbbbb.3']);
});

test('a node that presents the positions of many lost datastores gets 429, and begins no more epochs', async () => {
  const epochs = makeEpochs(NOW);
  const { replica, node, key } = await startWithNode({ epochs });
  const statuses: number[] = [];
  for (let n = 10; n < 16; n++) {
    const presented = issuedTo(node, `${n}0.cccccccc.1`);
    statuses.push((await replica.as(node, key, 'GET', '/microservices', presented)).status);
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
  expect(epochs.asked.filter((what) => what === 'beginEpochAfter')).toHaveLength(3);
});

test('a sealed position is authentic at every replica of the installation, for the node that it was issued to and no other', () => {
  const [one, two] = [createSealedPositions('key'), createSealedPositions('key')];
  const position = { epoch: 3, id: 'aaaaaaaa', sequenceNumber: 7 };
  const text = one.seal('a', position);
  expect(two.parse('a', text)).toEqual({ position, isAuthentic: true });
  expect(two.parse('b', text)).toEqual({ position, isAuthentic: false });
  expect(createSealedPositions('other').parse('a', text)).toEqual({ position, isAuthentic: false });
  expect(one.parse('a', '3.aaaaaaaa.7')).toEqual({ position, isAuthentic: false });
  expect(one.parse('a', text.replace('.7.', '.8.'))?.isAuthentic).toBe(false);
  expect(one.parse('a', 'anything')).toBeUndefined();
});
