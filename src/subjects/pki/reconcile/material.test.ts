import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import { KINDS } from '../../kinds.ts';
import { createMaterial } from './material.ts';

let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

test.each([
  ['whose key the controller makes', 'plant'],
  ['whose key is in a Secret of its owner', 'company'],
])('the certificates of an authority %s are read once, however many nodes it signs for', async (_, name) => {
  const made = fleet.stores.certificateAuthorities.get(NAMESPACE, name) ?? (await make(name));
  const { keysOf } = createMaterial({
    stores: fleet.stores,
    kinds: KINDS,
    controlPlane: 'kubernetes',
    namespace: NAMESPACE,
    clock: Date.now,
  });
  const [first, second] = [keysOf(made), keysOf(made)];
  expect(first?.current).toBeDefined();
  expect(second?.current).toBe(first?.current);
  expect(second?.others).toBe(first?.others);
});

async function make(name: string): Promise<CertificateAuthority> {
  const { 'tls.crt': cert, 'tls.key': key } = fleet.stores.secrets.get(NAMESPACE, 'skerry-ca-plant')?.data ?? {};
  const isOwn = name === 'plant';
  const data = { 'tls.crt': cert, 'tls.key': key };
  if (!isOwn) expect(await fleet.rest('POST', '/secrets', { name: 'company-keys', type: 'tls', data })).toBe(201);
  const source = isOwn ? { type: 'self-signed', subject: 'Plant 3' } : { type: 'direct', secretName: 'company-keys' };
  expect(await fleet.rest('POST', '/certificates/ca', { name, ...source })).toBe(201);
  await fleet.settle();
  return fleet.stores.certificateAuthorities.get(NAMESPACE, name) as CertificateAuthority;
}
