import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { systemClock } from '../machine/clock.ts';
import { memoryRows } from '../state/_rows.ts';
import { openRows, type Rows } from '../state/rows.ts';
import { LocalRegistries, type LocalRegistry, localRegistrySchema, type RegistryManifest } from './registries.ts';

let changes: number[];
let users: string[];
let policy: { registries?: string[] };
beforeEach(() => {
  changes = [];
  users = [];
  policy = {};
});

const make = (rows: Rows<LocalRegistry> = memoryRows()) =>
  new LocalRegistries({
    ...{ rows, clock: systemClock(), log: silentLog },
    policy: () => policy,
    usersOf: () => users,
    changed: (numbers) => changes.push(...numbers),
  });
const manifest = (change: Partial<RegistryManifest> = {}): RegistryManifest => ({
  ...{ type: 'oci', url: 'registry.example', isPublic: true, insecure: false },
  ...{ username: '', password: '', userEmail: '', ca: '' },
  ...change,
});

describe('registries of the machine', () => {
  test('have ids from 4, and are known by type and url where a manifest names none', () => {
    const registries = make();
    expect(registries.all.map(({ id, type, url }) => [id, type, url])).toEqual([
      [1, 'oci', 'docker.io'],
      [2, 'oci', 'from_cache'],
      [3, 'hub', 'https://huggingface.co'],
    ]);
    expect(registries.apply(manifest()).id).toBe(4);
    expect(registries.apply(manifest({ url: 'https://other.example' })).id).toBe(5);
    expect(registries.apply(manifest({ id: 40, url: 'third.example' })).id).toBe(40);
    expect(registries.apply(manifest({ url: 'REGISTRY.example/', insecure: true }))).toMatchObject({
      id: 4,
      insecure: true,
    });
    expect(registries.apply(manifest({ type: 'hub' })).id).toBe(41);
    // Views name them in a space of their own, which no controller reaches.
    expect([...registries.views.keys()]).toEqual([-1, -3, -4, -5, -40, -41]);
    expect(changes).toEqual([-4, -5, -40, -4, -41]);
  });

  test('are taken from hosts alone that the policy of the machine names, also without effect on those that are there', () => {
    const registries = make();
    registries.apply(manifest());
    policy = { registries: ['Other.example:443'] };
    expect(() => registries.judge(manifest())).toThrow(
      /^spec\.url: the policy of this machine takes nothing from this host/,
    );
    expect(() => registries.apply(manifest({ url: 'http://registry.example' }))).toThrow(/policy/);
    expect(registries.apply(manifest({ url: 'https://other.example' })).id).toBe(5);
    expect([registries.isAllowed(4), registries.isAllowed(5), registries.isAllowed(2)]).toEqual([false, true, true]);
    expect(registries.get(4).url).toBe('registry.example');
  });

  test.each([1, 2, 3])('refuse a change and a removal of %i, which is built in', (id) => {
    const registries = make();
    expect(() => registries.apply(manifest({ id }))).toThrow(/built in/);
    expect(() => registries.remove(id)).toThrow(/built in/);
  });

  test('keep type and url under their ids', () => {
    const registries = make();
    registries.apply(manifest({ id: 7 }));
    for (const change of [{ url: 'other.example' }, { type: 'hub' as const }])
      expect(() => registries.apply(manifest({ id: 7, ...change }))).toThrow(
        expect.objectContaining({ code: 'CONFLICT', message: expect.stringContaining('registry.example') }),
      );
    expect(registries.apply(manifest({ id: 7, insecure: true })).insecure).toBe(true);
    registries.apply(manifest({ id: 8 }));
    expect(() => registries.apply(manifest())).toThrow(/spec\.id: say which one: 7, 8/);
  });

  test('stay while something names them', () => {
    const registries = make();
    registries.apply(manifest());
    users = ['model tiny'];
    expect(() => registries.remove(4)).toThrow(expect.objectContaining({ code: 'CONFLICT' }));
    users = [];
    registries.remove(4);
    expect(() => registries.get(4)).toThrow(expect.objectContaining({ code: 'NOT_FOUND' }));
    expect(() => registries.remove(4)).toThrow(expect.objectContaining({ code: 'NOT_FOUND' }));
  });

  test('are as they were when the disk takes no change, and say so', () => {
    const rows = memoryRows<LocalRegistry>();
    const registries = make(rows);
    registries.apply(manifest());
    changes = [];
    const full = () => {
      throw new Error('no space left');
    };
    Object.assign(rows, { save: full, remove: full });
    expect(() => registries.apply(manifest({ insecure: true }))).toThrow(/no registry was changed: no space left/);
    expect(() => registries.remove(4)).toThrow(/no registry was removed: no space left/);
    expect(registries.get(4).insecure).toBe(false);
    expect(changes).toEqual([]);
  });

  test('survive the end of the process; a damaged one is no absent one, and its id is not given away', () => {
    const folder = join(temporaryFolder(), 'registries');
    const open = () => openRows(folder, localRegistrySchema);
    const password = 'hunter-2-canary';
    make(open()).apply(manifest({ isPublic: false, username: 'ann', password }));
    expect(make(open()).get(4).password).toBe(password);
    damage(join(folder, '4.json'));
    const registries = make(open());
    expect(registries.ownProblems.join()).toMatch(/local registry 4: of its file it is damaged/);
    expect(registries.ownProblems.join()).not.toContain(password);
    expect(() => registries.get(4)).toThrow(expect.objectContaining({ code: 'UNAVAILABLE' }));
    expect(registries.apply(manifest()).id).toBe(5);
    registries.remove(4);
    expect(make(open()).ownProblems).toEqual([]);
  });
});

function damage(file: string): void {
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace('registry', 'registri'));
}
