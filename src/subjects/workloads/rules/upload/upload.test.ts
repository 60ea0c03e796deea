import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../../../api/container/index.ts';
import type { Application } from '../../../../api/v3/index.ts';
import { applicationSpecSchema, type MicroserviceEntry } from '../../../../api/v3/index.ts';
import { readDocument } from '../../../../rules/document.ts';
import { DomainError } from '../../../../rules/errors.ts';
import { normalEntry } from '../../../../rules/normal-entry.ts';
import { validateSpec } from '../../../../rules/validate.ts';
import { makeApplication, makeEntry } from '../../_make.ts';
import { readMicroserviceUpload } from '../entry/document.ts';
import { entryFromFlat, flatFromEntry } from '../entry/flat.ts';
import { patchApplication, readApplicationBody, readApplicationUpload } from './application.ts';

function failure(act: () => unknown): DomainError {
  try {
    act();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

/** A file as existing v3 clients send it. */
const V3 = `
kind: Application
metadata: {name: plant-a}
spec:
  description: two containers
  busConfig: {busAccess: true}
  microservices:
    - name: reader
      agent: {name: gw-1}
      images: {amd64: reg.example/reader:2, arm64: reg.example/reader:2, registry: remote}
      container: {ports: [{internal: 80, external: 8080}], env: [{key: MODE, value: fast}]}
      config: {rate: 5}
`;

describe('readApplicationUpload', () => {
  it('reads the form of the v3 files', () => {
    expect(readApplicationUpload(parse(V3))).toMatchObject({
      name: 'plant-a',
      spec: {
        description: 'two containers',
        isActivated: true,
        busConfig: { busAccess: true },
        microservices: [
          {
            name: 'reader',
            agent: { name: 'gw-1' },
            images: { amd64: 'reg.example/reader:2', registry: 'remote' },
            config: { rate: 5 },
            container: { ports: [{ internal: 80, external: 8080 }] },
          },
        ],
      },
      rebuild: [],
      hasMicroservices: true,
      hasIsActivated: false,
    });
  });

  it('gives the same result for the form of kubectl', () => {
    const kubectl = { apiVersion: 'skerry.dev/v3', ...(parse(V3) as object) };
    expect(readApplicationUpload(kubectl)).toEqual(readApplicationUpload(parse(V3)));
    expect(readApplicationUpload({ ...kubectl, apiVersion: 'iofog.org/v3' })).toEqual(readApplicationUpload(kubectl));
  });

  it('unknown fields of the application are dropped', () => {
    expect(readApplicationUpload(spec({ routes: [] })).spec).toEqual({ isActivated: true });
    expect(readApplicationBody({ name: 'a', routes: [] }).spec).toEqual({ isActivated: true });
  });

  it('keeps the template that it names, and drops an empty one', () => {
    const template = { name: 'line', variables: { rate: 5 } };
    expect(readApplicationUpload(spec({ template })).spec).toEqual({ isActivated: true, template });
    for (const empty of [null, '', {}])
      expect(readApplicationUpload(spec({ template: empty })).spec).toEqual({ isActivated: true });
  });

  it('refuses a template that is no reference', () => {
    const refused = (template: unknown) => failure(() => readApplicationUpload(spec({ template }))).message;
    expect(refused({ variables: {} })).toBe('spec.template.name: is required');
    expect(refused({ name: 'line', variables: 5 })).toBe('spec.template.variables: must be an object');
  });

  it('takes a v3 name that is not a legal object name from spec.name', () => {
    const document = { kind: 'Application', metadata: { name: 'x-1' }, spec: { name: 'plant-b' } };
    expect(readApplicationUpload(document)).toMatchObject({ name: 'plant-b' });
    expect(readApplicationUpload(document).spec).not.toHaveProperty('name');
  });

  const spec = (value: object) => ({ kind: 'Application', metadata: { name: 'a' }, spec: value });
  const entry = (value: object) => spec({ microservices: [{ name: 'm', ...value }] });
  const read = (document: object) => readApplicationUpload(document).spec.microservices?.[0] as MicroserviceEntry;

  const TOLERATED: Record<string, [object, object]> = {
    'unknown fields are dropped': [
      { msRoutes: {}, container: { foo: 1 } },
      { name: 'm', container: {} },
    ],
    'x86 stays as it is written': [{ images: { x86: 'a:1' } }, { images: { x86: 'a:1' } }],
    'commands precede cmd': [{ container: { commands: ['a'], cmd: ['b'] } }, { container: { commands: ['a'] } }],
    'numbers are accepted as text': [
      { container: { env: [{ key: 'A', value: 5 }], annotations: { a: true } } },
      { container: { env: [{ key: 'A', value: '5' }], annotations: { a: 'true' } } },
    ],
    'empty text is absent': [
      {
        agent: { name: 'gw', uuid: '' },
        images: { amd64: 'a', arm64: '' },
        container: { workingDir: '', runAsUser: '' },
      },
      { agent: { name: 'gw' }, images: { amd64: 'a' }, container: {} },
    ],
    'an empty template is absent': [{ template: [] }, { name: 'm' }],
    'an agent with an empty name is absent': [{ agent: { name: '' } }, { name: 'm' }],
    'a scope in capital letters': [
      {
        container: {
          volumes: [
            { type: 'volume', hostDestination: 'a', containerDestination: '/a', accessMode: 'rw', scope: 'SHARED' },
          ],
        },
      },
      { container: { volumes: [{ scope: 'shared' }] } },
    ],
    'bindings of the service account are dropped': [
      {
        container: {
          volumes: [{ type: 'serviceAccount', hostDestination: 'a', containerDestination: '/a', accessMode: 'ro' }],
        },
      },
      { container: { volumes: [] } },
    ],
    'nulls are absent': [{ config: null, container: { pidMode: null, env: null } }, { container: {} }],
  };
  it.each(Object.entries(TOLERATED))('%s', (_, [value, want]) => expect(read(entry(value))).toMatchObject(want));

  const REFUSED: Record<string, [unknown, string | undefined, RegExp]> = {
    nothing: [null, undefined, /one YAML object of kind Application/],
    'another kind': [{ ...spec({}), kind: 'Microservice' }, 'kind', /"Microservice"; must be Application/],
    'a document without a kind': [{ metadata: { name: 'a' }, spec: {} }, 'kind', /absent/],
    'a document without metadata': [{ kind: 'Application', spec: {} }, 'metadata', /required/],
    'a document without a name': [{ kind: 'Application', metadata: {}, spec: {} }, 'metadata.name', /required/],
    'a document without a spec': [{ kind: 'Application', metadata: { name: 'a' } }, 'spec', /required/],
    'a name with capitals': [{ ...spec({}), metadata: { name: 'Plant A' } }, 'spec.name', /"Plant A".*lower-case/],
    isSystem: [spec({ isSystem: true }), 'spec.isSystem', /cannot be set/],
    'microservices that are not a list': [spec({ microservices: {} }), 'spec.microservices', /list/],
    'a microservice that is not an object': [spec({ microservices: ['m'] }), 'spec.microservices[0]', /object/],
    'a microservice without a name': [spec({ microservices: [{}] }), 'spec.microservices[0].name', /required/],
    'one name twice': [
      spec({ microservices: [{ name: 'm' }, { name: 'm' }] }),
      'spec.microservices[1]',
      /duplicate.*name "m"/,
    ],
    'images for x86 and amd64': [
      entry({ images: { x86: 'a', amd64: 'b' } }),
      'spec.microservices[0].images',
      /two spellings/,
    ],
    'busConfig together with busEnabled': [
      entry({ busConfig: { busAccess: true }, busEnabled: true }),
      'spec.microservices[0]',
      /two spellings/,
    ],
    'external port 0': [
      entry({ container: { ports: [{ internal: 80, external: 0 }] } }),
      'spec.microservices[0].container.ports[0].external',
      /0 is not valid: must be at least 1/,
    ],
    'an unknown protocol': [
      entry({ container: { ports: [{ internal: 80, external: 80, protocol: 'sctp' }] } }),
      'spec.microservices[0].container.ports[0].protocol',
      /"sctp".*tcp, udp/,
    ],
    'both ways to name a node': [
      entry({ agent: { name: 'a', uuid: '11111111-1111-4111-8111-111111111111' } }),
      'spec.microservices[0].agent',
      /exactly one/,
    ],
    'a schedule that is text': [entry({ schedule: 'first' }), 'spec.microservices[0].schedule', /"first".*an integer/],
  };
  it.each(Object.entries(REFUSED))('refuses %s', (_, [document, field, message]) => {
    const error = failure(() => readApplicationUpload(document));
    expect(error).toMatchObject({ status: 400, field });
    expect(error.message).toMatch(message);
  });

  it('refuses another name than the one in the path', () => {
    expect(failure(() => readApplicationUpload(parse(V3), { path: 'plant-b' })).message).toMatch(/"plant-b"/);
    expect(() => readApplicationUpload(parse(V3), { path: 'plant-a' })).not.toThrow();
  });

  it('fields of the document are distinguished from defaults', () => {
    const document = spec({
      isActivated: false,
      microservices: [{ name: 'a', isActivated: true, rebuild: true }, { name: 'b' }],
    });
    expect(readApplicationUpload(document)).toMatchObject({
      hasIsActivated: true,
      saysActivated: ['a'],
      rebuild: ['a'],
      spec: { isActivated: false },
    });
    expect(readApplicationUpload(spec({}))).toMatchObject({ hasMicroservices: false, hasIsActivated: false });
  });

  it('any document gives an application or a DomainError', () => {
    const anything = fc.record({
      kind: fc.constant('Application'),
      metadata: fc.constant({ name: 'a' }),
      spec: fc.dictionary(
        fc.constantFrom('microservices', 'busConfig', 'description', 'isActivated', 'id', 'uuid'),
        fc.oneof(
          fc.anything(),
          fc.array(fc.dictionary(fc.constantFrom('name', 'container', 'agent', 'images', 'models'), fc.anything())),
        ),
      ),
    });
    fc.assert(
      fc.property(anything, (document) => {
        try {
          readApplicationUpload(document);
        } catch (error) {
          if (!(error instanceof DomainError)) throw error;
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('readApplicationBody', () => {
  const images = [{ containerImage: 'a:1', archId: 1 }];

  it('reads microservices in the flat form', () => {
    const body = { name: 'plant-a', microservices: [{ name: 'm', agentName: 'gw-1', images, rebuild: true }] };
    expect(readApplicationBody(body)).toMatchObject({
      name: 'plant-a',
      spec: { microservices: [{ name: 'm', agent: { name: 'gw-1' }, images: { amd64: 'a:1' } }] },
      rebuild: ['m'],
    });
  });

  it('refuses a list that is too long before it reads an item', () => {
    let looks = 0;
    const item = new Proxy({}, { get: () => void looks++, ownKeys: () => [String(looks++)] });
    const error = failure(() => readApplicationBody({ name: 'plant-a', microservices: Array(129).fill(item) }));
    expect(error.message).toBe('microservices: must have at most 128 items');
    expect(looks).toBe(0);
    const ports = { name: 'm', images, ports: Array(65).fill({}) };
    expect(failure(() => readApplicationBody({ name: 'plant-a', microservices: [ports] })).message).toMatch(
      /ports: must have at most 64 items/,
    );
  });

  it('takes the name from the path when the body has none', () => {
    expect(readApplicationBody({}, { path: 'plant-a' }).name).toBe('plant-a');
    expect(failure(() => readApplicationBody({}))).toMatchObject({ field: 'name' });
  });

  it('refuses another name than the one in the path', () => {
    expect(failure(() => readApplicationBody({ name: 'b' }, { path: 'a' }))).toMatchObject({
      status: 400,
      field: 'name',
    });
  });

  it('names fields of microservices in errors as the body spells them', () => {
    const body = { name: 'a', microservices: [{ name: 'm', images, ports: [{ internal: 1, external: 70000 }] }] };
    const error = failure(() => readApplicationBody(body));
    expect(error.field).toBe('microservices[0].ports[0].external');
    expect(error.message).toBe('microservices[0].ports[0].external: 70000 is not valid: must be at most 65535');
  });

  it('ignores uuid and id, which the controller assigns', () => {
    const { spec } = readApplicationBody({ name: 'a', uuid: 'x', id: 5 });
    expect(spec).not.toHaveProperty('uuid');
    expect(spec).not.toHaveProperty('id');
  });

  it('accepts a read as a body', () => {
    const application = makeApplication({ entries: [makeEntry({ config: { a: 1 } })] });
    const microservices = application.spec.microservices?.map((entry) => ({
      ...flatFromEntry(entry),
      status: {},
      execStatus: {},
    }));
    const body = {
      name: 'plant-a',
      id: 3,
      isSystem: false,
      busConfig: { busAccess: false, busRule: null },
      microservices,
    };
    expect(readApplicationBody(body).spec.microservices?.map(normalEntry)).toEqual(
      application.spec.microservices?.map(normalEntry),
    );
  });
});

const stored = (spec: Application['spec']) => ({ ...makeApplication({ name: 'plant-a' }), spec });

describe('patchApplication', () => {
  const { spec } = makeApplication({ spec: { description: 'old', busConfig: { busAccess: true } } });
  const CASES: Record<string, [object, object]> = {
    'absent fields stay': [{}, spec],
    'a description replaces the stored one': [{ description: 'new' }, { ...spec, description: 'new' }],
    stop: [{ isActivated: false }, { ...spec, isActivated: false }],
    'busConfig replaces the stored one': [{ busConfig: { busRule: 'r' } }, { ...spec, busConfig: { busRule: 'r' } }],
    'microservices are ignored': [{ microservices: [] }, spec],
    'the same name is accepted': [{ name: 'plant-a' }, spec],
    'the present isSystem is accepted': [{ isSystem: false }, spec],
  };
  it.each(Object.entries(CASES))('%s', (_, [body, want]) => expect(patchApplication(stored(spec), body)).toEqual(want));

  it('null removes a field', () => {
    expect(patchApplication(stored(spec), { description: null, busConfig: null })).not.toHaveProperty('busConfig');
  });
  it('refuses another name, uuid or id, and isSystem', () => {
    expect(failure(() => patchApplication(stored(spec), { name: 'b' }))).toMatchObject({ field: 'name' });
    expect(failure(() => patchApplication(stored(spec), { isSystem: true }))).toMatchObject({ field: 'isSystem' });
    const system = { ...spec, isSystem: true };
    const identified = stored({ ...spec, uuid: '11111111-2222-4333-8444-555555555555', id: 7 });
    expect(failure(() => patchApplication(identified, { uuid: '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6' }))).toMatchObject(
      { field: 'uuid' },
    );
    expect(failure(() => patchApplication(identified, { id: 4711 }))).toMatchObject({ field: 'id' });
    const { uuid, id } = identified.spec;
    expect(patchApplication(identified, { uuid, id })).toEqual(identified.spec);
    expect(failure(() => patchApplication(stored(system), { isSystem: false }))).toMatchObject({
      field: 'isSystem',
    });
  });
  it('refuses an isActivated that is not a boolean', () => {
    expect(failure(() => patchApplication(stored(spec), { isActivated: 'no' }))).toMatchObject({
      field: 'isActivated',
    });
  });
});

describe('readMicroserviceUpload', () => {
  const document = (name: string, spec: object = {}) => ({
    kind: 'Microservice',
    metadata: { name },
    spec: { agent: { name: 'gw-1' }, images: { amd64: 'a:1' }, ...spec },
  });

  const NAMES: Record<string, [object, { name: string; application?: string }]> = {
    'a plain name is that of the entry': [document('writer'), { name: 'writer' }],
    'application/name has both names': [document('plant-a/writer'), { name: 'writer', application: 'plant-a' }],
    'spec.application is the application': [
      document('writer', { application: 'plant-a' }),
      { name: 'writer', application: 'plant-a' },
    ],
    'both forms with the same application are accepted': [
      document('plant-a/writer', { application: 'plant-a' }),
      { name: 'writer', application: 'plant-a' },
    ],
  };
  it.each(Object.entries(NAMES))('%s', (_, [given, { name, application }]) => {
    const upload = readMicroserviceUpload(given);
    expect(upload.entry.name).toBe(name);
    expect(upload.application).toBe(application);
  });

  const REFUSED: Record<string, [object, Parameters<typeof readMicroserviceUpload>[1], string]> = {
    'two different applications': [document('a/m', { application: 'b' }), {}, 'spec.application'],
    'a name of three parts': [document('a/b/c'), {}, 'metadata.name'],
    'a name with an empty part': [document('a/'), {}, 'metadata.name'],
    'another name than the entry has': [document('m'), { name: 'n' }, 'metadata.name'],
    'another application than the entry is in': [document('a/m'), { name: 'm', application: 'b' }, 'spec.application'],
    'a name with capitals': [document('M'), {}, 'spec.name'],
    'another kind': [{ ...document('m'), kind: 'Application' }, {}, 'kind'],
  };
  it.each(Object.entries(REFUSED))('refuses %s', (_, [given, options, field]) => {
    expect(failure(() => readMicroserviceUpload(given, options))).toMatchObject({ status: 400, field });
  });

  it('every field of an entry is kept', () => {
    const entry = makeEntry({ schedule: 3, config: { a: 1 }, container: { cmd: ['x'] }, busEnabled: true });
    const { name, ...spec } = entry;
    expect(readMicroserviceUpload({ kind: 'Microservice', metadata: { name }, spec }).entry).toEqual(entry);
  });
});

describe('the flat form and a YAML document', () => {
  const SENT: Record<string, [string, unknown][]> = {
    ...Object.fromEntries(CONTAINER_FIELD_NAMES.map((field) => [field, [[field, fieldRow(field).example]]])),
    'annotations that are numbers or null': [['annotations', { a: 1, b: true, c: null }]],
    'a variable that is a number': [['env', [{ key: 'A', value: 5 }]]],
    'a variable with empty text and a reference': [
      ['env', [{ key: 'A', value: '', valueFromSecret: 'db/p', valueFromConfigMap: '' }]],
    ],
    'items that send every member': [
      ['tmpfs', [{ containerPath: '/tmp', mode: '', size: null }]],
      ['extraHosts', [{ name: 'a', address: '10.0.0.1', value: '10.0.0.1' }]],
      ['healthCheck', { test: ['NONE'], interval: null }],
    ],
    'a scope in capital letters': [
      [
        'volumes',
        [{ type: 'volume', hostDestination: 'a', containerDestination: '/a', accessMode: 'rw', scope: 'SHARED' }],
      ],
    ],
    'the older spelling of commands': [['cmd', ['a']]],
  };
  it.each(Object.entries(SENT))('give the same entry: %s', (_, fields) => {
    // memorySwap needs memoryLimit
    const limit = fields[0]?.[0] === 'memorySwap' ? { memoryLimit: 1 } : {};
    const container = { ...Object.fromEntries(fields), ...limit };
    const { volumes, ...flat } = container as Record<string, unknown>;
    const images = [{ containerImage: 'a:1', archId: 1 }];
    const body = { name: 'm', images, ...flat, ...(volumes !== undefined && { volumeMappings: volumes }) };
    const [entry] =
      readApplicationUpload({
        kind: 'Application',
        metadata: { name: 'a' },
        spec: { microservices: [{ name: 'm', images: { amd64: 'a:1' }, container }] },
      }).spec.microservices ?? [];
    expect(normalEntry(entry as MicroserviceEntry)).toEqual(normalEntry(entryFromFlat(body).entry));
    expect(Object.keys(entry?.container ?? {})).not.toEqual([]);
  });
});

describe('validateSpec', () => {
  it('unknown fields are refused unless the reader is tolerant', () => {
    expect(failure(() => validateSpec(applicationSpecSchema, { foo: 1 })).message).toMatch(/unknown field "foo"/);
    expect(validateSpec(applicationSpecSchema, { foo: 1 }, { tolerant: true })).toEqual({ isActivated: true });
  });
  it('a refusal begins with the path of the field', () => {
    const error = failure(() => validateSpec(applicationSpecSchema, { isActivated: 'x' }, { path: 'spec' }));
    expect(error.message).toBe('spec.isActivated: "x" is not valid: must be true or false');
  });
  it('a refusal shortens long values', () => {
    const error = failure(() => validateSpec(applicationSpecSchema, { uuid: 'x'.repeat(500) }));
    expect(error.message.length).toBeLessThan(250);
  });
  it('null is absent', () =>
    expect(validateSpec(applicationSpecSchema, { description: null })).toEqual({ isActivated: true }));
});

describe('readDocument', () => {
  it('checks apiVersion only for kinds that have their own', () => {
    const document = { apiVersion: 'apps/v1', kind: 'Model', metadata: { name: 'a' }, spec: {} };
    expect(() => readDocument(document, 'Model')).not.toThrow();
    expect(failure(() => readDocument(document, 'Model', { apiVersions: ['skerry.dev/v3'] }))).toMatchObject({
      field: 'apiVersion',
    });
  });
});

describe('a refusal', () => {
  const big = { secret: 'hunter2' };
  it.each<[string, () => unknown, RegExp]>([
    ['of an object as kind', () => readApplicationUpload({ kind: big }), /^kind: an object; must be Application$/],
    [
      'of an object as name',
      () => patchApplication(stored({ isActivated: true }), { name: big }),
      /^name: an object; is immutable and is "plant-a"$/,
    ],
    [
      'of an unknown field',
      () => validateSpec(applicationSpecSchema, { microservices: [{ name: 'web', ...big }] }),
      /^microservices\[0\]: unknown field "secret"$/,
    ],
  ])('%s names the field and does not contain the object', (_, act, message) => {
    expect(failure(act).message).toMatch(message);
  });
});

describe('a refused text', () => {
  const messageOf = (text: string) =>
    failure(() => validateSpec(z.object({ schedule: z.number() }), { schedule: text })).message;

  it('is cut before it is looked at, so that a megabyte of it costs no more than a line', () => {
    const { user } = process.cpuUsage();
    for (const letter of [':', '/', '/:', '@', 'a', '"', '\\'])
      expect(messageOf(letter.repeat(2 ** 20)).length).toBeLessThan(200);
    // A few ms; an expression with two ways to match a colon takes minutes.
    expect(process.cpuUsage().user - user).toBeLessThan(2_000_000);
  });

  it('is shown without the user and password of its URL, also when it is cut between these and the "@"', () => {
    for (const text of [
      'https://u:hunter2@h/x',
      'u:hunter2@h',
      `https://u:hunter2${'x'.repeat(2000)}@h`,
      `http://h//u:hunter2@h`,
    ])
      expect(messageOf(text)).not.toContain('hunter2');
    expect(messageOf('https://host:8080/x')).toBe('schedule: "https://host:8080/x" is not valid: must be a number');
  });

  it('that is the name of an unknown field is cut too', () => {
    const unknown = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${i}${'k'.repeat(5000)}`, 1]));
    expect(failure(() => validateSpec(z.strictObject({}), unknown)).message.length).toBeLessThan(1000);
  });
});
