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
    ['is the uid of the API server when no other is given', {}, UID],
    ['is that of the labels for an object that was restored without a status', { labels: { [LABELS.uuid]: A } }, A],
    ['is that of the spec, which precedes that of the labels', { spec: { uuid: B }, labels: { [LABELS.uuid]: A } }, B],
    [
      'is the recorded one, which precedes all others',
      { status: { uuid: C }, spec: { uuid: B }, labels: { [LABELS.uuid]: A } },
      C,
    ],
    ['is never taken from a label that is not a uuid', { labels: { [LABELS.uuid]: 'mine' } }, UID],
  ])('%s', (_, parts, is) => {
    expect(applicationUuid(make(parts))).toBe(is);
    expect(uuidToRecord(make(parts), free)).toBe(is);
  });

  it('is not recorded while the uuid of the spec belongs to another object', () => {
    expect(uuidToRecord(make({ spec: { uuid: B } }), taken)).toBeUndefined();
  });
  it('of a copy with the labels of its original differs from that of the original', () => {
    expect(uuidToRecord(make({ labels: { [LABELS.uuid]: A } }), taken)).toBe(UID);
  });
});

describe('the number of an object', () => {
  test.each<[sentence: string, parts: Parts, is: number | undefined]>([
    ['is absent until one is issued', {}, undefined],
    ['is that of the labels', { labels: { [LABELS.id]: '12' } }, 12],
    ['is that of the spec, which precedes that of the labels', { spec: { id: 13 }, labels: { [LABELS.id]: '12' } }, 13],
    ['is the recorded one, which precedes that of the spec', { status: { id: 14 }, spec: { id: 13 } }, 14],
    ['is absent when the spec has one beyond the bound', { spec: { id: BOUNDS.id + 1 } }, undefined],
    [
      'is absent when the spec has one beyond the safe integers',
      { spec: { id: Number('9223372036854775807') } },
      undefined,
    ],
    [
      'is that of the label when the spec has one beyond the bound',
      { spec: { id: 2 ** 53 - 1 }, labels: { [LABELS.id]: '12' } },
      12,
    ],
    ['is never taken from a label that is not a number', { labels: { [LABELS.id]: '012' } }, undefined],
  ])('%s', (_, parts, is) => {
    expect(applicationId(make(parts))).toBe(is);
    expect(registryId(make(parts))).toBe(is);
    expect(idToRecord(make(parts), free)).toBe(is);
  });

  it('is a new one when the number of the spec belongs to another object', () => {
    expect(idToRecord(make({ spec: { id: 13 } }), taken)).toBeUndefined();
    expect(idToRecord(make({ spec: { id: 13 }, labels: { [LABELS.id]: '12' } }), (id) => id === 13)).toBe(12);
  });
  it('of another object causes a verdict only on the object that asks for it', () => {
    const message = (spec: object, given: number) => idVerdict(make({ spec }), given, 'plant-a')?.message;
    expect(message({ id: 13 }, 20)).toBe('the id 13 belongs to plant-a; this object was given 20: leave spec.id out');
    expect(message({ id: 13 }, 13)).toBeUndefined();
    expect(message({}, 20)).toBeUndefined();
    expect(message({ id: 2 ** 53 - 1 }, 20)).toBeUndefined();
  });
  it('of a built-in registry is given to no other registry, also when that one is older', () => {
    const named = (name: string) => ({ ...make({ spec: { id: 1 } }), metadata: { name } }) as Registry;
    expect(registryId(named('remote'))).toBe(1);
    expect(registryId(named('mine'))).toBeUndefined();
  });
  it('stays once it is recorded', () => {
    expect(idToRecord(make({ status: { id: 14 }, spec: { id: 13 } }), taken)).toBe(14);
  });
});
