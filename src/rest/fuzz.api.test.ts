import fc from 'fast-check';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { KubeError, kubeFromFile } from '../../hack/kube.ts';
import { fuzzing } from '../../hack/testing/fuzz.ts';
import { agreementTables } from '../api/_agreement.ts';
import { readSpec } from '../api/_read-spec.ts';
import type { ResourceDefinition } from '../api/meta.ts';
import { API_VERSION } from '../api/names.ts';
import { cases as applicationCases } from '../api/v3/_application.cases.ts';
import { HttpError } from '../http/http-error.ts';
import { DomainError } from '../rules/errors.ts';
import { normalEntry } from '../rules/normal-entry.ts';
import { registryFromBody } from '../subjects/catalog/rules/registry.ts';
import { nodeFromBody } from '../subjects/nodes/rules/body.ts';
import { readMicroserviceUpload } from '../subjects/workloads/rules/entry/document.ts';
import { entryFromFlat, flatFromEntry } from '../subjects/workloads/rules/entry/flat.ts';
import { readApplicationBody, readApplicationUpload } from '../subjects/workloads/rules/upload/application.ts';
import { parseJsonBody } from './server/body.ts';
import { parseYaml } from './server/yaml.ts';

/** Valid documents with random changes. */
const { about: seeds, budget, timeout: LONG } = fuzzing({ runs: 150, nightlySeconds: 600 });

const KINDS = (await agreementTables()).map(([definition, cases]) => [definition.kind, definition, cases] as const);

/** Values with which parsers and validations often have problems. */
const odd = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    '',
    ' ',
    0,
    -1,
    1,
    2 ** 31,
    2 ** 53,
    2 ** 53 - 1,
    -(2 ** 53),
    1e21,
    0.5,
    -0,
    true,
    false,
    [],
    {},
    [null],
    [[]],
  ),
  fc.constantFrom(
    'a',
    'A',
    'a.b',
    '-a',
    'a-',
    'é',
    'e\u0301',
    '😀',
    '\u202e',
    '\n',
    '__proto__',
    'constructor',
    '${Agents.x}',
    '../x',
    '/dev/x',
    '0',
    '08',
    'true',
    '1e3',
    'a:b',
    'a@b',
    'a b',
  ),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.integer({ min: 1, max: 70_000 }),
  fc.constantFrom(62, 63, 64, 65, 127, 128, 129, 252, 253, 254, 255, 256, 257).map((length) => 'a'.repeat(length)),
  fc.constantFrom(64, 65, 128, 129).map((length) => Array.from({ length }, (_, i) => `v${i}`)),
);

type Step = { at: number; how: 'replace' | 'remove' | 'copy' | 'rename' | 'add'; value: unknown; word: string };
const steps = fc.array(
  fc.record<Step>({
    at: fc.nat(10_000),
    how: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'copy', 'rename', 'add'),
    value: odd,
    word: fc.constantFrom('name', 'uuid', 'x', '__proto__', 'toString', 'value', 'key', 'spec'),
  }),
  { minLength: 1, maxLength: 4 },
);

/** Changes a document at the places that `at` selects. */
function mutate(document: unknown, changes: readonly Step[]): unknown {
  const copy = structuredClone(document);
  for (const { at, how, value, word } of changes) {
    const places: [Record<string, unknown>, string][] = [];
    const walk = (one: unknown): void => {
      if (typeof one !== 'object' || one === null) return;
      for (const key of Object.keys(one)) {
        places.push([one as Record<string, unknown>, key]);
        walk((one as Record<string, unknown>)[key]);
      }
    };
    walk(copy);
    const place = places[at % Math.max(1, places.length)];
    if (!place) continue;
    const [holder, key] = place;
    if (how === 'remove') delete holder[key];
    else if (how === 'copy' && Array.isArray(holder)) holder.push(structuredClone(holder[Number(key)]));
    else if (how === 'rename' && !Array.isArray(holder)) {
      set(holder, word, holder[key]);
      delete holder[key];
    } else if (how === 'add' && !Array.isArray(holder)) set(holder, word, structuredClone(value));
    else holder[key] = structuredClone(value);
  }
  // Removes holes in lists and other values that JSON cannot have, since no request contains them.
  return JSON.parse(JSON.stringify(copy ?? null));
}

/** Sets an own member, whatever its name, as a JSON parser does. */
const set = (holder: object, key: string, value: unknown) =>
  Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });

/** The value without members `__proto__`, which REST drops from every body, whereas the API server stores and counts them. */
const withoutProto = (value: unknown): unknown => parseJsonBody(JSON.stringify(value), 64);

const kube = await kubeFromFile(inject('kubeconfig'));
process.stderr.write(`fuzz: ${seeds}\n`);
afterAll(() => kube.close());

async function throughApiServer(
  kind: ResourceDefinition,
  spec: unknown,
): Promise<{ spec?: unknown; refusal?: string }> {
  const path = `/apis/${API_VERSION}/namespaces/default/${kind.plural}?dryRun=All&fieldValidation=Strict`;
  const object = { apiVersion: API_VERSION, kind: kind.kind, metadata: { name: 'fuzz' }, spec };
  try {
    return { spec: (await kube.request<{ spec: unknown }>('POST', path, object)).spec };
  } catch (error) {
    if (error instanceof KubeError && (error.status === 422 || error.status === 400)) return { refusal: error.message };
    throw error;
  }
}

describe.each(KINDS)(`%s (${seeds})`, (_, kind, cases) => {
  test(
    'is accepted by readSpec and the API server, in the same normal form, or by neither',
    async () => {
      const documents = fc.constantFrom(...cases.map(({ spec }) => spec));
      await fc.assert(
        fc.asyncProperty(documents, steps, async (document, changes) => {
          const whole = mutate(document, changes);
          expect(() => readSpec(kind, whole)).not.toThrow();
          const spec = withoutProto(whole);
          const here = readSpec(kind, spec);
          const there = await throughApiServer(kind, spec);
          expect({ accepted: here.success, why: here.success ? there.refusal : here.error?.message }).toMatchObject({
            accepted: there.refusal === undefined,
          });
          if (here.success) expect(here.data).toEqual(there.spec);
        }),
        budget,
      );
    },
    LONG,
  );
});

/** The result of a reader; undefined when it throws a refusal. Any other error is a failure. */
function refusesOrReads<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof DomainError || (error instanceof HttpError && error.status === 400)) {
      expect(error.message.length).toBeLessThan(20_000);
      return undefined;
    }
    throw error;
  }
}

describe(`readers (${seeds})`, () => {
  const entries = applicationCases
    .flatMap(({ spec }) => ((spec as { microservices?: unknown }).microservices ?? []) as unknown[])
    .filter((entry) => typeof entry === 'object' && entry !== null);
  const flat = {
    name: 'web',
    application: 'plant',
    config: '{"a":1}',
    images: [{ containerImage: 'a:1', archId: 1 }],
    env: [{ key: 'A', value: 'b' }],
    ports: [{ internal: 1, external: 2 }],
    volumeMappings: [{ hostDestination: '/a', containerDestination: '/b', accessMode: 'rw' }],
    extraHosts: [{ name: 'a', address: '10.0.0.1' }],
    annotations: '{"a":"b"}',
    nodeUuid: '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6',
  };

  test(
    'accept or refuse any document without another error',
    () => {
      const files = fc.constantFrom(
        { kind: 'Application', metadata: { name: 'plant' }, spec: { microservices: entries.slice(0, 20) } },
        { kind: 'Microservice', metadata: { name: 'plant/web' }, spec: entries[0] ?? {} },
        { name: 'plant', microservices: [flat] },
        flat,
        { name: 'gw', archId: 1, host: 'gw.example', tags: ['a'] },
        { url: 'registry.example', password: 'x', userEmail: 'a@b' },
      );
      fc.assert(
        fc.property(files, steps, (document, changes) => {
          const value = mutate(document, changes);
          const text = JSON.stringify(value);
          refusesOrReads(() => parseJsonBody(text, 64));
          for (const read of [
            readApplicationUpload,
            readMicroserviceUpload,
            readApplicationBody,
            entryFromFlat,
            nodeFromBody,
            registryFromBody,
          ] as ((value: unknown) => unknown)[])
            refusesOrReads(() => read(value));
        }),
        budget,
      );
    },
    LONG,
  );

  test(
    'return an equal entry after its flat form is written and read again',
    () => {
      fc.assert(
        fc.property(steps, (changes) => {
          const first = refusesOrReads(() => entryFromFlat(mutate(flat, changes)))?.entry;
          if (!first) return;
          const again = entryFromFlat(flatFromEntry(first as never)).entry;
          // Only one of them has the defaults of the flat form.
          expect(normalEntry(again as never)).toEqual(normalEntry(first as never));
        }),
        budget,
      );
    },
    LONG,
  );

  test(
    'accept or refuse any text as JSON and YAML within seconds',
    () => {
      const pieces = fc.constantFrom(
        'a',
        ': ',
        '- ',
        '\n',
        '  ',
        '&a ',
        '*a',
        '{',
        '}',
        '[',
        ']',
        ',',
        '"',
        "'",
        '|\n',
        '>\n',
        '!!',
        '? ',
        '<<: ',
        '#',
        '---\n',
        '%',
        '\\',
        '\\u0000',
        '\\ud800',
        '\t',
        '0',
        '~',
        'é',
        '"__proto__":',
        '\u2028',
        '\ufeff',
      );
      const texts = fc.oneof(
        fc.array(pieces, { maxLength: 400 }).map((all) => all.join('')),
        fc.string({ unit: 'binary', maxLength: 400 }),
      );
      fc.assert(
        fc.property(texts, fc.integer({ min: 1, max: 300 }), (text, times) => {
          const long = text.repeat(times);
          const began = performance.now();
          refusesOrReads(() => parseYaml(long));
          refusesOrReads(() => parseJsonBody(long, 64));
          expect(performance.now() - began).toBeLessThan(10_000);
          expect(({} as Record<string, unknown>).a).toBeUndefined();
        }),
        budget,
      );
    },
    LONG,
  );
});
