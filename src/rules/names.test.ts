import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NAME_PATTERN } from '../api/meta.ts';
import { makeNode } from '../subjects/nodes/_make.ts';
import { makeApplication } from '../subjects/workloads/_make.ts';
import { applicationUuid, nodeUuid } from './identity.ts';
import { entryUuid, objectName, uuid5, v3Name, volumeMappingId } from './names.ts';

describe('objectName', () => {
  const cases: Record<string, [string, string | RegExp]> = {
    'a legal name is kept': ['plant-a', 'plant-a'],
    'dots are legal': ['a.b', 'a.b'],
    'a name with capitals becomes a slug with a digest': ['Plant A', /^plant-a-[0-9a-f]{8}$/],
    'a name without legal characters becomes x with a digest': ['日本', /^x-[0-9a-f]{8}$/],
    'a name that is too long is cut and gets a digest': ['a'.repeat(254), /^a{63}-[0-9a-f]{8}$/],
    'a name with a dash at its end becomes a slug with a digest': ['-a-', /^a-[0-9a-f]{8}$/],
    empty: ['', /^x-[0-9a-f]{8}$/],
  };
  it.each(Object.entries(cases))('%s', (_, [name, want]) => {
    if (typeof want === 'string') expect(objectName(name)).toBe(want);
    else expect(objectName(name)).toMatch(want);
  });

  it('equals the golden values, so that stored objects are found', () => {
    expect(objectName('Plant A')).toBe('plant-a-5b0198b2');
    expect(objectName('日本')).toBe('x-cf2abf0c');
  });

  it('is a legal object name for any v3 name, and always the same one', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (name) => {
        const object = objectName(name);
        expect(object).toMatch(new RegExp(NAME_PATTERN));
        expect(object.length).toBeLessThanOrEqual(253);
        expect(objectName(name)).toBe(object);
      }),
    );
  });

  it('differs for different v3 names with the same slug', () => {
    expect(objectName('Gate 1')).not.toBe(objectName('gate#1'));
  });
});

describe('identity', () => {
  it('uuid5 is the UUID of RFC 9562 (test vector: DNS namespace, www.example.com)', () => {
    expect(uuid5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com')).toBe(
      '2ed6657d-e927-568b-95e1-2665a8aea6a2',
    );
  });

  it('the uuid is that of the spec, else the uid', () => {
    const uuid = '33333333-3333-4333-8333-333333333333';
    expect(applicationUuid(makeApplication({ spec: { uuid } }))).toBe(uuid);
    expect(applicationUuid(makeApplication({ uid: uuid }))).toBe(uuid);
    expect(nodeUuid(makeNode({ spec: { uuid } }))).toBe(uuid);
    expect(nodeUuid(makeNode({ uuid }))).toBe(uuid);
  });

  it('the uuid of an entry without one depends on the application and the name', () => {
    const application = makeApplication();
    const uuid = entryUuid(application, { name: 'reader' });
    expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(entryUuid(application, { name: 'writer' })).not.toBe(uuid);
    expect(
      entryUuid({ ...application, spec: { ...application.spec, uuid: application.metadata.uid } }, { name: 'reader' }),
    ).toBe(uuid);
    expect(entryUuid(application, { name: 'reader', uuid: 'x' })).toBe('x');
  });

  it('the v3 name is that of the spec, else that of the object', () => {
    expect(v3Name({ metadata: { name: 'x-1' }, spec: { name: '日本' } })).toBe('日本');
    expect(v3Name({ metadata: { name: 'gw-1' }, spec: {} })).toBe('gw-1');
  });
});

describe('volumeMappingId', () => {
  it('equals the golden value, since clients store ids', () => expect(volumeMappingId('/data')).toBe(1587781789));
  it('fits 31 bits', () => {
    fc.assert(
      fc.property(fc.string(), (path) => {
        const id = volumeMappingId(path);
        expect(id).toBeGreaterThanOrEqual(0);
        expect(id).toBeLessThan(2 ** 31);
      }),
    );
  });
});
