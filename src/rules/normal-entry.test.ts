import { describe, expect, it } from 'vitest';
import type { MicroserviceEntry } from '../api/v3/index.ts';
import { makeEntry } from '../subjects/workloads/_make.ts';
import { imageFor, normalEntry, normalReference } from './normal-entry.ts';

const normal = (entry: Partial<MicroserviceEntry>) => normalEntry(makeEntry(entry));

describe('normalEntry', () => {
  const cases: Record<string, [Partial<MicroserviceEntry>, object]> = {
    'x86 is read as amd64': [{ images: { x86: 'a:1' } }, { images: { amd64: 'a:1' } }],
    'riscv is read as riscv64': [{ images: { riscv: 'a:1' } }, { images: { riscv64: 'a:1' } }],
    'a registry in digits is an id': [{ images: { amd64: 'a', registry: '7' } }, { registry: 7 }],
    'a registry in other text is a name': [{ images: { amd64: 'a', registry: 'remote' } }, { registry: 'remote' }],
    'catalog id 0 is absent': [{ images: { amd64: 'a', catalogId: 0 } }, { catalogId: undefined }],
    'cmd is read as commands': [{ container: { cmd: ['a'] } }, { container: { commands: ['a'] } }],
    'busEnabled is read as busConfig.busAccess': [{ busEnabled: true }, { busConfig: { busAccess: true } }],
    'empty lists, maps, texts and false are absent': [
      { container: { env: [], ulimits: {}, pidMode: '', isPrivileged: false }, busConfig: {} },
      { container: {}, busConfig: undefined },
    ],
    'a health check without a test is absent': [{ container: { healthCheck: { test: [] } } }, { container: {} }],
    'sysctls become text': [
      { container: { sysctls: { 'net.ipv4.tcp_syncookies': 1 } } },
      { container: { sysctls: { 'net.ipv4.tcp_syncookies': '1' } } },
    ],
    'a catalog without items is absent': [{ models: { permissions: 'ro' } }, { models: undefined }],
    'false, 0 and "" are configs': [{ config: false }, { config: false }],
    'a null config is absent': [{ config: null }, { config: undefined }],
  };
  it.each(Object.entries(cases))('%s', (_, [entry, want]) => {
    const is = normal(entry) as never;
    for (const [member, value] of Object.entries(want)) expect(is[member]).toEqual(value);
  });

  it('the normal form has no alias', () => {
    const text = JSON.stringify(
      normal({ images: { x86: 'a', riscv: 'b' }, container: { cmd: ['c'] }, busEnabled: true }),
    );
    expect(text).not.toMatch(/"(x86|riscv|cmd|busEnabled)"/);
  });

  it('an entry with a name alone gets every default', () => {
    expect(normalEntry({ name: 'a' } as MicroserviceEntry)).toEqual({
      name: 'a',
      isActivated: true,
      schedule: 50,
      images: {},
      container: {},
    });
  });

  it('the entry that is read is not changed', () => {
    const entry = makeEntry({ container: { cmd: ['a'], sysctls: { 'net.ipv4.tcp_syncookies': 1 } } });
    const before = structuredClone(entry);
    normalEntry(entry);
    expect(entry).toEqual(before);
  });
});

describe('imageFor', () => {
  const both = normal({ images: { arm64: 'b:1', amd64: 'a:1' } });
  const cases: Record<string, [number, string | undefined]> = {
    'an architecture gets its own image': [2, 'b:1'],
    'an architecture without an image gets none': [3, undefined],
    'an unknown architecture gets the image with the lowest id': [0, 'a:1'],
    'an id that does not exist gets no image': [9, undefined],
  };
  it.each(Object.entries(cases))('%s', (_, [archId, want]) => expect(imageFor(both, archId)).toBe(want));
  it('an entry without images has none for any architecture', () => {
    expect(imageFor(normal({ images: { registry: 1 } }), 0)).toBeUndefined();
  });
});

it('a reference of blanks is absent', () => expect(normalReference('  ')).toBeUndefined());
