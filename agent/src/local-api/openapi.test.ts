import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { localApiDocument } from './openapi.ts';
import { ROUTES } from './routes.ts';

interface Operation {
  operationId: string;
  security: object[];
  responses: Record<string, object>;
  parameters?: { name: string; in: string }[];
}
const document = localApiDocument() as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; responses: Record<string, object> };
};
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));

test('the OpenAPI document of the local API has every route once, with a unique operation id', () => {
  for (const { method, path, operation } of ROUTES)
    expect(document.paths[path]?.[method.toLowerCase()]?.operationId).toBe(operation);
  expect(operations).toHaveLength(ROUTES.length);
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(ROUTES.length);
});

test('every reference of the OpenAPI document of the local API exists', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] ?? '');
  const lost = references.filter(
    (path) =>
      path.split('/').reduce<unknown>((at, step) => (at as Record<string, unknown>)?.[step], document) === undefined,
  );
  expect(references.length).toBeGreaterThan(100);
  expect(lost).toEqual([]);
});

test('every schema of the OpenAPI document of the local API is valid', () => {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, validateFormats: false });
  ajv.addVocabulary(['components']);
  ajv.addSchema({ $id: 'openapi', components: document.components });
  const schemas: object[] = [];
  JSON.stringify(document.paths, (key, value) => {
    if (key === 'schema') schemas.push(value);
    return value;
  });
  expect(schemas.length).toBeGreaterThan(operations.length);
  for (const schema of schemas)
    expect(() => ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi#/')))).not.toThrow();
});

test('the OpenAPI document of the local API has every parameter of a path, and 401 and 403 where a token is needed', () => {
  for (const { method, path, access } of ROUTES) {
    const operation = document.paths[path]?.[method.toLowerCase()];
    const { parameters = [], security = [], responses = {} } = operation ?? {};
    const inPath = parameters.filter((one) => one.in === 'path').map(({ name }) => `{${name}}`);
    expect(inPath).toEqual(path.match(/\{\w+\}/g) ?? []);
    expect(security.length > 0).toBe(access !== 'open');
    if (access !== 'open') expect(Object.keys(responses)).toEqual(expect.arrayContaining(['401', '403']));
  }
});
