import { describe, expect, test } from 'vitest';
import { decimalSize } from '../../server/sizes.ts';
import { imageRows } from './rows.ts';

const id = (digit: string) => `sha256:${digit.repeat(64)}`;
const digest = (digit: string) => `sha256:${digit.repeat(64)}`;

describe('the list of images', () => {
  test('has a row for each name, with the digest of its repository', () => {
    const tags = ['r.example.com:5000/web:2', 'r.example.com:5000/web:1', 'nginx:1'];
    const digests = [`r.example.com:5000/web@${digest('d')}`, `other.example.com/web@${digest('e')}`];
    const rows = imageRows([{ id: id('a'), tags, digests, diskBytes: 1_234_567, createdAt: 0 }], [], 'docker');
    expect(rows.map((row) => [row.repository, row.tag, row.digest])).toEqual([
      ['nginx', '1', null],
      ['other.example.com/web', '<none>', digest('e')],
      ['r.example.com:5000/web', '1', digest('d')],
      ['r.example.com:5000/web', '2', digest('d')],
    ]);
    expect(rows[0]).toEqual({
      ...{ id: id('a'), shortId: 'a'.repeat(12), repository: 'nginx', tag: '1', digest: null, engine: 'docker' },
      ...{ createdAt: '1970-01-01T00:00:00.000Z', inUse: false },
      ...{ contentSizeBytes: null, contentSizeHuman: null, diskUsageBytes: 1_234_567, diskUsageHuman: '1.2 MB' },
    });
  });

  test('has one row for an image without a name, and null for figures that are not counted', () => {
    const [row, ...others] = imageRows([{ id: id('b'), tags: [], digests: [] }], [], 'podman');
    expect(others).toEqual([]);
    expect(row).toMatchObject({
      ...{ repository: '<none>', tag: '<none>', digest: null, createdAt: null },
      ...{ diskUsageBytes: null, diskUsageHuman: null },
    });
  });

  test('says of an image that it is in use when a container was made from it', () => {
    const image = (digit: string) => ({ id: id(digit), tags: [`${digit}:1`], digests: [] });
    const uses = [{ imageId: id('a'), container: 'someone' }];
    expect(imageRows([image('a'), image('b')], uses, '').map(({ inUse }) => inUse)).toEqual([true, false]);
  });
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.0 KB'],
  [999_949, '999.9 KB'],
  [999_960, '1.0 MB'],
  [12_345_678, '12.3 MB'],
  [5e9, '5.0 GB'],
  [1.5e15, '1500.0 TB'],
])('%i bytes are %s for people', (bytes, text) => {
  expect(decimalSize(bytes)).toBe(text);
});
