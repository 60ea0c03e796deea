import { describe, expect, it } from 'vitest';
import { type Registry, registrySpecSchema } from '../../api/v3/index.ts';
import { makeRegistry, registryLookup } from '../_util.ts';
import { DomainError } from '../errors.ts';
import {
  BUILT_INS,
  builtInError,
  isBuiltIn,
  normalRegistry,
  PASSWORD_MASK,
  patchRegistry,
  registryFromBody,
  registryRead,
  resolveRegistry,
} from './index.ts';

const team = makeRegistry('team', { id: 12 });
const remote = makeRegistry('remote', { id: 1 });
const CA = Buffer.from('-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n').toString('base64');

describe('resolveRegistry', () => {
  const all = [team, remote];
  const CASES: Record<string, [number | string | undefined, Registry | undefined]> = {
    'an id': [12, team],
    'digits are an id': ['12', team],
    'a name': ['team', team],
    'nothing is the public hub': [undefined, remote],
    'empty text is the public hub': ['', remote],
    'the word remote': ['remote', remote],
    'an unknown id': [99, undefined],
    'an unknown name': ['x', undefined],
  };
  it.each(Object.entries(CASES))('%s', (_, [ref, want]) =>
    expect(resolveRegistry(registryLookup(all), ref)).toBe(want),
  );

  it('knows the built-in ones before their objects exist', () => {
    const none = registryLookup([]);
    expect(resolveRegistry(none, undefined)?.spec.id).toBe(1);
    expect(resolveRegistry(none, 'local')?.spec.url).toBe('from_cache');
    expect(resolveRegistry(none, 2)?.metadata.name).toBe('local');
  });

  it('a name that is another than that of the object', () => {
    const odd = makeRegistry('team-1', { name: 'Team Süd' });
    expect(resolveRegistry(registryLookup([odd]), 'Team Süd')).toBe(odd);
    expect(resolveRegistry(registryLookup([odd]), 'team-1')).toBeUndefined();
  });
});

describe('the built-in registries', () => {
  it('are what the CRD accepts', () => {
    for (const { spec } of BUILT_INS) expect(registrySpecSchema.parse(spec)).toEqual(spec);
    for (const { spec } of BUILT_INS) expect(spec).toMatchObject({ isPublic: true, insecure: false, type: 'oci' });
    expect(BUILT_INS.map(({ name, spec }) => [name, spec.id])).toEqual([
      ['remote', 1],
      ['local', 2],
    ]);
  });
  it('cannot be changed', () => {
    expect(() => patchRegistry(remote, { url: 'x' })).toThrow(DomainError);
    expect(builtInError(remote)).toMatchObject({ status: 400, code: 'REGISTRY_IS_SYSTEM' });
    expect(isBuiltIn(team)).toBe(false);
  });
});

describe('registryRead', () => {
  it('calls the mail userEmail, and hub what was written as hf', () => {
    const registry = makeRegistry('m', { id: 13, type: 'hf', email: 'a@b', username: 'u', isPublic: false });
    expect(registryRead(registry)).toEqual({
      id: 13,
      name: 'm',
      url: 'm.example',
      isPublic: false,
      username: 'u',
      userEmail: 'a@b',
      type: 'hub',
      ca: '',
      insecure: false,
    });
  });
  it('shows a password only when it is given', () => {
    expect(registryRead(team)).not.toHaveProperty('password');
    expect(registryRead(team, PASSWORD_MASK).password).toBe('***');
  });
});

describe('registryFromBody', () => {
  const CASES: Record<string, [object, object]> = {
    'the url alone is enough': [
      { url: 'r.example' },
      { spec: { url: 'r.example', isPublic: true, type: 'oci', insecure: false } },
    ],
    'the mail as it is written and as it is read': [{ url: 'r', userEmail: 'a@b' }, { spec: { email: 'a@b' } }],
    'hf is hub': [{ url: 'r', type: 'hf' }, { spec: { type: 'hub' } }],
    'the password is kept apart': [{ url: 'r', password: 'hunter2' }, { password: 'hunter2' }],
    'unknown fields are dropped': [{ url: 'r', requiresCert: true }, { spec: { url: 'r' } }],
    'empty texts are absent': [{ url: 'r', email: '', ca: '', username: '' }, { spec: { url: 'r' } }],
    'a CA bundle': [{ url: 'r', ca: CA }, { spec: { ca: CA } }],
  };
  it.each(Object.entries(CASES))('%s', (_, [body, want]) => expect(registryFromBody(body)).toMatchObject(want));

  it('never keeps the password, or a reference of the user’s, in the spec', () => {
    const { spec } = registryFromBody({
      url: 'r',
      password: 'hunter2',
      passwordSecretRef: { name: 'operator', key: 'k' },
    });
    expect(JSON.stringify(spec)).not.toMatch(/hunter2|operator/);
  });

  const REFUSED: Record<string, [unknown, string | undefined, RegExp]> = {
    'no url': [{}, 'url', /required/],
    'an empty url': [{ url: '' }, 'url', /empty/],
    'a url with blanks': [{ url: 'a b' }, 'url', /"a b"/],
    'an unknown type': [{ url: 'r', type: 'ftp' }, 'type', /"ftp"/],
    'a CA that is no certificate': [{ url: 'r', ca: 'aGVsbG8=' }, 'ca', /PEM/],
    'a CA that is no base64': [{ url: 'r', ca: '-----BEGIN CERTIFICATE-----' }, 'ca', /base64/],
    'a password that is no text': [{ url: 'r', password: { a: 'hunter2' } }, 'password', /text/],
    'what is no object': [[], undefined, /object/],
  };
  it.each(Object.entries(REFUSED))('refuses %s', (_, [body, field, message]) => {
    const error = failure(() => registryFromBody(body));
    expect(error).toMatchObject({ status: 400, field });
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('hunter2');
  });
});

describe('patchRegistry', () => {
  const stored = makeRegistry('team', {
    id: 12,
    username: 'u',
    passwordSecretRef: { name: 's', key: 'password' },
    insecure: true,
  });
  it('absent fields stay, null removes', () => {
    expect(patchRegistry(stored, { url: 'new', username: null }).spec).toEqual({
      ...stored.spec,
      url: 'new',
      username: undefined,
    });
    expect(patchRegistry(stored, {}).spec).toEqual(stored.spec);
  });
  it('a new password comes back apart; the mask is none', () => {
    expect(patchRegistry(stored, { password: 'new' })).toMatchObject({ password: 'new' });
    expect(patchRegistry(stored, { password: PASSWORD_MASK })).not.toHaveProperty('password');
    expect(patchRegistry(stored, { password: null })).toMatchObject({ password: null });
  });
  it('name and id are immutable', () => {
    expect(failure(() => patchRegistry(stored, { name: 'x' }))).toMatchObject({ field: 'name' });
    expect(failure(() => patchRegistry(stored, { id: 9 }))).toMatchObject({ field: 'id' });
    expect(() => patchRegistry(stored, { name: 'team', id: 12 })).not.toThrow();
  });
  it('a read can be sent back', () => {
    expect(patchRegistry(stored, registryRead(stored, PASSWORD_MASK))).toEqual({ spec: stored.spec });
  });
});

it('a registry without an id has no normal form yet', () => {
  expect(normalRegistry(makeRegistry('team'))).toBeUndefined();
  expect(normalRegistry(team)).toMatchObject({ id: 12, name: 'team', type: 'oci', email: '', isPublic: true });
  const bare = { ...team, spec: { id: 12, url: 'r' } } as Registry;
  expect(normalRegistry(bare)).toMatchObject({ isPublic: true, insecure: false, type: 'oci' });
});

function failure(act: () => unknown): DomainError {
  try {
    act();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}
