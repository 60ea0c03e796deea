import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { openRows } from './rows.ts';

const schema = z.object({ image: z.string(), count: z.int() });
const ROW = { image: 'shop/till:1', count: 3 };
let directory: string;
const open = () => openRows(directory, schema);

beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), 'skerry-rows-')), 'rows');
});
afterEach(() => rmSync(join(directory, '..'), { recursive: true }));

describe('rows that exist on this machine alone', () => {
  test('are none before the first one', () => {
    expect([...open().all]).toEqual([]);
  });

  test('are there after another start, readable by their owner alone', () => {
    const rows = open();
    rows.save('till', ROW);
    rows.save('till', { ...ROW, count: 4 });
    rows.save('scale', ROW);
    rows.remove('scale');
    rows.remove('scale');
    const again = open();
    expect([...again.all]).toEqual([['till', { ...ROW, count: 4 }]]);
    expect(again.all).toEqual(rows.all);
    expect(statSync(join(directory, 'till.json')).mode & 0o777).toBe(0o600);
  });

  test.each(['../till', 'a/b', '', '.hidden', 'a\0b'])('refuse the id %j, which is no plain name', (id) => {
    expect(() => open().save(id, ROW)).toThrow('is not a plain name');
  });

  test('are unreadable, and not absent, when a byte of the file is another one or the file is cut', () => {
    open().save('till', ROW);
    const path = join(directory, 'till.json');
    const whole = readFileSync(path);
    for (let at = 0; at < whole.length; at++) {
      const flipped = Buffer.from(whole);
      flipped.writeUInt8(whole.readUInt8(at) ^ 1, at);
      for (const content of [flipped, whole.subarray(0, at)]) {
        writeFileSync(path, content);
        const rows = open();
        // The last line feed carries nothing.
        const isWhole = at === whole.length - 1 && content.length === at;
        expect([...rows.all.keys(), ...rows.unreadable.keys()]).toEqual(['till']);
        expect(rows.all.has('till')).toBe(isWhole);
        expect(readFileSync(path)).toEqual(content);
      }
    }
  });

  test('say nothing of the content of a row that another version wrote', () => {
    openRows(directory, z.object({ image: z.string(), count: z.string() })).save('till', {
      image: 'a',
      count: 'secret',
    });
    expect([...open().unreadable]).toEqual([['till', 'another version of the agent wrote it: count']]);
  });

  test('keep their former state when a write fails', () => {
    const rows = open();
    rows.save('till', ROW);
    const file = join(directory, 'till.json');
    rmSync(directory, { recursive: true });
    writeFileSync(directory, 'no directory');
    expect(() => rows.save('till', { ...ROW, count: 9 })).toThrow();
    expect(rows.all.get('till')).toEqual(ROW);
    rmSync(directory);
    expect(() => readFileSync(file)).toThrow();
  });

  test('remove what an interrupted write left', () => {
    open().save('till', ROW);
    writeFileSync(join(directory, 'scale.json.17.tmp'), 'half');
    expect([...open().all.keys()]).toEqual(['till']);
    expect(readdirSync(directory)).toEqual(['till.json']);
  });

  test('can be removed although they are unreadable', () => {
    open().save('till', ROW);
    writeFileSync(join(directory, 'till.json'), 'x');
    open().remove('till');
    expect([...open().unreadable]).toEqual([]);
  });
});
