import { decode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { changed, storedModel, storedSecret, storedVolumeMount } from '../../../testing/stored.ts';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../api/container/index.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import {
  beginSession,
  type Effect,
  type SessionEvent,
  type SessionTarget,
  step,
} from '../../sessions/rules/session.ts';
import { encodeFrame, FRAME_TYPES, type Frame } from '../../wire/frames.ts';
import { SECTIONS } from '../../wire/sections.ts';
import { makeClock, startWithNode } from '../_util.ts';
import { agentRoutes } from './table.ts';

/**
 * What agents of other makes are sent, as strictly as they read it: a member that is absent, null or of another type makes them
 * drop the whole message, without a word. Forms are those of version 3.7; later agents read more, each member with a default.
 */

type Check = (value: unknown) => string | undefined;
const be =
  (what: string, right: (value: unknown) => boolean): Check =>
  (value) =>
    right(value) ? undefined : `${JSON.stringify(value) ?? 'nothing'} instead of ${what}`;

const text = be('a text', (value) => typeof value === 'string');
const flag = be('true or false', (value) => typeof value === 'boolean');
const number = be('a number', Number.isFinite);
const whole = be('a whole number', Number.isSafeInteger);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined ? undefined : check(value);
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null ? undefined : check(value);
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) ? value.map(check).find((problem) => problem !== undefined) : 'no list';
const record =
  (members: Record<string, Check>): Check =>
  (value) => {
    if (value === null || typeof value !== 'object') return 'no object';
    for (const [name, check] of Object.entries(members)) {
      const problem = check((value as Record<string, unknown>)[name]);
      if (problem) return `${name}: ${problem}`;
    }
    return undefined;
  };
/** A text that is a JSON object. */
const jsonText: Check = (value) => {
  try {
    return record({})(JSON.parse(String(value)));
  } catch {
    return `${JSON.stringify(value)} instead of JSON as text`;
  }
};
const each = (names: readonly string[], check: Check) => Object.fromEntries(names.map((name) => [name, check]));

/** To agents before version 3.8 every other type is a directory of the machine. */
const MAPPING_TYPES: ReadonlySet<unknown> = new Set(['bind', 'volume', 'volumeMount']);

const MICROSERVICE = record({
  ...each(['uuid', 'imageId', 'name', 'application'], text),
  ...each(['rebuild', 'hostNetworkMode', 'isPrivileged', 'delete', 'deleteWithCleanup', 'deleteWithCleanUp'], flag),
  ...each(['isRouter', 'isNats', 'isBus', 'execEnabled'], flag),
  ...each(['registryId', 'schedule', 'logSize'], whole),
  ...each(['runAsUser', 'platform', 'runtime', 'pidMode', 'ipcMode', 'cpuSetCpus'], orNull(text)),
  config: jsonText,
  annotations: orNull(jsonText),
  portMappings: list(
    record({
      ...each(['internal', 'external', 'portInternal', 'portExternal'], whole),
      ...{ protocol: text, isUdp: flag },
    }),
  ),
  volumeMappings: list(
    record({
      ...each(['hostDestination', 'containerDestination', 'accessMode'], text),
      type: be('a type that all such agents know', (value) => MAPPING_TYPES.has(value)),
    }),
  ),
  env: list(record(each(['key', 'value'], text))),
  ...each(['cmd', 'commands', 'cdiDevices', 'capAdd', 'capDrop', 'extraHosts'], list(text)),
  healthCheck: orNull(
    record({
      test: list(text),
      ...each(['interval', 'timeout', 'startPeriod', 'startInterval', 'retries'], optional(whole)),
    }),
  ),
  memoryLimit: optional(orNull(whole)),
  // The agent makes the token and its mapping from it.
  serviceAccount: record({
    name: text,
    roleRef: record(each(['kind', 'name'], text)),
    rules: list(record(each(['apiGroups', 'resources', 'verbs'], list(text)))),
  }),
});

const CHANGES = record({ ...each(SECTIONS, flag), lastUpdated: text });
const ARTIFACT = record({
  ...each(['uuid', 'name', 'repo'], text),
  registryId: whole,
});
const TUNNEL_MEMBERS = {
  ...each(['username', 'password', 'host', 'rsaKey'], text),
  ...each(['remotePort', 'localPort'], whole),
  closed: flag,
};
const TUNNEL = record(TUNNEL_MEMBERS);
const NOTHING = be('nothing', (value) => value === undefined || value === '');
const EMPTY = record({});

/** The form of the response of each route; those with a body in the request have that body too. */
const RESPONSES: Record<string, { form: Check; body?: unknown; status?: number }> = {
  'GET /changes': { form: CHANGES },
  'GET /config/changes': { form: CHANGES },
  'PATCH /changes': { form: EMPTY, body: { lastUpdated: '' } },
  'PATCH /config/changes': { form: EMPTY, body: { lastUpdated: '' } },
  'GET /microservices': { form: record({ microservices: list(MICROSERVICE) }) },
  'GET /microservices/{uuid}': { form: MICROSERVICE },
  'GET /config': {
    form: record({
      ...each(['diskLimit', 'memoryLimit', 'cpuLimit', 'logLimit', 'latitude', 'longitude'], optional(number)),
      ...each(['logFileCount', 'statusFrequency', 'changeFrequency', 'edgeGuardFrequency'], optional(whole)),
      ...each(['gpsScanFrequency', 'pruningFrequency', 'availableDiskThreshold'], optional(whole)),
      ...each(['networkInterface', 'gpsMode', 'gpsDevice', 'logLevel', 'timeZone'], optional(text)),
      watchdogEnabled: optional(flag),
    }),
  },
  'GET /registries': {
    form: record({
      registries: list(
        record({ id: whole, isPublic: flag, ...each(['url', 'username', 'password', 'userEmail'], text) }),
      ),
    }),
  },
  'GET /runtimeClasses': { form: record({ runtimeClasses: list(record(each(['name', 'handler'], text))) }) },
  'GET /models': { form: record({ models: list(ARTIFACT) }) },
  'GET /knowledge': { form: record({ knowledge: list(ARTIFACT) }) },
  'GET /volumeMounts': {
    form: record({
      volumeMounts: list(record({ ...each(['uuid', 'name', 'type'], text), version: whole, data: record({}) })),
    }),
  },
  'GET /systemFiles': { form: record({ systemFiles: list(record({ name: text, files: list(record({})) })) }) },
  'GET /systemFiles/content': { form: record({ code: text, message: text, retryable: flag }), status: 400 },
  'GET /exec/sessions': {
    form: record({
      execSessions: list(record({ ...each(['sessionId', 'microserviceUuid', 'status'], text), agentConnected: flag })),
    }),
  },
  'GET /logs/sessions': {
    form: record({
      logSessions: list(
        record({
          ...{ sessionId: text, status: text, agentConnected: flag },
          ...each(['microserviceUuid', 'iofogUuid'], orNull(text)),
          tailConfig: record({ lines: whole, follow: flag, ...each(['since', 'until'], optional(text)) }),
        }),
      ),
    }),
  },
  'GET /version': {
    form: record({ versionCommand: text, provisionKey: text, expirationTime: whole, semver: optional(text) }),
  },
  'PUT /status': { form: NOTHING, body: { daemonStatus: 'RUNNING' }, status: 204 },
  'PATCH /config': { form: NOTHING, body: { logLevel: 'INFO' }, status: 204 },
  'PATCH /config/gps': { form: NOTHING, body: { latitude: 1.5, longitude: 2 }, status: 204 },
  'POST /tracking': { form: NOTHING, body: [], status: 204 },
  'GET /cert': { form: text },
  'POST /controller/register': { form: record({ code: text, message: text, retryable: flag }), body: {}, status: 403 },
  'GET /tunnel': { form: record({ tunnel: TUNNEL, ...TUNNEL_MEMBERS }) },
  'POST /provision': { form: record({ code: text, message: text, retryable: flag }), body: {}, status: 400 },
  // These two end the identity, so they come last.
  'POST /deprovision': { form: NOTHING, body: { microserviceUuids: [] }, status: 204 },
  'DELETE /delete-node': { form: record({ code: text, retryable: flag }), status: 401 },
};

/** Fields whose example needs another object, or excludes other fields; their members have defaults for all others. */
const ALONE: ReadonlySet<string> = new Set(['runtime', 'hostNetworkMode']);
const FIELDS = CONTAINER_FIELD_NAMES.filter((name) => !ALONE.has(name));
type Field = (typeof FIELDS)[number];

/** The examples of these container fields, with a port of its own for each entry. */
const examples = (names: readonly Field[], entry = 0): Record<string, unknown> => ({
  ...Object.fromEntries(names.map((name) => [name, fieldRow(name).example])),
  ...(names.includes('ports') && { ports: [{ internal: 80, external: 8000 + entry, protocol: 'udp' }] }),
});

/** A replica with a node that has something of every section, and entries with these container fields. */
async function startFull(entries: readonly Record<string, unknown>[]) {
  const setup = await startWithNode({
    caCert: () => 'cGVt',
    tunnel: {
      ...{ host: 'bastion.example', port: 2222, username: 'tunnel', localPort: 22, secretName: 'tunnels' },
      ports: { first: 2000, last: 2009 },
    },
    client: {
      delete: async () => {},
      find: async () => undefined,
      list: async () => ({ items: [], resourceVersion: '1' }),
    } as never,
    sessions: {
      isComplete: true,
      subscribe: () => ({ [Symbol.dispose]() {} }),
      lists: () => ({
        exec: [{ sessionId: 's', status: 'PENDING', agentConnected: false, microserviceUuid: 'm' }],
        logs: [
          {
            sessionId: 's',
            status: 'PENDING',
            agentConnected: false,
            microserviceUuid: 'm',
            iofogUuid: null,
            tailConfig,
          },
          {
            sessionId: 't',
            status: 'ACTIVE',
            agentConnected: true,
            microserviceUuid: null,
            iofogUuid: 'n',
            tailConfig,
          },
        ],
        digests: {},
      }),
    } as never,
  });
  const { replica, node, application } = setup;
  replica.stores.secrets.set(storedSecret('db', { password: 'hunter2' }, { labels: { 'skerry.dev/shared': 'true' } }));
  replica.stores.secrets.set(storedSecret('tunnels', { rsaKey: 'key', knownHosts: 'hosts' }));
  replica.stores.models.set(storedModel('llm'));
  replica.stores.volumeMounts.set(storedVolumeMount('certs', { secretName: 'db' } as never));
  replica.stores.nodes.set(
    changed(node, (copy) => {
      const { metadata, spec } = copy;
      copy.status = { observedGeneration: 1, tunnel: { remotePort: 2001, state: 'open' } };
      metadata.annotations = {
        [ANNOTATIONS.version]: '{"count":1,"command":"upgrade","semver":"1.2.3"}',
        [ANNOTATIONS.tunnel]: 'open',
      };
      Object.assign(spec, { logLevel: 'DEBUG', cpuLimit: 50, latitude: 1.25, longitude: 2.5, volumeMounts: ['certs'] });
    }),
  );
  replica.stores.applications.set(
    changed(application, ({ spec }) => {
      spec.microservices = entries.map((container, i) => ({
        name: `web-${i}`,
        agent: { name: 'edge-1' },
        images: { amd64: 'registry.example/web:1' },
        ...(i === 0 && { models: { bindPath: '/models', items: [{ name: 'llm' }] } }),
        container,
      })) as never;
    }),
  );
  return setup;
}
const tailConfig = { lines: 100, follow: false, since: '2026-01-01T00:00:00Z' };

test('each response to an agent of another make has all members that such agents need, with their types', async () => {
  const { replica, node, key } = await startFull([examples(FIELDS), {}]);
  const paths = agentRoutes(HANDLERS).map(({ method, path }) => `${method} ${path}`);
  expect(Object.keys(RESPONSES).sort()).toEqual(paths.sort());
  const { microservices } = (await replica.as(node, key, 'GET', '/microservices', { thirdParty: true })).body;
  expect(microservices).toHaveLength(2);
  for (const [route, { form, body, status = 200 }] of Object.entries(RESPONSES)) {
    const [method = '', path = ''] = route.split(' ');
    const to = path.replace('{uuid}', microservices[0].uuid);
    const answer = await replica.as(node, key, method, to, { thirdParty: true, ...(body !== undefined && { body }) });
    expect(answer.status, `${route} ${answer.text}`).toBe(status);
    expect(form(answer.body ?? answer.text), `${route} ${answer.text}`).toBeUndefined();
  }
});

test('a microservice has all members that agents of other makes need, whichever fields its entry has', async () => {
  const picks = fc.sample(fc.subarray([...FIELDS]), 60);
  const { replica, node, key } = await startFull(picks.map((names, entry) => examples(names, entry)));
  const { body } = await replica.as(node, key, 'GET', '/microservices', { thirdParty: true });
  expect(body.microservices).toHaveLength(picks.length);
  for (const one of body.microservices) expect(MICROSERVICE(one), JSON.stringify(one)).toBeUndefined();
});

/** Handlers for the table of routes alone. */
const HANDLERS = new Proxy({}, { get: () => new Proxy(() => {}, { get: () => () => {} }) }) as never;

describe('every frame to an agent of another make', () => {
  const TARGETS: readonly SessionTarget[] = [
    { kind: 'exec', node: 'n', microservice: 'm' },
    { kind: 'log', node: 'n', microservice: 'm', tail: { lines: 100, follow: true } },
    { kind: 'log', node: 'n', tail: { lines: 5, follow: false } },
  ];
  /** Members that such agents know: they do not pass over the value of any other. */
  const MEMBERS: Record<SessionTarget['kind'], Record<string, Check>> = {
    exec: { type: whole, data: isBytes, ...each(['sessionId', 'execId', 'microserviceUuid'], text), timestamp: whole },
    log: {
      type: whole,
      data: isBytes,
      ...each(['sessionId', 'microserviceUuid', 'iofogUuid'], text),
      timestamp: whole,
    },
  };
  /** What a user's client may send, fractions and members of other kinds of sessions included. */
  const frame: fc.Arbitrary<Frame> = fc.record(
    {
      type: fc.constantFrom(...Object.values(FRAME_TYPES)),
      data: fc.uint8Array({ maxLength: 8 }),
      ...{ sessionId: fc.string(), execId: fc.string(), microserviceUuid: fc.string(), iofogUuid: fc.string() },
      timestamp: fc.double({ min: 0, max: 2 ** 52, noNaN: true }),
      notice: fc.constant(true),
    },
    { requiredKeys: ['type', 'data'] },
  );
  const end = fc.constantFrom('user' as const, 'agent' as const);
  const event: fc.Arbitrary<SessionEvent> = fc.oneof(
    fc.record({ type: fc.constant('frame' as const), from: end, frame }),
    fc.constant({ type: 'joined' } as const),
    fc.record({ type: fc.constant('left' as const), end }),
    fc.record({ type: fc.constantFrom('full' as const, 'drained' as const), end }),
    fc.constant({ type: 'clock' } as const),
    fc.constant({ type: 'stop', code: 1008, reason: 'gone' } as const),
  );

  test('has members that it knows alone, none empty, and whole numbers', () => {
    const clock = makeClock();
    fc.assert(
      fc.property(fc.constantFrom(...TARGETS), fc.array(event, { maxLength: 20 }), (target, events) => {
        let at = { ms: 0.5, unixMs: clock.wall() };
        const begun = beginSession('s', target, at);
        let { session } = begun;
        for (const one of events) {
          at = { ms: at.ms + 1000.25, unixMs: at.unixMs + 1000 };
          const done = step(session, one, at);
          session = done.session;
          done.effects.forEach(checkSent);
        }
        begun.effects.forEach(checkSent);

        function checkSent(effect: Effect): void {
          if (effect.do !== 'send' || effect.to !== 'agent') return;
          const sent = decode(encodeFrame(effect.frame)) as Record<string, unknown>;
          for (const [name, value] of Object.entries(sent))
            expect(
              MEMBERS[target.kind][name]?.(value) ?? (name in MEMBERS[target.kind] ? undefined : 'unknown'),
              name,
            ).toBe(undefined);
          expect(sent).toMatchObject({ type: expect.any(Number), sessionId: 's', timestamp: expect.any(Number) });
        }
      }),
    );
  });
});

function isBytes(value: unknown): string | undefined {
  return value instanceof Uint8Array ? undefined : 'no bytes';
}
