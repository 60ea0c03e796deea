import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { type ArchivedFile, archivedImages } from './archive-form.ts';

/** An archive of indexes that name each other many times. */
function nested(times: number) {
  const files = new Map<string, ArchivedFile>();
  const add = (value: object): { digest: string } => {
    const json = Buffer.from(JSON.stringify(value));
    const digest = `sha256:${createHash('sha256').update(json).digest('hex')}`;
    files.set(`blobs/${digest.replace(':', '/')}`, { size: json.length, digest, json });
    return { digest };
  };
  const many = (of: { digest: string }) => Array.from({ length: times }, () => of);
  const config = add({ os: 'linux', architecture: 'amd64', rootfs: {} });
  const inner = add({ manifests: many(add({ config, layers: [] })) });
  const outer = add({ manifests: many(inner) });
  const json = Buffer.from(JSON.stringify({ manifests: many(outer) }));
  files.set('index.json', { size: json.length, json });
  return { files, links: new Map<string, string>() };
}

test('an archive whose indexes multiply is refused after a thousand entries, however small it is', () => {
  expect(() => archivedImages(nested(80), 'amd64')).toThrow('its indexes have more than 1000 entries');
  expect(archivedImages(nested(2), 'amd64').length).toBeGreaterThan(0);
});
