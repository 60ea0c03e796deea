import { describe, expect, it } from 'vitest';
import { makeFind } from '../../../../testing/inputs.ts';
import { type Registry, registrySpecSchema } from '../../../api/v3/index.ts';
import { DomainError } from '../../../rules/errors.ts';
import { makeRegistry } from '../_make.ts';
import {
  BUILT_INS,
  builtInError,
  caVerdict,
  isBuiltIn,
  normalRegistry,
  PASSWORD_MASK,
  patchRegistry,
  registryFromBody,
  registryRead,
  resolveRegistry,
} from './registry.ts';

const team = makeRegistry('team', { id: 12 });
const remote = makeRegistry('remote', { id: 1 });
const CA = Buffer.from('-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n').toString('base64');

describe('resolveRegistry', () => {
  const all = [team, remote];
  const CASES: Record<string, [number | string | undefined, Registry | undefined]> = {
    'a number is an id': [12, team],
    'digits are an id': ['12', team],
    'text is a name': ['team', team],
    'an absent reference is the public hub': [undefined, remote],
    'empty text is the public hub': ['', remote],
    'remote is the public hub': ['remote', remote],
    'an unknown id has no registry': [99, undefined],
    'an unknown name has no registry': ['x', undefined],
  };
  it.each(Object.entries(CASES))('%s', (_, [ref, want]) =>
    expect(resolveRegistry(makeFind({ registries: all }), ref)).toBe(want),
  );

  it('finds the built-in registries before their objects exist', () => {
    const none = makeFind({});
    expect(resolveRegistry(none, undefined)?.spec.id).toBe(1);
    expect(resolveRegistry(none, 'local')?.spec.url).toBe('from_cache');
    expect(resolveRegistry(none, 2)?.metadata.name).toBe('local');
  });

  it('finds a registry by a v3 name that differs from its object name', () => {
    const odd = makeRegistry('team-1', { name: 'Team Süd' });
    expect(resolveRegistry(makeFind({ registries: [odd] }), 'Team Süd')).toBe(odd);
    expect(resolveRegistry(makeFind({ registries: [odd] }), 'team-1')).toBeUndefined();
  });
});

describe('the built-in registries', () => {
  it('are accepted by the CRD', () => {
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
  it('has the mail as userEmail, and type hub for a stored hf', () => {
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
  it('has a password only when it is passed', () => {
    expect(registryRead(team)).not.toHaveProperty('password');
    expect(registryRead(team, PASSWORD_MASK).password).toBe('***');
  });
});

describe('registryFromBody', () => {
  const CASES: Record<string, [object, object]> = {
    'a body with a url alone is accepted': [
      { url: 'r.example' },
      { spec: { url: 'r.example', isPublic: true, type: 'oci', insecure: false } },
    ],
    'userEmail is the mail': [{ url: 'r', userEmail: 'a@b' }, { spec: { email: 'a@b' } }],
    'type hf is stored as hub': [{ url: 'r', type: 'hf' }, { spec: { type: 'hub' } }],
    'the password is returned separately from the spec': [{ url: 'r', password: 'hunter2' }, { password: 'hunter2' }],
    'unknown fields are dropped': [{ url: 'r', requiresCert: true }, { spec: { url: 'r' } }],
    'empty texts are absent': [{ url: 'r', email: '', ca: '', username: '' }, { spec: { url: 'r' } }],
    'a CA bundle is accepted': [{ url: 'r', ca: CA }, { spec: { ca: CA } }],
  };
  it.each(Object.entries(CASES))('%s', (_, [body, want]) => expect(registryFromBody(body)).toMatchObject(want));

  it('keeps neither the password nor a password reference of the body in the spec', () => {
    const { spec } = registryFromBody({
      url: 'r',
      password: 'hunter2',
      passwordSecretRef: { name: 'operator', key: 'k' },
    });
    expect(JSON.stringify(spec)).not.toMatch(/hunter2|operator/);
  });

  const REFUSED: Record<string, [unknown, string | undefined, RegExp]> = {
    'a body without a url': [{}, 'url', /required/],
    'an empty url': [{ url: '' }, 'url', /required/],
    'a url with blanks': [{ url: 'a b' }, 'url', /"a b"/],
    'an unknown type': [{ url: 'r', type: 'ftp' }, 'type', /"ftp"/],
    'a password that is not text': [{ url: 'r', password: { a: 'hunter2' } }, 'password', /text/],
    'a body that is not an object': [[], undefined, /object/],
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
  it('a new password is returned separately, and the mask changes nothing', () => {
    expect(patchRegistry(stored, { password: 'new' })).toMatchObject({ password: 'new' });
    expect(patchRegistry(stored, { password: PASSWORD_MASK })).not.toHaveProperty('password');
    expect(patchRegistry(stored, { password: null })).toMatchObject({ password: null });
  });
  it('name and id are immutable', () => {
    expect(failure(() => patchRegistry(stored, { name: 'x' }))).toMatchObject({ field: 'name' });
    expect(failure(() => patchRegistry(stored, { id: 9 }))).toMatchObject({ field: 'id' });
    expect(() => patchRegistry(stored, { name: 'team', id: 12 })).not.toThrow();
  });
  it('a PATCH with the members of a read is accepted', () => {
    expect(patchRegistry(stored, registryRead(stored, PASSWORD_MASK))).toEqual({ spec: stored.spec });
  });
});

it.each(['aGVsbG8=', '-----BEGIN CERTIFICATE-----'])('the CA %s is no PEM bundle in base64', (ca) => {
  expect(caVerdict(makeRegistry('r', { ca }))).toMatchObject({ reason: 'CaInvalid', status: 400, field: 'ca' });
  expect(caVerdict(makeRegistry('r', { ca: CA }))).toBeUndefined();
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
