import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readSigningKey } from './key.ts';

function file(content?: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-key-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'release.key');
  if (content !== undefined) writeFileSync(path, content);
  return path;
}
const pem = (key: KeyObject, type: 'pkcs8' | 'spki') => key.export({ type, format: 'pem' }).toString();
const ed25519 = generateKeyPairSync('ed25519');

test('an Ed25519 key signs a release, and its public half comes along', () => {
  const privateKey = pem(ed25519.privateKey, 'pkcs8');
  expect(readSigningKey(file(privateKey))).toEqual({ privateKey, publicKey: pem(ed25519.publicKey, 'spki') });
});

test.each([
  ['that does not exist', undefined, 'cannot be read (ENOENT)'],
  ['that is a public key', pem(ed25519.publicKey, 'spki'), 'is no private key in PEM'],
  [
    'of another type',
    pem(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey, 'pkcs8'),
    'is a key of the type ec, not ed25519',
  ],
])('a key %s is refused in one line that says how to make one', (_, content, reason) => {
  const path = file(content);
  expect(() => readSigningKey(path)).toThrow(
    `KEY=${path}: ${reason}; a new key: openssl genpkey -algorithm ed25519 -out ${path}`,
  );
});
