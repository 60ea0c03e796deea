import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { routes } from '../../assembly/routes.ts';
import { spellings } from '../contract/route.ts';
import { openApiDocument } from './openapi.ts';

const document = openApiDocument(routes) as {
  paths: Record<
    string,
    Record<string, { operationId: string; security: unknown[]; responses: Record<string, unknown> }>
  >;
  components: { schemas: Record<string, object>; responses: Record<string, object> };
};
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));

describe('the OpenAPI document', () => {
  test('has every route once, with a unique operation id', () => {
    expect(operations).toHaveLength(routes.length);
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(routes.length);
  });

  test('resolves every reference', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] ?? '');
    const lost = references.filter(
      (path) =>
        path.split('/').reduce<unknown>((at, step) => (at as Record<string, unknown>)?.[step], document) === undefined,
    );
    expect(references.length).toBeGreaterThan(100);
    expect(lost).toEqual([]);
  });

  test('has valid schemas only', () => {
    const ajv = new Ajv2020({ strict: true, strictTypes: false, validateFormats: false });
    ajv.addVocabulary(['components']);
    ajv.addSchema({ $id: 'openapi', components: document.components });
    for (const name of Object.keys(document.components.schemas))
      expect(() => ajv.compile({ $ref: `openapi#/components/schemas/${name}` })).not.toThrow();
  });

  test('has no keyword that only CRDs have', () => {
    expect(JSON.stringify(document)).not.toMatch(/x-kubernetes|x-skerry/);
  });

  test('is the same at each generation', () => {
    expect(JSON.stringify(openApiDocument(routes))).toBe(JSON.stringify(document));
  });

  test('has 401 and 403 for every operation that needs a token', () => {
    const silent = operations.filter(
      ({ security, responses }) => security.length > 0 && !('401' in responses && '403' in responses),
    );
    expect(silent).toEqual([]);
  });
});

test('no two routes share a path and method', () => {
  const shapes = routes.flatMap(({ method, path }) =>
    spellings(path).map((one) => `${method} ${one.replaceAll(/\{\w+\}/g, '{}')}`),
  );
  expect(shapes.filter((shape, i) => shapes.indexOf(shape) !== i)).toEqual([]);
});

test('every parameter of an access rule is a path parameter', () => {
  const wrong = routes.filter(
    ({ access, path }) => typeof access === 'object' && access.name !== undefined && !path.includes(`{${access.name}}`),
  );
  expect(wrong.map(({ path }) => path)).toEqual([]);
});
