import { describe, expect, it, test } from 'vitest';
import { brokenTransitions } from '../../api/rules.ts';
import { passwordRule, type RegistrySpec } from '../../api/v3/index.ts';
import { destinationText, mayBeSentTo } from './destination.ts';

const spec = (fields: Partial<RegistrySpec>): RegistrySpec => ({
  url: 'registry.example',
  isPublic: false,
  type: 'oci',
  insecure: false,
  passwordSecretRef: { name: 's', key: 'k' },
  ...fields,
});

describe('a password', () => {
  test.each<[string, Partial<RegistrySpec>, Partial<RegistrySpec>, boolean]>([
    ['stays when nothing changes', {}, {}, true],
    ['stays with another user, type, mail or name', {}, { username: 'v', type: 'hub', email: 'a@b' }, true],
    ['stays with another spelling', { url: 'Registry.example' }, { url: 'HTTPS://registry.EXAMPLE/v2' }, true],
    ['does not follow to another host', {}, { url: 'evil.example' }, false],
    ['does not follow to a host whose name begins alike', {}, { url: 'registry.example.evil.org' }, false],
    ['does not follow to another port', {}, { url: 'registry.example:5000' }, false],
    ['does not follow to plain HTTP', {}, { url: 'http://registry.example' }, false],
    ['does not follow to unchecked certificates', {}, { insecure: true }, false],
    ['does not follow to a CA', {}, { ca: 'QQ==' }, false],
    ['does not follow to another CA', { ca: 'QQ==' }, { ca: 'Qg==' }, false],
    ['stays when a CA is no longer trusted', { ca: 'QQ==' }, {}, true],
    ['stays when certificates are checked from now on', { insecure: true }, { ca: 'QQ==' }, true],
    ['stays when plain HTTP becomes TLS', { url: 'http://registry.example' }, {}, true],
    ['stays where the way was never checked', { insecure: true }, { url: 'http://registry.example' }, true],
    ['does not follow from an unchecked way to another host', { insecure: true }, { url: 'evil.example' }, false],
  ])('%s', (_, before, after, stays) => {
    expect(brokenTransitions([passwordRule], spec(after), spec(before))).toEqual(stays ? [] : [passwordRule.message]);
    expect(mayBeSentTo(spec(after), destinationText(spec(before)))).toBe(stays);
  });
});

it('another password may go to another place, and none may go anywhere', () => {
  const evil = { url: 'evil.example' };
  const other = { ...evil, passwordSecretRef: { name: 's', key: 'other' } };
  expect(brokenTransitions([passwordRule], spec(other), spec({}))).toEqual([]);
  expect(brokenTransitions([passwordRule], spec({ ...evil, passwordSecretRef: undefined }), spec({}))).toEqual([]);
});

it('destinations as a Secret names them', () => {
  expect(destinationText(spec({ url: 'Registry.example:5000/team' }))).toBe('https://registry.example:5000');
  expect(destinationText(spec({ insecure: true, ca: 'QQ==' }))).toBe('http://registry.example');
  expect(destinationText(spec({ ca: 'QQ==' }))).toMatch(/^https:\/\/registry\.example#sha256:[0-9a-f]{64}$/);
  expect(mayBeSentTo(spec({}), 'registry.example')).toBe(true);
  for (const nowhere of ['', 'https://', '*', 'https://registry.example.org', '#'])
    expect(mayBeSentTo(spec({}), nowhere)).toBe(false);
});
