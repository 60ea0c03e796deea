import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { createLeaderKills } from '../../../../testing/leader-kills.ts';
import type { Secret } from '../../../api/resources.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { isSignedBy, readCertificates, readPair } from '../rules/pair.ts';

/**
 * A leader that is killed before or after each of its writes, while certificates are made, renewed and deleted; in nightly runs before
 * and after.
 */
let fleet: InMemoryController;
let kills: ReturnType<typeof createLeaderKills>;
beforeAll(async () => {
  fleet = await startInMemoryController(1);
  kills = createLeaderKills(fleet, {
    resources: new Set(['certificates', 'certificateauthorities', 'secrets']),
    deletedByLeader: new Set(['secrets']),
    onWritten: note,
  });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

/** Keys of a Secret in their order, each once. */
const keys = new Map<string, string[]>();
function note(resource: string, secret: Secret) {
  const key = resource === 'secrets' ? decodeData(secret.data)['tls.key'] : undefined;
  const known = keys.get(secret.metadata.name) ?? [];
  if (key !== undefined && known.at(-1) !== key) keys.set(secret.metadata.name, [...known, key]);
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

async function story(): Promise<string[]> {
  keys.clear();
  const amiss: string[] = [];
  const user = async (method: string, path: string, expected: number, body?: object) => {
    const status = await fleet.rest(method, path, body);
    if (status !== expected) amiss.push(`${method} ${path}: ${status}`);
    await kills.settled();
  };
  await user('POST', '/certificates/ca', 201, { name: 'plant', subject: 'Plant 3', expiration: 36 });
  const ca = { type: 'direct', secretName: 'plant' };
  await user('POST', '/certificates', 201, { name: 'pump', subject: 'pump', hosts: 'pump.example', ca });
  amiss.push(...wrongs().map((one) => `made: ${one}`));
  fleet.time.now += 60_000;
  await user('POST', '/certificates/pump/renew', 200);
  amiss.push(...wrongs().map((one) => `renewed: ${one}`));
  // A key that was stored once is replaced by the order alone.
  const counts = [keys.get('skerry-ca-plant')?.length, keys.get('pump')?.length];
  if (counts.join() !== '1,2') amiss.push(`${counts} keys of the authority and the certificate`);
  for (const path of ['/certificates/pump', '/certificates/ca/plant']) await user('DELETE', path, 200);
  for (const name of ['pump', 'skerry-ca-plant'])
    if (textsOf(name)) amiss.push(`the Secret ${name} outlived its owner`);
  return amiss;
}

test('a leader that is killed before or after any write leaves one key with its certificate, and loses none that was stored', async () => {
  const { writes, found } = await kills.everyKill(story);
  expect(found).toEqual([]);
  expect(writes.length).toBeGreaterThan(10);
}, 120_000);
