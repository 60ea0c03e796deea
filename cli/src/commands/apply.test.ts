import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { CommandError } from '../context/errors.ts';
import { documentWarnings } from '../objects/documents.ts';
import { documentsOf } from './apply.ts';

function fileWith(text: string): string {
  const folder = temporaryFolder();
  const file = join(folder, 'file.yaml');
  writeFileSync(file, text);
  return file;
}

describe('a file of kubectl skerry apply', () => {
  test('may have several documents with merges of their own, and empty ones', () => {
    const file = fileWith('a: &a {x: 1}\nb: {<<: *a, y: 2}\n---\n---\nkind: Secret\n');
    expect(documentsOf(file)).toEqual([
      { place: `${file}, document number 1`, document: { a: { x: 1 }, b: { x: 1, y: 2 } } },
      { place: `${file}, document number 3`, document: { kind: 'Secret' } },
    ]);
  });

  test('whose merges multiply is read as it is written', () => {
    const levels = Array.from({ length: 100 }, (_, i) => `a${i + 1}: &a${i + 1} {<<: [*a${i}, *a${i}]}\n`).join('');
    expect(documentsOf(fileWith(`a0: &a0 {k: 1}\n${levels}`))).toMatchObject([{ document: { a100: { k: 1 } } }]);
  });

  test('whose aliases multiply is refused with the document and the reason', () => {
    const levels = Array.from({ length: 8 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(9)}]\n`).join('');
    const file = fileWith(`kind: Secret\n---\na0: &a0 [x]\n${levels}`);
    expect(() => documentsOf(file)).toThrow(CommandError);
    expect(() => documentsOf(file)).toThrow(/document number 2: the file holds more than 65536 values/);
  });
});

describe('unknown members', () => {
  const document = (apiVersion: string, kind: string, spec: object) => ({
    ...{ apiVersion, kind, metadata: { name: 'shop/web' }, spec },
  });
  const entry = { agent: { name: 'local' }, images: { amd64: 'shop/web:1' }, contaner: { env: [] } };
  const application = { microservices: [{ name: 'web', ...entry }] };

  test.each<[string, object, RegExp]>([
    ['Application', application, /^spec\.microservices\[0\]: unknown field "contaner"; did you mean container\?$/],
    ['Microservice', entry, /^spec: unknown field "contaner"; did you mean container\?$/],
  ])('an unknown member of the kind %s is refused in a document of the own apiVersion', (kind, spec, message) => {
    expect(() => documentWarnings(document('skerry.dev/v3', kind, spec))).toThrow(message);
  });

  test('an unknown member of a file in the form of v3 is named in a warning', () => {
    expect(documentWarnings(document('iofog.org/v3', 'Application', application))).toEqual([
      'unknown members were dropped: spec.microservices[0].contaner (container?)',
    ]);
  });

  test('a document without unknown members has no warning', () => {
    expect(documentWarnings(document('skerry.dev/v3', 'Secret', { type: 'Opaque' }))).toEqual([]);
  });
});
