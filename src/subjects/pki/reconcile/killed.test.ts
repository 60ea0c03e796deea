import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { FIELD_MANAGERS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { isSignedBy, readCertificates, readPair } from '../rules/pair.ts';

/**
 * A leader that is killed before or after each of its writes, while certificates are made, renewed and deleted; in nightly runs before
 * and after.
 */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1);
  interceptWrites();
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const WHENS = ['before', 'after'] as const;
type When = (typeof WHENS)[number];
interface Kill {
  /** which write of the leader, counted from 1 */
  n: number;
  when: When;
}

/** Set while a story runs. */
let story: { kill: Kill | undefined; writes: string[]; dead: boolean; keys: Map<string, string[]> } | undefined;
const OURS = new Set(['certificates', 'certificateauthorities', 'secrets']);
const VERBS = ['create', 'replace', 'patch', 'delete'] as const;

/** Counts the writes of the leader, and lets the writes of a dead one fail. */
function interceptWrites() {
  // biome-ignore lint/suspicious/noExplicitAny: four functions with other parameters
  const client = fleet.cluster.client as any;
  for (const verb of VERBS) {
    const write = client[verb].bind(client);
    client[verb] = async (...args: unknown[]) => {
      const [resource, object, ...rest] = args as [{ plural: string }, { name?: string }, { fieldManager?: string }];
      const options = rest.at(-1) as { fieldManager?: string } | undefined;
      const isUser =
        options?.fieldManager === FIELD_MANAGERS.rest || (verb === 'delete' && resource.plural !== 'secrets');
      if (!story || isUser || !OURS.has(resource.plural)) return write(...args);
      if (story.dead) throw new Error('the leader is dead');
      story.writes.push(`${verb} ${resource.plural}`);
      const strikes = story.writes.length === story.kill?.n;
      if (strikes) story.dead = true;
      if (strikes && story.kill?.when === 'before') throw new Error('killed before the write');
      const written = await write(...args);
      if (resource.plural === 'secrets' && verb !== 'delete') note(written as Secret);
      if (strikes) throw new Error('killed after the write');
      return written ?? object;
    };
  }
}

/** Keys of a Secret in their order, each once. */
function note(secret: Secret) {
  const key = decodeData(secret.data)['tls.key'];
  const keys = story?.keys.get(secret.metadata.name) ?? [];
  if (key !== undefined && keys.at(-1) !== key) story?.keys.set(secret.metadata.name, [...keys, key]);
}

/** Lets the leader work until it is done or dead; another one takes over from a dead one. */
async function settled() {
  await fleet.settle();
  if (!story?.dead) return;
  story.dead = false;
  await fleet.nextTerm();
}

const textsOf = (name: string) => {
  const secret = fleet.stores.secrets.list().find(({ metadata }) => metadata.name === name) as Secret | undefined;
  return secret && decodeData(secret.data);
};

/** Faults of the Secrets and statuses of both objects. */
function wrongs(): string[] {
  const [pump, authority] = [textsOf('pump'), textsOf('skerry-ca-plant')];
  if (!pump || !authority) return ['a Secret is missing'];
  const [own, by] = [pump, authority].map((texts) =>
    readPair({ cert: texts['tls.crt'] ?? '', key: texts['tls.key'] ?? '' }),
  );
  if (!own || !by || 'problem' in own || 'problem' in by) return ['a key does not fit its certificate'];
  const status = fleet.stores.certificates.list().find(({ metadata }) => metadata.name === 'pump')?.status;
  return [
    ...(isSignedBy(own, by) ? [] : ['another authority signed the certificate']),
    ...(readCertificates(pump['ca.crt'] ?? '').some(({ fingerprint }) => fingerprint === by.fingerprint)
      ? []
      : ['the authority is not trusted']),
    ...(status?.fingerprint === own.fingerprint ? [] : ['the status has another certificate']),
    ...(status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')
      ? []
      : ['it is not ready']),
  ];
}

async function tell(kill?: Kill) {
  story = { kill, writes: [], dead: false, keys: new Map() };
  const amiss: string[] = [];
  const user = async (method: string, path: string, expected: number, body?: object) => {
    const status = await fleet.rest(method, path, body);
    if (status !== expected) amiss.push(`${method} ${path}: ${status}`);
    await settled();
  };
  await user('POST', '/certificates/ca', 201, { name: 'plant', subject: 'Plant 3', expiration: 36 });
  const ca = { type: 'direct', secretName: 'plant' };
  await user('POST', '/certificates', 201, { name: 'pump', subject: 'pump', hosts: 'pump.example', ca });
  amiss.push(...wrongs().map((one) => `made: ${one}`));
  fleet.time.now += 60_000;
  await user('POST', '/certificates/pump/renew', 200);
  amiss.push(...wrongs().map((one) => `renewed: ${one}`));
  const { keys } = story;
  // A key that was stored once is replaced by the order alone.
  const counts = [keys.get('skerry-ca-plant')?.length, keys.get('pump')?.length];
  if (counts.join() !== '1,2') amiss.push(`${counts} keys of the authority and the certificate`);
  for (const path of ['/certificates/pump', '/certificates/ca/plant']) await user('DELETE', path, 200);
  for (const name of ['pump', 'skerry-ca-plant'])
    if (textsOf(name)) amiss.push(`the Secret ${name} outlived its owner`);
  const { writes } = story;
  story = undefined;
  return { writes, amiss };
}

test('a leader that is killed before or after any write leaves one key with its certificate, and loses none that was stored', async () => {
  const whole = await tell();
  expect(whole.amiss).toEqual([]);
  expect(whole.writes.length).toBeGreaterThan(10);
  const found: unknown[] = [];
  for (let n = 1; n <= whole.writes.length; n++)
    for (const when of process.env.SKERRY_NIGHTLY ? WHENS : [WHENS[n % 2] as When]) {
      await fleet.reset();
      const { amiss } = await tell({ n, when });
      if (amiss.length > 0) found.push({ n, when, write: whole.writes[n - 1], amiss });
    }
  expect(found).toEqual([]);
}, 120_000);
