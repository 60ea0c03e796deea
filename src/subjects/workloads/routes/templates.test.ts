import { describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { createRuleAuthorizer, createTokenTable } from '../../../rest/_rules.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { ROLE_NAMES, rulesOf } from '../../../rest/access/roles.ts';

/** May write everything and list nothing. */
const BLIND = rulesOf('developer').map((rule) => ({ ...rule, verbs: rule.verbs.filter((verb) => verb !== 'list') }));
/** May change application templates and create none. */
const EDITOR = [{ apiGroups: ['skerry.dev'], resources: ['applicationtemplates'], verbs: ['get', 'patch'] }];
const tokens = [...ROLE_NAMES, 'blind', 'editor'];
const deps = createMemoryDependencies({
  authenticator: createTokenTable(Object.fromEntries(tokens.map((name) => [name, { name, groups: [] }]))),
  authorizer: createRuleAuthorizer({
    ...Object.fromEntries(ROLE_NAMES.map((role) => [role, rulesOf(role)])),
    blind: BLIND,
    editor: EDITOR,
  }),
});

const client = await serveInMemory({ deps });
const admin = client.as('admin');
const created = await admin.post('/node', { json: { name: 'gw-1', archId: 1, host: '10.0.0.1' } });
expect(created.status).toBe(201);

const part = (more: object = {}) => ({
  name: 'reader',
  agentName: 'gw-1',
  images: [{ containerImage: 'x:1', archId: 1 }],
  ...more,
});
const stored = (name: string) => deps.applications.find('name', name)[0]?.spec;

describe('expressions in a body', () => {
  test('are replaced before it is read, with numbers as numbers', async () => {
    const ports = [{ internal: 80, external: '{{ self.microservices[0].ports[0].internal | plus: 8000 }}' }];
    const env = [{ key: 'HOST', value: '{{ "gw-1" | findAgent | map: "host" | first }}' }];
    const body = { name: 'bodies', description: '{{ self.name | upcase }}', microservices: [part({ ports, env })] };
    expect(await admin.post('/application', { json: body })).toMatchObject({ status: 201 });
    expect(stored('bodies')).toMatchObject({
      description: 'BODIES',
      microservices: [{ container: { ports: [{ external: 8080 }], env: [{ value: '10.0.0.1' }] } }],
    });
  });

  test('of a PATCH and of a PUT are replaced as well', async () => {
    await admin.post('/application', { json: { name: 'changes' } });
    await admin.patch('/application/changes', { json: { description: '{{ 1 | plus: 1 }} parts' } });
    expect(stored('changes')).toMatchObject({ description: '2 parts' });
    await admin.put('/application/changes', { json: { description: '{{ "b" | append: "c" }}' } });
    expect(stored('changes')).toMatchObject({ description: 'bc' });
  });

  test('of nodes, registries and microservices are replaced', async () => {
    expect((await admin.post('/node', { json: { name: 'gw-{{ 1 | plus: 1 }}', archId: '{{ 1 }}' } })).status).toBe(201);
    expect(deps.nodes.find('name', 'gw-2')).toHaveLength(1);
    expect((await admin.post('/registries', { json: { url: '{{ "r" }}.example' } })).status).toBe(201);
    expect(deps.registries.list().map(({ spec }) => spec.url)).toContain('r.example');
    await admin.post('/application', { json: { name: 'single' } });
    const json = part({ application: 'single', schedule: '{{ 10 | times: 2 }}' });
    expect((await admin.post('/microservices', { json })).status).toBe(201);
    expect(stored('single')?.microservices?.[0]).toMatchObject({ schedule: 20 });
  });

  test('of an uploaded file are replaced, self being the document', async () => {
    const yaml = `kind: Application
metadata: {name: files}
spec:
  description: "{{ self.kind }} {{ self.metadata.name }}"
  microservices: [{name: m, agent: {name: gw-1}, images: {amd64: "x:1"}, config: {rate: "{{ 5 }}"}}]`;
    expect((await admin.post('/application/yaml', { yaml })).status).toBe(201);
    expect(stored('files')).toMatchObject({
      description: 'Application files',
      microservices: [{ config: { rate: 5 } }],
    });
  });

  test.each([
    ['{{ missing }}', 400, 'EXPRESSION_FAILED', /^microservices\[0\]\.env\[0\]\.value: undefined variable: missing/],
    [
      '{{ "gw-9" | findAgent }}',
      400,
      'EXPRESSION_FAILED',
      /^microservices\[0\]\.env\[0\]\.value: there is no node "gw-9"/,
    ],
    ['{{ "x" | findApplication }}', 400, 'EXPRESSION_FAILED', /there is no application "x"/],
  ])('%s is %d %s, with the path of the field', async (value, status, code, message) => {
    const json = { name: 'fails', microservices: [part({ env: [{ key: 'A', value }] })] };
    const answer = await admin.post('/application', { json });
    expect(answer).toMatchObject({ status, body: { code, message: expect.stringMatching(message) } });
    expect(stored('fails')).toBeUndefined();
  });

  test('look up only what the caller may list', async () => {
    for (const value of [
      '{{ "gw-1" | findAgent }}',
      '{{ "bodies" | findApplication }}',
      '{{ "no" | findApplication }}',
    ]) {
      const json = { name: 'blind', description: value };
      expect(await admin.as('blind').post('/application', { json })).toMatchObject({
        status: 403,
        body: { code: 'FORBIDDEN', message: expect.stringMatching(/^description: blind may not list/) },
      });
    }
    expect(
      (await admin.as('blind').post('/application', { json: { name: 'seen', description: '{{ 1 }}!' } })).status,
    ).toBe(201);
  });

  test('are not evaluated for a caller who may not call the route', async () => {
    const json = { name: 'no', description: '{{ missing }}' };
    expect((await admin.as('viewer').post('/application', { json })).status).toBe(403);
  });

  test('are refused where a route does not render them', async () => {
    const { uuid } = (await admin.get('/microservices?application=bodies')).body.microservices[0];
    expect(await admin.patch(`/microservices/${uuid}/config`, { json: { a: '{{ 1 }}' } })).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('does not render') },
    });
  });

  test('never see the password of a registry', async () => {
    await admin.post('/registries', { json: { url: 'secret.example', username: 'ann', password: 'hunter2' } });
    const json = { name: 'thief', description: '{{ "bodies" | findApplication | toString | slice: 0, 900 }}' };
    expect((await admin.post('/application', { json })).status).toBe(201);
    expect(JSON.stringify(stored('thief'))).not.toContain('hunter2');
  });
});

describe('application templates', () => {
  const application = {
    description: 'made from a template',
    microservices: [
      part({
        agentName: '{{ node-name }}',
        ports: [{ internal: 80, external: '{{ port }}' }],
        env: [{ key: 'NAME', value: '{{ self.name }}' }],
        config: '{"rate":"{{ rate }}","of":"{{ self.name }}"}',
      }),
    ],
  };
  const variables = [
    { key: 'node-name' },
    { key: 'port', defaultValue: 8181 },
    { key: 'rate', defaultValue: '{{ 2 | plus: 3 }}' },
  ];

  test('take another name only for those who may create templates', async () => {
    const application = { microservices: [] };
    expect((await admin.post('/applicationTemplate', { json: { name: 'mine', application } })).status).toBe(201);
    const editor = admin.as('editor');
    expect((await editor.patch('/applicationTemplate/mine', { json: { description: 'x' } })).status).toBe(204);
    expect((await editor.patch('/applicationTemplate/mine', { json: { name: 'yours' } })).status).toBe(403);
    expect((await admin.patch('/applicationTemplate/mine', { json: { name: 'yours' } })).status).toBe(204);
    expect((await admin.delete('/applicationTemplate/yours')).status).toBe(204);
  });

  test('are created, listed, read, renamed, replaced and deleted; only their variables are rendered', async () => {
    const created = await admin.post('/applicationTemplate', { json: { name: 'line', variables, application } });
    expect(created).toMatchObject({ status: 201, body: { name: 'line', id: expect.any(Number) } });
    const read = await admin.get('/applicationTemplate/line');
    expect(read.body).toMatchObject({ id: created.body.id, name: 'line', description: '', application });
    expect(read.body.variables[2]).toEqual({ key: 'rate', defaultValue: 5 });
    expect((await admin.get('/applicationTemplates')).body.applicationTemplates).toHaveLength(1);
    expect((await admin.post('/applicationTemplate', { json: { name: 'line', application } })).status).toBe(409);
    expect((await admin.post('/applicationTemplate', { json: { name: 'none' } })).status).toBe(400);

    expect(
      (await admin.patch('/applicationTemplate/line', { json: { name: 'row', description: 'A row.' } })).status,
    ).toBe(204);
    expect((await admin.get('/applicationTemplate/line')).status).toBe(404);
    expect((await admin.get('/applicationTemplate/row')).body).toMatchObject({
      description: 'A row.',
      id: created.body.id,
    });
    expect(await admin.put('/applicationTemplate/row', { json: { application: { description: 'b' } } })).toMatchObject({
      status: 200,
      body: { id: created.body.id, name: 'row' },
    });
    expect((await admin.put('/applicationTemplate/new', { json: { application } })).status).toBe(200);
    expect((await admin.patch('/applicationTemplate/new', { json: { name: 'row' } })).status).toBe(409);
    expect((await admin.delete('/applicationTemplate/new')).status).toBe(204);
    expect((await admin.delete('/applicationTemplate/new')).status).toBe(404);
  });

  test('come from files as well, their body unrendered', async () => {
    const yaml = `kind: ApplicationTemplate
metadata: {name: filed}
spec:
  variables: [{key: node-name}, {key: rate, defaultValue: "{{ 1 }}"}]
  application: {microservices: [{name: m, agent: {name: "{{ node-name }}"}, images: {amd64: "x:1"}, config: {rate: "{{ rate }}"}}]}`;
    expect((await admin.post('/applicationTemplate/yaml', { yaml })).status).toBe(201);
    expect((await admin.put('/applicationTemplate/yaml/filed', { yaml })).status).toBe(200);
    expect((await admin.put('/applicationTemplate/yaml/other', { yaml })).status).toBe(400);
    expect((await admin.get('/applicationTemplate/filed')).body).toMatchObject({
      variables: [{ key: 'node-name' }, { defaultValue: 1 }],
      application: { microservices: [{ agent: { name: '{{ node-name }}' } }] },
    });
  });

  test('are instantiated several times with different variables, over JSON and from files', async () => {
    await admin.put('/applicationTemplate/line', { json: { variables, application } });
    const instance = (name: string, given: unknown, more = {}) =>
      admin.post('/application', { json: { name, template: { name: 'line', variables: given }, ...more } });
    expect((await instance('one', { 'node-name': 'gw-1' })).status).toBe(201);
    expect(
      (
        await instance('two', [
          { key: 'node-name', value: 'gw-1' },
          { key: 'port', value: 9090 },
        ])
      ).status,
    ).toBe(201);
    const yaml = `kind: Application
metadata: {name: three}
spec: {description: third, template: {name: line, variables: {node-name: gw-1, port: "{{ 7000 | plus: 1 }}", rate: fast}}}`;
    expect((await admin.post('/application/yaml', { yaml })).status).toBe(201);
    const shown = (name: string) => {
      const [entry] = stored(name)?.microservices ?? [];
      return [
        stored(name)?.description,
        entry?.container?.ports?.[0]?.external,
        entry?.container?.env?.[0]?.value,
        entry?.config,
      ];
    };
    expect(shown('one')).toEqual(['made from a template', 8181, 'one', { rate: 5, of: 'one' }]);
    expect(shown('two')).toEqual(['made from a template', 9090, 'two', { rate: 5, of: 'two' }]);
    expect(shown('three')).toEqual(['third', 7001, 'three', { rate: 'fast', of: 'three' }]);
    expect(stored('one')).not.toHaveProperty('template');
  });

  test('and their later changes do not touch what was made from them, until it is replaced', async () => {
    await admin.put('/applicationTemplate/line', {
      json: { variables, application: { ...application, description: 'later' } },
    });
    expect(stored('one')?.description).toBe('made from a template');
    await admin.put('/application/one', {
      json: { template: { name: 'line', variables: { 'node-name': 'gw-1', port: 8081 } } },
    });
    expect(stored('one')).toMatchObject({
      description: 'later',
      microservices: [{ container: { ports: [{ external: 8081 }] } }],
    });
  });

  test.each([
    ['a missing template', { name: 'nothing' }, 404, 'INVALID_APPLICATION_TEMPLATE_NAME', /nothing/],
    [
      'a variable without a value',
      { name: 'line' },
      400,
      'TEMPLATE_VARIABLE_MISSING',
      /template\.variables\.node-name: is required/,
    ],
    [
      'a port that is no number',
      { name: 'line', variables: { 'node-name': 'gw-1', port: 'x' } },
      400,
      'VALIDATION_ERROR',
      /external/,
    ],
    ['variables that are text', { name: 'line', variables: 'x' }, 400, 'VALIDATION_ERROR', /template\.variables/],
  ])('%s is refused', async (_, template, status, code, message) => {
    const answer = await admin.post('/application', { json: { name: 'refused', template } });
    expect(answer).toMatchObject({ status, body: { code, message: expect.stringMatching(message) } });
  });

  test('with an expression that fails name the template and the field', async () => {
    await admin.put('/applicationTemplate/broken', {
      json: { application: { microservices: [{ name: '{{ nobody }}' }] } },
    });
    expect(await admin.post('/application', { json: { name: 'refused', template: { name: 'broken' } } })).toMatchObject(
      {
        status: 400,
        body: { message: 'template: the template "broken": microservices[0].name: undefined variable: nobody' },
      },
    );
  });
});

describe('microservice templates', () => {
  const microservice = {
    name: 'is stripped',
    agentName: 'is stripped',
    container: { env: [{ key: 'LOG', value: '{{ level }}' }], hostNetworkMode: '{{ host }}' },
    config: { of: '{{ self.application }}/{{ self.name }}' },
    schedule: 7,
  };
  const base = {
    name: 'base',
    variables: [
      { key: 'level', defaultValue: 'warn' },
      { key: 'host', defaultValue: true },
    ],
    microservice,
  };

  test('are created, listed, read, changed and deleted', async () => {
    expect(await admin.post('/microserviceTemplates', { json: base })).toMatchObject({
      status: 200,
      body: { name: 'base' },
    });
    expect((await admin.get('/microserviceTemplates/base')).body.microservice).not.toHaveProperty('name');
    expect((await admin.get('/microserviceTemplates')).body.microserviceTemplates).toHaveLength(1);
    expect((await admin.post('/microserviceTemplates', { json: { ...base, other: 1 } })).status).toBe(400);
    expect((await admin.post('/microserviceTemplates', { json: { ...base, name: 'Not a label' } })).status).toBe(400);
    expect((await admin.patch('/microserviceTemplates/base', { json: { description: 'b' } })).body).toMatchObject({
      description: 'b',
    });
    const yaml = `apiVersion: skerry.dev/v3
kind: MicroserviceTemplate
metadata: {name: filed}
spec: {microservice: {container: {env: [{key: A, value: "{{ a }}"}]}}, variables: [{key: a}]}`;
    expect((await admin.post('/microserviceTemplates/yaml', { yaml })).status).toBe(200);
    expect((await admin.put('/microserviceTemplates/yaml/filed', { yaml })).status).toBe(200);
    expect(await admin.delete('/microserviceTemplates/filed')).toMatchObject({ status: 202, body: {} });
  });

  test('overlay a microservice: what they have wins but for name, application and node', async () => {
    await admin.post('/application', { json: { name: 'overlaid' } });
    const json = part({
      application: 'overlaid',
      schedule: 50,
      env: [{ key: 'OWN', value: 'a' }],
      cmd: ['run'],
      template: { name: 'base', variables: { level: 'info' } },
    });
    expect((await admin.post('/microservices', { json })).status).toBe(201);
    expect(stored('overlaid')?.microservices).toEqual([
      {
        name: 'reader',
        agent: { name: 'gw-1' },
        images: { amd64: 'x:1' },
        schedule: 7,
        config: { of: 'overlaid/reader' },
        container: { commands: ['run'], env: [{ key: 'LOG', value: 'info' }], hostNetworkMode: true },
      },
    ]);
  });

  test('apply in the same way to files, to entries of applications and to changes', async () => {
    const yaml = `kind: Microservice
metadata: {name: overlaid/writer}
spec: {agent: {name: gw-1}, images: {amd64: "x:1"}, template: {name: base}}`;
    expect((await admin.post('/microservices/yaml', { yaml })).status).toBe(201);
    expect(stored('overlaid')?.microservices?.[1]).toMatchObject({
      name: 'writer',
      container: { env: [{ value: 'warn' }] },
    });
    const microservices = [part({ template: { name: 'base' } })];
    expect((await admin.post('/application', { json: { name: 'entries', microservices } })).status).toBe(201);
    expect(stored('entries')?.microservices?.[0]).toMatchObject({
      config: { of: 'entries/reader' },
      container: { hostNetworkMode: true },
    });
    const { uuid } = (await admin.get('/microservices?application=entries')).body.microservices[0];
    await admin.patch(`/microservices/${uuid}`, {
      json: { template: { name: 'base', variables: { level: 'debug' } } },
    });
    expect(stored('entries')?.microservices?.[0]).toMatchObject({ container: { env: [{ value: 'debug' }] } });
    expect(stored('entries')?.microservices?.[0]).not.toHaveProperty('template');
  });

  test('that do not exist or do not fit are refused, with the field', async () => {
    const json = (template: object) => ({ json: part({ name: 'bad', application: 'overlaid', template }) });
    expect(await admin.post('/microservices', json({ name: 'nothing' }))).toMatchObject({
      status: 404,
      body: { code: 'MICROSERVICE_TEMPLATE_NOT_FOUND' },
    });
    expect(await admin.post('/microservices', json({ name: 'base', variables: { host: 'x' } }))).toMatchObject({
      status: 400,
      body: { code: 'MICROSERVICE_TEMPLATE_INVALID', message: expect.stringMatching(/"base".*hostNetworkMode/) },
    });
  });

  test('are not readable through an instance by a caller who may not get them', async () => {
    const noTemplates = rulesOf('developer').map((rule) => ({
      ...rule,
      resources: rule.resources.filter((resource) => !resource.includes('template')),
    }));
    const closed = createMemoryDependencies({
      authorizer: createRuleAuthorizer({ admin: rulesOf('admin'), developer: noTemplates }),
    });
    const client = (await serveInMemory({ deps: closed })).as('admin');
    await client.post('/applicationTemplate', { json: { name: 'line', application: { description: 'secret' } } });
    const json = { name: 'thief', template: { name: 'line' } };
    expect((await client.as('developer').post('/application', { json })).status).toBe(403);
    expect((await client.post('/application', { json })).status).toBe(201);
  });
});
