import { describe, expect, test } from 'vitest';
import { knownFolders, parseKnown, withKnown, withoutKnown } from './known-folders.ts';
import type { SystemFileSetView } from './system-files.ts';

const file = (path: string, turn = 0) => ({
  path,
  digest: Buffer.from(`${path} ${turn}`).toString('hex').padEnd(64, '0').slice(0, 64),
  size: turn,
});
const links = (count: number) => Array.from({ length: count }, (_, i) => file(`creds/${i}.creds`));
const set = (name: string, ...files: SystemFileSetView['files']): SystemFileSetView => ({ name, files });
/** What an agent that had the first sets makes of what it is sent of the others. */
const sent = (had: SystemFileSetView[], wanted: SystemFileSetView[]) => {
  const listed = wanted.map((one) => withoutKnown(one, parseKnown(knownFolders(had))));
  return { files: listed.flatMap(({ files }) => files.length), whole: listed.map((one) => withKnown(one, had)) };
};
const sorted = (sets: (SystemFileSetView | undefined)[]) =>
  sets.map((one) => one && { ...one, files: one.files.toSorted((a, b) => (a.path < b.path ? -1 : 1)) });

describe('a list for an agent that has a large folder', () => {
  const had = [set('bus-config', file('server.conf'), ...links(566), file('tokens-A.conf'))];

  test('has the other files of the set, from which the agent makes the whole set', () => {
    const wanted = [set('bus-config', file('server.conf'), ...links(566), file('tokens-A.conf', 1))];
    const { files, whole } = sent(had, wanted);
    expect(files).toEqual([2]);
    expect(sorted(whole)).toEqual(sorted(wanted));
  });

  test('has every file of the set once one file of the folder differs, is new, or is left out', () => {
    const [first, ...others] = links(566);
    for (const creds of [[file(first?.path ?? '', 1), ...others], links(567), others]) {
      const wanted = [set('bus-config', file('server.conf'), ...creds)];
      const { files, whole } = sent(had, wanted);
      expect(files).toEqual([creds.length + 1]);
      expect(whole).toEqual(wanted);
    }
  });

  test('has every file of another set with the same folder', () => {
    const wanted = [set('other', ...links(566))];
    expect(sent(had, wanted).whole).toEqual(wanted);
  });
});

test('the order in which a set lists its files matters to nobody', () => {
  const had = [set('bus-config', ...links(20))];
  const wanted = [set('bus-config', file('start'), ...links(20).reverse())];
  expect(sent(had, wanted).files).toEqual([1]);
});

test('an agent names no small folder, and no folder whose name would need quotes', () => {
  const odd = Array.from({ length: 20 }, (_, i) => file(`a,b/${i}`));
  expect(knownFolders([set('certificates', file('ca/ca.crt')), set('odd', ...odd)])).toBe('');
});

test('a list that keeps what the agent never had is no list', () => {
  expect(withKnown({ ...set('bus-config', file('start')), kept: ['creds'] }, [])).toBeUndefined();
});

test('an invalid name of a folder is left out, and so are names beyond the bound', () => {
  const digest = 'a'.repeat(16);
  for (const text of ['', 'x', 'a/b', `a/b:${digest}0`, `a/../b:${digest}`, `A/b:${digest}`])
    expect(parseKnown(text).size).toBe(0);
  const many = Array.from({ length: 100 }, (_, i) => `s${i}/f:${digest}`).join(',');
  expect(parseKnown(many).size).toBe(16);
});
