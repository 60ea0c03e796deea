import { describe, expect, it, test } from 'vitest';
import { brokenTransitions } from '../../../api/_transitions.ts';
import { passwordRule, type RegistrySpec } from '../../../api/v3/index.ts';
import { destinationText, mayBeSentTo } from './registry-destination.ts';

const spec = (fields: Partial<RegistrySpec>): RegistrySpec => ({
  url: 'registry.example',
  isPublic: false,
  type: 'oci',
  insecure: false,
  passwordSecretRef: { name: 's', key: 'k' },
  ...fields,
});

describe('a password reference after a change of the registry', () => {
  test.each<[string, Partial<RegistrySpec>, Partial<RegistrySpec>, boolean]>([
    ['is accepted when nothing changes', {}, {}, true],
    ['is accepted with another user, type or mail', {}, { username: 'v', type: 'hub', email: 'a@b' }, true],
    [
      'is accepted with another spelling of the url',
      { url: 'Registry.example' },
      { url: 'HTTPS://registry.EXAMPLE/v2' },
      true,
    ],
    ['is refused for another host', {}, { url: 'evil.example' }, false],
    ['is refused for a host whose name has the same beginning', {}, { url: 'registry.example.evil.org' }, false],
    ['is refused for another port', {}, { url: 'registry.example:5000' }, false],
    ['is refused for plain HTTP', {}, { url: 'http://registry.example' }, false],
    ['is refused for unchecked certificates', {}, { insecure: true }, false],
    ['is refused for an additional CA', {}, { ca: 'QQ==' }, false],
    ['is refused for another CA', { ca: 'QQ==' }, { ca: 'Qg==' }, false],
    ['is accepted when a CA is no longer trusted', { ca: 'QQ==' }, {}, true],
    ['is accepted when certificates become checked', { insecure: true }, { ca: 'QQ==' }, true],
    ['is accepted when plain HTTP becomes TLS', { url: 'http://registry.example' }, {}, true],
    [
      'is accepted for plain HTTP when certificates were never checked',
      { insecure: true },
      { url: 'http://registry.example' },
      true,
    ],
    [
      'is refused for another host when certificates were never checked',
      { insecure: true },
      { url: 'evil.example' },
      false,
    ],
  ])('%s', (_, before, after, stays) => {
    expect(brokenTransitions([passwordRule], spec(after), spec(before))).toEqual(stays ? [] : [passwordRule.message]);
    expect(mayBeSentTo(spec(after), destinationText(spec(before)))).toBe(stays);
  });
});

it('another host is accepted with another password reference and without one', () => {
  const evil = { url: 'evil.example' };
  const other = { ...evil, passwordSecretRef: { name: 's', key: 'other' } };
  expect(brokenTransitions([passwordRule], spec(other), spec({}))).toEqual([]);
  expect(brokenTransitions([passwordRule], spec({ ...evil, passwordSecretRef: undefined }), spec({}))).toEqual([]);
});

it('destinationText has scheme, host and the digest of the CA, and mayBeSentTo accepts no other destination', () => {
  expect(destinationText(spec({ url: 'Registry.example:5000/team' }))).toBe('https://registry.example:5000');
  expect(destinationText(spec({ insecure: true, ca: 'QQ==' }))).toBe('http://registry.example');
  expect(destinationText(spec({ ca: 'QQ==' }))).toMatch(/^https:\/\/registry\.example#sha256:[0-9a-f]{64}$/);
  expect(mayBeSentTo(spec({}), 'registry.example')).toBe(true);
  for (const nowhere of ['', 'https://', '*', 'https://registry.example.org', '#'])
    expect(mayBeSentTo(spec({}), nowhere)).toBe(false);
});
