import { expect, test } from 'vitest';
import { ANNOTATIONS, HEADERS } from '../api/names.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import { type History, hasGivenOut, type Mark, parseHistory, parseMark, withTerm } from '../domain/history.ts';
import type { StoreHistory } from '../stores/history.ts';
import { type Answer, changed, makeNode, startWithNode } from './_util.ts';
import { createMarks } from './marks.ts';

/** A history in a variable; `late`: what the API server itself knows, and this replica only after asking. */
function makeHistory(text: string, late?: string): StoreHistory & { asked: string[]; advance(text: string): void } {
  const listeners = new Set<() => void>();
  let present: History = parseHistory(text);
  const asked: string[] = [];
  const verify = async () => {
    asked.push('verify');
    if (late !== undefined) present = parseHistory(late);
  };
  return {
    asked,
    get present() {
      return present;
    },
    isDoubtful: false,
    isStale: false,
    doubt: () => {},
    verify,
    async dispute(mark) {
      asked.push('dispute');
      if (!hasGivenOut(present, mark)) present = withTerm(present, 'eeeeeeee', mark.n);
    },
    lead: async () => {},
    subscribe(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    advance(text) {
      present = parseHistory(text);
      for (const listener of listeners) listener();
    },
  };
}

const NOW = '1.aaaaaaaa.7\n2.bbbbbbbb.3';
const store = (mark: string) => ({ headers: { [HEADERS.store]: mark } });
const MARKS = createMarks('');
/** A mark that was given to this node. */
const given = (node: EdgeNode, mark: string) => store(MARKS.seal(node.spec.uuid ?? '', parseMark(mark) as Mark));
const withoutSeal = (text: unknown) => (text as string | undefined)?.replace(/\.[0-9a-f]{16}$/, '');
const markIn = ({ headers }: Pick<Answer, 'headers'>) => withoutSeal(headers[HEADERS.store]);

test('our agent is given the mark of the store with every answer; a foreign one is not', async () => {
  const { replica, node, key } = await startWithNode({ history: makeHistory(NOW) });
  await using _ = replica;
  for (const path of ['/changes', '/microservices', '/config']) {
    expect(markIn(await replica.as(node, key, 'GET', path))).toBe('2.bbbbbbbb.3');
    expect((await replica.as(node, key, 'GET', path, { foreign: true })).headers[HEADERS.store]).toBeUndefined();
  }
});

test.each([
  ['of this store', '2.bbbbbbbb.1'],
  ['of a former term', '1.aaaaaaaa.7'],
  ['that is none', 'anything'],
])('a mark %s: the list is the whole truth', async (_, mark) => {
  const history = makeHistory(NOW);
  const { replica, node, key } = await startWithNode({ history });
  await using _replica = replica;
  expect((await replica.as(node, key, 'GET', '/microservices', store(mark))).body.keep).toBeUndefined();
  expect(history.asked).toEqual([]);
});

test('a mark that the view does not know yet: the API server is asked before anything is told', async () => {
  const history = makeHistory(NOW, `${NOW}\n3.cccccccc.1`);
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  const { body, headers } = await replica.as(node, key, 'GET', '/microservices', store('3.cccccccc.1'));
  expect(body.keep).toBeUndefined();
  expect(markIn({ headers })).toBe('3.cccccccc.1');
  expect(history.asked).toEqual(['verify']);
});

test('a mark that this store has not given out: the list says so, and no new mark is given', async () => {
  const history = makeHistory(NOW);
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  const first = await replica.as(node, key, 'GET', '/changes');
  const lost = given(node, '2.bbbbbbbb.4');
  const poll = await replica.as(node, key, 'GET', `/changes?have=${encodeURIComponent(first.body.due)}`, lost);
  expect(poll.body).toMatchObject({ microserviceList: true });
  const { body, headers } = await replica.as(node, key, 'GET', '/microservices', lost);
  expect(body.keep).toMatchObject({ reason: 'StoreRestored', accept: '3.eeeeeeee' });
  expect(withoutSeal(body.keep.store)).toBe('3.eeeeeeee.0');
  expect(body.microservices).toHaveLength(1);
  expect(headers[HEADERS.store]).toBeUndefined();
  expect(history.asked).toEqual(['verify', 'dispute']);
  expect(replica.agents.observations.get(node.spec.uuid ?? '')?.restored).toBe('3.eeeeeeee');
  // What it holds now is what is due to it.
  const held = `${body.keep && poll.body.due},${first.body.due}`;
  const again = await replica.as(
    node,
    key,
    'GET',
    `/changes?have=${encodeURIComponent(String(headers.etag).slice(1, -1))}`,
    lost,
  );
  expect(again.body.microserviceList, held).toBeUndefined();
});

test('once the operator has accepted the store, the list is the whole truth again', async () => {
  const history = makeHistory(NOW);
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  const lost = given(node, '2.bbbbbbbb.4');
  const { body } = await replica.as(node, key, 'GET', '/microservices', lost);
  replica.stores.nodes.set(
    changed(node, ({ metadata }) => {
      metadata.annotations = { [ANNOTATIONS.acceptStore]: body.keep.accept };
    }),
  );
  const accepted = await replica.as(node, key, 'GET', '/microservices', lost);
  expect(accepted.body.keep).toBeUndefined();
  expect(markIn(accepted)).toBe('3.eeeeeeee.0');
  await replica.as(node, key, 'GET', '/changes', store('3.eeeeeeee.0'));
  expect(replica.agents.observations.get(node.spec.uuid ?? '')?.restored).toBeUndefined();
  expect(parseMark('3.eeeeeeee.0')).toBeDefined();
});

test('a view that may still show what was lost tells nobody anything', async () => {
  const history = Object.defineProperties(makeHistory(NOW), { isDoubtful: { value: true }, isStale: { value: true } });
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  for (const path of ['/changes', '/microservices'])
    expect((await replica.as(node, key, 'GET', path, store('2.bbbbbbbb.9'))).status).toBe(503);
});

test('a store that cannot be asked tells nobody anything', async () => {
  const history = { ...makeHistory(NOW), isDoubtful: true, verify: () => Promise.reject(new Error('no answer')) };
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  for (const path of ['/changes', '/microservices'])
    expect((await replica.as(node, key, 'GET', path, store('1.aaaaaaaa.1'))).status).toBe(503);
});

test('who was told a list hears of the beat after it at once, although his poll is held; others do not', async () => {
  const history = makeHistory(NOW);
  const setup = await startWithNode({ history });
  const { replica, node, key } = setup;
  await using _ = replica;
  const { body } = await replica.as(node, key, 'GET', '/changes');
  const poll = (mark: string) =>
    replica.as(node, key, 'GET', `/changes?wait=60&have=${encodeURIComponent(body.due)}`, store(mark));
  const held = () => expect.poll(() => replica.agents.routes.heldPolls).toBe(1);
  await replica.as(node, key, 'GET', '/microservices', store('2.bbbbbbbb.3'));
  for (const beat of [4, 5]) {
    const answer = poll('2.bbbbbbbb.3');
    await held();
    history.advance(`1.aaaaaaaa.7\n2.bbbbbbbb.${beat}`);
    expect(markIn(await answer)).toBe(`2.bbbbbbbb.${beat}`);
  }
  const answer = poll('2.bbbbbbbb.5');
  await held();
  history.advance('1.aaaaaaaa.7\n2.bbbbbbbb.6');
  expect(replica.agents.routes.heldPolls).toBe(1);
  await setup.clock.advance(60_000);
  expect(markIn(await answer)).toBe('2.bbbbbbbb.6');
});

test('a node that makes up marks begins no term, raises no warning and costs the others nothing: it keeps what it runs', async () => {
  const history = makeHistory(NOW);
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  const other = makeNode('edge-2');
  const madeUp = [10, 11, 12, 13, 14].map((n) => store(`${n}0.cccccccc.1`));
  for (const shown of [...madeUp, given(other, '30.cccccccc.1')]) {
    const { status, body } = await replica.as(node, key, 'GET', '/microservices', shown);
    expect({ status, accept: body.keep?.accept }).toEqual({ status: 200, accept: '2.bbbbbbbb' });
  }
  // A few looks, in case that the view is late.
  expect(history.asked).toEqual(['verify', 'verify', 'verify']);
});

test('what a node keeps on its own word goes once the operator accepts the store of now', async () => {
  const { replica, node, key } = await startWithNode({ history: makeHistory(NOW) });
  await using _ = replica;
  replica.stores.nodes.set(
    changed(node, ({ metadata }) => {
      metadata.annotations = { [ANNOTATIONS.acceptStore]: '2.bbbbbbbb' };
    }),
  );
  const answer = await replica.as(node, key, 'GET', '/microservices', store('90.cccccccc.1'));
  expect([answer.body.keep, markIn(answer)]).toEqual([undefined, '2.bbbbbbbb.3']);
});

test('a node that was told by one lost store after the other is told to wait, and begins no more terms', async () => {
  const history = makeHistory(NOW);
  const { replica, node, key } = await startWithNode({ history });
  await using _ = replica;
  const statuses: number[] = [];
  for (let n = 10; n < 16; n++) {
    const shown = given(node, `${n}0.cccccccc.1`);
    statuses.push((await replica.as(node, key, 'GET', '/microservices', shown)).status);
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
  expect(history.asked.filter((what) => what === 'dispute')).toHaveLength(3);
});

test('a mark is proven by every replica of the installation, for the node that it was given to and no other', () => {
  const [one, two] = [createMarks('key'), createMarks('key')];
  const mark = { n: 3, id: 'aaaaaaaa', beat: 7 };
  const text = one.seal('a', mark);
  expect(two.read('a', text)).toEqual({ mark, isProven: true });
  expect(two.read('b', text)).toEqual({ mark, isProven: false });
  expect(createMarks('other').read('a', text)).toEqual({ mark, isProven: false });
  expect(one.read('a', '3.aaaaaaaa.7')).toEqual({ mark, isProven: false });
  expect(one.read('a', text.replace('.7.', '.8.'))?.isProven).toBe(false);
  expect(one.read('a', 'anything')).toBeUndefined();
});
