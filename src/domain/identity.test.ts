import { describe, expect, it, test } from 'vitest';
import { BOUNDS } from '../api/bounds.ts';
import { LABELS } from '../api/names.ts';
import type { Application, Registry } from '../api/v3/index.ts';
import { applicationId, applicationUuid, idToRecord, idVerdict, registryId, uuidToRecord } from './identity.ts';

const A = 'aaaaaaaa-0000-4000-8000-000000000000';
const B = 'bbbbbbbb-0000-4000-8000-000000000000';
const C = 'cccccccc-0000-4000-8000-000000000000';
const UID = 'dddddddd-0000-4000-8000-000000000000';

interface Parts {
  spec?: object;
  status?: object;
  labels?: Record<string, string>;
}
const make = ({ spec = {}, status, labels }: Parts = {}) =>
  ({
    metadata: { name: 'a', uid: UID, ...(labels && { labels }) },
    spec,
    ...(status && { status }),
  }) as never as Application & Registry;
const free = () => false;
const taken = () => true;

describe('the uuid of an object', () => {
  test.each<[sentence: string, parts: Parts, is: string]>([
    ['is what the API server gave it, when nobody says otherwise', {}, UID],
    ['is what its labels repeat, for an object that came back without a status', { labels: { [LABELS.uuid]: A } }, A],
    ['is what the spec asks for, whatever the labels say', { spec: { uuid: B }, labels: { [LABELS.uuid]: A } }, B],
    [
      'is what the status records, whatever the rest says',
      { status: { uuid: C }, spec: { uuid: B }, labels: { [LABELS.uuid]: A } },
      C,
    ],
    ['is never a label that is no uuid', { labels: { [LABELS.uuid]: 'mine' } }, UID],
  ])('%s', (_, parts, is) => {
    expect(applicationUuid(make(parts))).toBe(is);
    expect(uuidToRecord(make(parts), free)).toBe(is);
  });

  it('is not recorded while what the spec asks for belongs to another', () => {
    expect(uuidToRecord(make({ spec: { uuid: B } }), taken)).toBeUndefined();
  });
  it('of a copy with the labels of its original is its own', () => {
    expect(uuidToRecord(make({ labels: { [LABELS.uuid]: A } }), taken)).toBe(UID);
  });
});

describe('the number of an object', () => {
  test.each<[sentence: string, parts: Parts, is: number | undefined]>([
    ['is absent until it is given one', {}, undefined],
    ['is what its labels repeat', { labels: { [LABELS.id]: '12' } }, 12],
    ['is what the spec asks for, whatever the labels say', { spec: { id: 13 }, labels: { [LABELS.id]: '12' } }, 13],
    ['is what the status records', { status: { id: 14 }, spec: { id: 13 } }, 14],
    ['is none that is beyond the bound', { spec: { id: BOUNDS.id + 1 } }, undefined],
    ['is none that JavaScript cannot count', { spec: { id: Number('9223372036854775807') } }, undefined],
    [
      'is the label when what the spec has is beyond the bound',
      { spec: { id: 2 ** 53 - 1 }, labels: { [LABELS.id]: '12' } },
      12,
    ],
    ['is no label that is no number', { labels: { [LABELS.id]: '012' } }, undefined],
  ])('%s', (_, parts, is) => {
    expect(applicationId(make(parts))).toBe(is);
    expect(registryId(make(parts))).toBe(is);
    expect(idToRecord(make(parts), free)).toBe(is);
  });

  it('is another one when what is asked for belongs to another', () => {
    expect(idToRecord(make({ spec: { id: 13 } }), taken)).toBeUndefined();
    expect(idToRecord(make({ spec: { id: 13 }, labels: { [LABELS.id]: '12' } }), (id) => id === 13)).toBe(12);
  });
  it('of somebody else is told to who asked for it, and to nobody else', () => {
    const message = (spec: object, given: number) => idVerdict(make({ spec }), given, 'plant-a')?.message;
    expect(message({ id: 13 }, 20)).toBe('the id 13 belongs to plant-a; this object was given 20: leave spec.id out');
    expect(message({ id: 13 }, 13)).toBeUndefined();
    expect(message({}, 20)).toBeUndefined();
    expect(message({ id: 2 ** 53 - 1 }, 20)).toBeUndefined();
  });
  it('of a built-in registry is no other registry’s, whoever comes first', () => {
    const named = (name: string) => ({ ...make({ spec: { id: 1 } }), metadata: { name } }) as Registry;
    expect(registryId(named('remote'))).toBe(1);
    expect(registryId(named('mine'))).toBeUndefined();
  });
  it('stays once it is recorded', () => {
    expect(idToRecord(make({ status: { id: 14 }, spec: { id: 13 } }), taken)).toBe(14);
  });
});
