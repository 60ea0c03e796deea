import { describe, expect, test } from 'vitest';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../../src/api/container/index.ts';
import { microserviceViewSchema } from '../../../src/wire/agent.ts';
import { newLocalUuid } from '../domain/local-uuid.ts';
import { manifestOf } from './_manifest.ts';
import { maskedManifest, readMicroserviceManifest } from './manifest.ts';

const uuid = newLocalUuid();
const view = (container: object, spec: object = {}) =>
  readMicroserviceManifest(manifestOf('web', 'example/web:1', container, spec)).view(uuid);
const refusal = (manifest: string): string => {
  try {
    readMicroserviceManifest(manifest);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

/** Fields of a controller alone, or whose example a machine without a controller does not take. */
const EXAMPLES: Partial<Record<string, unknown>> = { memorySwap: undefined };

test.each(CONTAINER_FIELD_NAMES)('the container field %s reaches the view', (field) => {
  const { example, wireName } = fieldRow(field);
  if (field === 'healthCheck' || field in EXAMPLES) return;
  const made = view({ [field]: example }) as Record<string, unknown>;
  const absent = view({}) as Record<string, unknown>;
  expect(made[wireName]).not.toEqual(absent[wireName]);
});

test('a health check and a limit of swap reach the view', () => {
  const check = { test: ['CMD', 'true'], interval: 5 };
  expect(view({ healthCheck: check, memoryLimit: 64, memorySwap: -1 })).toMatchObject({
    ...{ healthCheck: check, memoryLimit: 64, memorySwap: -1 },
  });
});

test('an agent reads the view of a manifest', () => {
  const made = view(
    { env: [{ key: 'A', value: '1' }], ports: [{ internal: 80, external: 8080 }] },
    { config: { a: 1 } },
  );
  const { secret, ...variable } = made.env[0] ?? {};
  expect([secret, variable]).toEqual([true, { key: 'A', value: '1' }]);
  expect(microserviceViewSchema.parse(made)).toEqual(made);
  expect(made).toMatchObject({
    ...{ uuid, application: 'skerry-agent', name: 'web', imageId: 'example/web:1', registryId: -1, config: '{"a":1}' },
    portMappings: [{ internal: 80, external: 8080, protocol: 'tcp' }],
    serviceAccount: { name: 'web', rules: [] },
  });
});

test('an image without a registry is not pulled, and another registry has a number of its own', () => {
  expect(view({}, { registry: undefined }).registryId).toBe(2);
  expect(view({}, { registry: 7 }).registryId).toBe(-7);
});

test('commands counts where a manifest has cmd as well', () => {
  expect(view({ cmd: ['a'], commands: ['b'] }).commands).toEqual(['b']);
  expect(view({ cmd: ['a'] }).commands).toEqual(['a']);
});

test('labels and annotations become labels of the container', () => {
  const manifest = JSON.parse(manifestOf('web', 'a:1', { annotations: { b: '2' } }));
  manifest.metadata.labels = { a: '1' };
  expect(readMicroserviceManifest(JSON.stringify(manifest)).view(uuid).annotations).toBe('{"a":"1","b":"2"}');
});

test('a member without a value counts as absent', () => {
  expect(
    refusal('apiVersion: agent.skerry.dev/v1\nkind: Microservice\nmetadata: {name: a}\nspec: {image: b, container: }'),
  ).toBe('');
});

const text = (spec: string, head = 'apiVersion: agent.skerry.dev/v1\nkind: Microservice\n') =>
  `${head}metadata: {name: web}\nspec: {image: 'a:1', ${spec}}`;

describe('a manifest is refused, and the field is named, with', () => {
  const cases: Record<string, [string, RegExp]> = {
    'no YAML': ['a: [', /^the manifest: the file is not valid YAML/],
    'a key that is there twice': ['kind: a\nkind: b', /key twice/],
    'several documents': [`${text('')}\n---\n${text('')}`, /several documents/],
    'an unknown field': [text('restart: always'), /^spec: unknown field "restart"/],
    'an unknown container field': [
      text('container: {stopSignal: TERM}'),
      /^spec\.container: unknown field "stopSignal"/,
    ],
    'another kind': [
      text('', 'apiVersion: agent.skerry.dev/v1\nkind: Pod\n'),
      /^kind: "Pod" must be one of Microservice/,
    ],
    'another version': [
      text('', 'apiVersion: v1\nkind: Microservice\n'),
      /^apiVersion: "v1" must be one of agent\.skerry\.dev\/v1/,
    ],
    'a name in capitals': [manifestOf('Web', 'a:1'), /^metadata\.name: "Web" must be a name/],
    'a name that is a path': [manifestOf('../etc', 'a:1'), /^metadata\.name/],
    'the name default': [manifestOf('default', 'a:1'), /default is reserved/],
    'the name controller': [manifestOf('controller', 'a:1'), /controller is reserved/],
    'no image': [
      'apiVersion: agent.skerry.dev/v1\nkind: Microservice\nmetadata: {name: a}\nspec: {}',
      /^spec\.image: is required/,
    ],
    'a label of the agent': [
      text("container: {annotations: {skerry.dev/agent: 'x'}}"),
      /skerry\.dev\/agent is reserved/,
    ],
    'a variable of the agent': [text("container: {env: [{key: SKERRY_ROLE, value: 'x'}]}"), /SKERRY_ROLE is reserved/],
    'a variable from a Secret': [text("container: {env: [{key: A, valueFromSecret: 'a/b'}]}"), /A needs a value/],
    'a volume mount': [
      text('container: {volumes: [{hostDestination: m, containerDestination: /m, accessMode: ro, type: volumeMount}]}'),
      /volume mounts are of a controller/,
    ],
    'a volume whose name is a path': [
      text('container: {volumes: [{hostDestination: ../x, containerDestination: /m, accessMode: rw, type: volume}]}'),
      /"\.\.\/x" must be the name of a volume/,
    ],
    'a bind of a relative path': [
      text('container: {volumes: [{hostDestination: x, containerDestination: /m, accessMode: rw}]}'),
      /"x" must be an absolute path/,
    ],
    'a scope of a bind': [
      text('container: {volumes: [{hostDestination: /x, containerDestination: /m, accessMode: rw, scope: shared}]}'),
      /only the type volume has a scope/,
    ],
    'two mounts at one path': [
      text(
        'container: {tmpfs: [{containerPath: /m/}], volumes: [{hostDestination: v, containerDestination: /m, accessMode: rw, type: volume}]}',
      ),
      /two mounts have the path \/m/,
    ],
    'a device outside of /dev': [
      text('container: {devices: [{hostPath: /etc/passwd, containerPath: /a}]}'),
      /devices\[0\]\.hostPath/,
    ],
    'a kernel parameter that is not allowed': [
      text("container: {sysctls: {kernel.panic: '1'}}"),
      /unknown field "kernel\.panic"/,
    ],
    'a limit as a number': [text('container: {ulimits: {nofile: 5}}'), /ulimits\.nofile/],
    'swap without a limit of memory': [text('container: {memorySwap: 5}'), /memorySwap needs memoryLimit/],
    'a user with a group twice': [text("container: {runAsUser: '1:2', runAsGroup: '3'}"), /excludes runAsGroup/],
    'a reference to a node': [
      text("container: {extraHosts: [{name: a, address: '${Agents.b}'}]}"),
      /references are of a controller/,
    ],
    'a platform that is none': [text('container: {platform: arm}'), /must be os\/architecture/],
    'too long a config': [text(`config: {a: '${'x'.repeat(70_000)}'}`), /^spec\.config: more than 65536 bytes/],
    'more than a mebibyte': [`# ${'x'.repeat(1024 * 1024)}`, /at most 1048576 are read/],
    'aliases that multiply': [
      `a: &a [${'x,'.repeat(9)}]\nb: &b [${'*a,'.repeat(9)}]\nc: &c [${'*b,'.repeat(9)}]\nd: &d [${'*c,'.repeat(9)}]\ne: &e [${'*d,'.repeat(9)}]\nf: [${'*e,'.repeat(9)}]`,
      /more than 65536 values/,
    ],
  };
  for (const [what, [manifest, message]] of Object.entries(cases))
    test(what, () => expect(refusal(manifest)).toMatch(message));
});

describe('the value of a variable is not in', () => {
  const canary = 'canary-4711';
  const manifest = manifestOf(
    'web',
    'a:1',
    { env: [{ key: 'PASSWORD', value: canary }] },
    { config: { token: canary } },
  );

  test('a masked manifest', () => {
    expect(maskedManifest(manifest)).not.toContain(canary);
    expect(maskedManifest(manifest)).toContain('PASSWORD');
  });

  test('a refusal', () => {
    for (const env of [
      { key: 'A', value: { secret: canary } },
      { key: 'A', value: canary, more: 1 },
      { value: canary },
    ])
      expect(refusal(manifestOf('web', 'a:1', { env: [env] }))).not.toContain(canary);
    expect(refusal(`${manifest}\n${canary}: [`)).not.toContain(canary);
  });
});
