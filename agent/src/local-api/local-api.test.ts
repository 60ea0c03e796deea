import { randomUUID } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { plainView } from '../_web.ts';
import type { Agent } from '../app.ts';
import { EngineError } from '../engine-port/error.ts';
import { until } from '../engines/_contract.ts';
import { MEMORY_IMAGE_BYTES, type MemoryEngine } from '../engines/memory/_engine.ts';
import type { FakeController, View } from '../link/_fake-controller.ts';
import { exchange } from '../machine/http.ts';
import { newKey } from '../state/identity.ts';
import { signingKey, signToken } from '../state/token.ts';
import { LocalAgent } from './_local-agent.ts';
import { AGENT_METRICS } from './routes/probes/metrics.ts';

/** The local API and the command line that uses it, with an engine in memory. */

let local: LocalAgent;
let agent: Agent;
let engine: MemoryEngine;
let controller: FakeController;
const uuid = randomUUID();

beforeEach(async () => {
  local = await LocalAgent.start();
  ({ agent, engine, controller } = local);
  return () => local[Symbol.asyncDispose]();
});

const ask: LocalAgent['ask'] = (...args) => local.ask(...args);
const cli: LocalAgent['cli'] = (...args) => local.cli(...args);

async function provision(): Promise<void> {
  expect((await ask('POST', '/v1/system/provision', { provisioningKey: controller.joinString })).status).toBe(200);
}

async function running(): Promise<void> {
  const env = [
    { key: 'PLAIN', value: 'seen' },
    { key: 'PASSWORD', value: 'hidden', secret: true },
  ];
  controller.microservices = [plainView({ uuid, env })];
  await provision();
  await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING');
}

describe('access to the local API', () => {
  test('only the owner can read the socket and the token file', () => {
    expect(statSync(local.config.socket).mode & 0o777).toBe(0o600);
    expect(statSync(local.config.tokenFile).mode & 0o777).toBe(0o600);
  });

  const claims = {
    sub: 'system:agentadmin:bootstrap',
    iss: 'https://skerry-agent.default.svc.bridge.local',
    aud: ['skerry-agent://api/v1'],
    tokenUse: 'agentapi',
  };
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const now = Math.floor(Date.now() / 1000);
  const callers: Record<string, () => string> = {
    'without a token': () => '',
    'with an unsigned token': () => `${encode({ alg: 'none' })}.${encode({ ...claims, exp: now + 60 })}.`,
    'with a token of another key': () => signToken(signingKey(newKey()), claims, now, 60),
    'with a token for another use': () =>
      signToken(signingKey(agent.identity.localKey), { ...claims, tokenUse: 'controller' }, now, 60),
    'with a token of an unknown subject': () =>
      signToken(signingKey(agent.identity.localKey), { ...claims, sub: 'someone' }, now, 60),
    'with an expired token': () => signToken(signingKey(agent.identity.localKey), claims, now - 120, 60),
  };
  for (const [name, make] of Object.entries(callers))
    test(`a request ${name} gets 401`, async () => {
      const { status, body } = await ask('GET', '/v1/system/status', undefined, make());
      expect([status, body.success, body.error?.code]).toEqual([401, false, 'UNAUTHORIZED']);
    });

  test('over TCP only probes and metrics are served', async () => {
    const { port } = local;
    const get = (path: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${local.token}` } });
    for (const path of ['/health/live', '/v1/health/live', '/metrics', '/v1/metrics'])
      expect((await get(path)).status).toBe(200);
    expect((await get('/v1/system/status')).status).toBe(403);
    expect((await fetch(`http://127.0.0.1:${port}/v1/system/status`)).status).toBe(401);
    const page = await (await get('/metrics')).text();
    for (const { name, type } of Object.values(AGENT_METRICS)) expect(page).toContain(`# TYPE ${name} ${type}\n`);
    expect(page).toContain('edge_agent_provisioned 0\n');
    expect(page).toMatch(/edge_agent_controller_connection\{state="NOT_PROVISIONED"\} 1\n/);
  });
});

describe('a request to read the settings again', () => {
  const good = () => readFileSync(local.configFile, 'utf8');

  test.each([
    ['statusFrequency: 0', /config\.yaml: statusFrequency 0: must be at least 1$/, 5],
    ['logLevel: LOUD', /config\.yaml: logLevel "LOUD": must be one of DEBUG, INFO, WARN, ERROR$/, 5],
    // The command cannot tell where its agent is.
    ['statusFrequency: [', /config\.yaml is not YAML: /, 2],
  ])('of a file with %s gets 409 with file, setting and value, and changes nothing', async (line, says, exits) => {
    writeFileSync(local.configFile, `${good()}pruningFrequency: 7\n${line}\n`);
    const { status, body } = await ask('POST', '/v1/system/reload');
    expect([status, body.error]).toMatchObject([409, { code: 'CONFLICT', message: expect.stringMatching(says) }]);
    expect(agent.config.pruningFrequency).toBe(0);
    const { code, err } = await cli('reload');
    expect([code, err.split('\n')[0]]).toEqual([exits, expect.stringMatching(says)]);
  });

  test('shows no wrong address, which may have a password or a key', async () => {
    writeFileSync(local.configFile, `${good()}logLevel: "https://ann:hidden@example.com/?key=hidden"\n`);
    const { body } = await ask('POST', '/v1/system/reload');
    expect(body.error?.message).toMatch(/logLevel: must be one of/);
    expect(JSON.stringify(body)).not.toContain('hidden');
  });
});

describe('the local API', () => {
  const answers: Record<string, [string, string, number, string?]> = {
    'an unknown route': ['GET', '/v1/nonsense', 404, 'NOT_FOUND'],
    'a method that the route does not have': ['PUT', '/v1/system/status', 405, 'METHOD_NOT_ALLOWED'],
    'an empty list of images': ['GET', '/v1/images', 200],
    'an unknown load of an archive': ['GET', '/v1/images:load/x', 404, 'NOT_FOUND'],
    'an unknown pull of knowledge': ['GET', '/v1/knowledge:pull/x', 404, 'NOT_FOUND'],
    'an unknown microservice of the machine': ['GET', '/v1/deploy/microservices/nobody', 404, 'NOT_FOUND'],
    'a model that is none': ['POST', '/v1/deploy/models:validate', 400, 'INVALID_ARGUMENT'],
    'knowledge that is none': ['POST', '/v1/deploy/knowledge:validate', 400, 'INVALID_ARGUMENT'],
    'a runtime class that is none': ['POST', '/v1/deploy/runtimeclasses:validate', 400, 'INVALID_ARGUMENT'],
    'an unknown removal of a runtime class': ['GET', '/v1/deploy/runtimeclasses:delete/x', 404, 'NOT_FOUND'],
    'a manifest that is none': ['POST', '/v1/deploy/microservices:validate', 400, 'INVALID_ARGUMENT'],
    'an unknown pull of an image': ['GET', '/v1/images:pull/x', 404, 'NOT_FOUND'],
    'a control plane that was not deployed': ['GET', '/v1/system/controlplane', 404, 'NOT_FOUND'],
    'an unknown microservice': ['GET', '/v1/ms/nobody', 404, 'NOT_FOUND'],
    'an unknown microservice at the alternative path': ['POST', '/v1/microservices/nobody/stop', 404, 'NOT_FOUND'],
    'a route for workloads': ['GET', '/v1/microservices/config', 403, 'FORBIDDEN'],
    'a wrong source': ['GET', '/v1/ms?source=moon', 400, 'INVALID_ARGUMENT'],
    'a wrong number of lines': ['GET', '/v1/system/logs?tailLines=0', 400, 'INVALID_ARGUMENT'],
    'provisioning without a key': ['POST', '/v1/system/provision', 400, 'INVALID_ARGUMENT'],
    'deprovisioning a node that is not provisioned': ['DELETE', '/v1/system/provision', 409, 'CONFLICT'],
    'a wrong scope': ['DELETE', '/v1/system/provision?scope=half', 400, 'INVALID_ARGUMENT'],
    'the readiness probe': ['GET', '/health/ready', 200],
    'the version': ['GET', '/v1/system/version', 200],
    'identity and settings': ['GET', '/v1/system/info', 200],
    'a request to read the settings again': ['POST', '/v1/system/reload', 200],
    'the log of an unknown microservice': ['GET', '/v1/ms/nobody/logs', 404, 'NOT_FOUND'],
    'a signal to an unknown microservice': ['POST', '/v1/ms/nobody/kill', 404, 'NOT_FOUND'],
    'a prune of models': ['POST', '/v1/models:prune', 200],
    'an empty list of knowledge': ['GET', '/v1/knowledge', 200],
    'an empty list of microservices': ['GET', '/v1/ms', 200],
    'an empty list of models': ['GET', '/v1/models', 200],
    'an empty list of volume mounts': ['GET', '/v1/volume-mounts', 200],
    "an empty list of the system's files": ['GET', '/v1/system-files', 200],
    'an unknown model': ['GET', '/v1/models/nobody', 404, 'NOT_FOUND'],
    'unknown knowledge': ['GET', '/v1/knowledge/nobody', 404, 'NOT_FOUND'],
    'a prune of knowledge': ['POST', '/v1/knowledge:prune', 200],
    'a position without coordinates': ['POST', '/v1/system/gps', 400, 'INVALID_ARGUMENT'],
    'the settings': ['GET', '/v1/system/config', 200],
  };
  for (const [name, [method, path, status, code]] of Object.entries(answers))
    test(`answers ${status}${code ? ` ${code}` : ''}: ${name}`, async () => {
      await until('the first engine snapshot', () => agent.microservices() !== undefined);
      const answer = await ask(method, path);
      expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    });

  test('refuses a GET request with a body, whose members would count for nothing', async () => {
    const { status, body } = await ask('GET', '/v1/ms', { source: 'local' });
    expect([status, body.error?.message]).toEqual([400, 'this request has a body; its members belong to the query']);
  });

  test('lists every supported engine in its version', async () => {
    const { body } = await ask('GET', '/v1/system/version');
    expect(body.allowedEngines).toEqual(['docker', 'podman', 'embedded']);
  });

  test('says that the build is unknown where the agent runs from its sources', async () => {
    const { body } = await ask('GET', '/v1/system/version');
    expect(body).toMatchObject({ buildTime: 'unknown', gitCommit: 'unknown' });
  });

  test('a prune of containers removes the stopped container that nothing wants, and says its name', async () => {
    await running();
    const [container] = await engine.containers();
    // What is unwanted cannot be removed at first, so that supervision waits for its next attempt.
    let isStuck = true;
    engine.faults.before = (operation) => {
      if (isStuck && operation === 'remove') throw new EngineError('Failed', 'device busy');
    };
    controller.microservices = [];
    await until('the failed removal', () => agent.supervisor.record(uuid)?.failure?.step === 'remove');
    const failed = await ask('POST', '/v1/system/prune?mode=containers');
    const errors = { containers: `${container?.name}: device busy` };
    expect(failed.body.data).toMatchObject({ status: 'partial', deleted: [], errors });
    isStuck = false;
    const { body } = await ask('POST', '/v1/system/prune?mode=containers');
    expect(body.data).toMatchObject({ status: 'ok', mode: 'containers', deleted: [container?.name], deletedCount: 1 });
    expect(await engine.containers()).toEqual([]);
  });

  test('a prune says how many bytes the engine got back', async () => {
    await running();
    controller.microservices = [];
    await until('no container', async () => (await engine.containers()).length === 0);
    const { body } = await ask('POST', '/v1/system/prune?mode=all');
    const want = { status: 'ok', imagesDeleted: ['example/app:1'], spaceReclaimedBytes: MEMORY_IMAGE_BYTES };
    expect(body.data).toMatchObject(want);
  });

  test('a prune of what does not exist names the modes', async () => {
    const { status, body } = await ask('POST', '/v1/system/prune?mode=everything');
    expect(status).toBe(400);
    expect(body.error?.message).toBe('mode "everything" is none of dangling, containers, volumes, all');
  });

  test('has the position that the controller gives the node', async () => {
    const { status, body } = await ask('GET', '/v1/system/gps');
    expect([status, body]).toEqual([200, { status: 'okay', timestamp: 0, lat: '0', lon: '0' }]);
    controller.config = { gpsMode: 'manual', latitude: 47.5, longitude: -8.7 };
    await provision();
    await until('the position', async () => (await ask('GET', '/v1/system/gps')).body.lat === '47.5');
    expect((await ask('GET', '/v1/system/gps')).body.lon).toBe('-8.7');
    const set = await ask('POST', '/v1/system/gps', { lat: 1, lon: 2 });
    expect([set.status, set.body.error?.code]).toEqual([409, 'CONFLICT']);
  });

  test('echoes the request id', async () => {
    const answer = await exchange(
      {
        target: { socketPath: local.config.socket },
        method: 'GET',
        path: '/health/live',
        headers: { 'x-request-id': 'abc' },
        deadline: 5000,
      },
      1000,
    );
    expect(answer.headers['x-request-id']).toBe('abc');
  });

  test('has a status with every documented member', async () => {
    const { body } = await ask('GET', '/v1/system/status');
    for (const name of [
      'daemonStatus',
      'controllerConnection',
      'engine',
      'runningMicroservices',
      'cpuUsagePercent',
      'memoryUsageMiB',
      'diskUsageGiB',
      'uptimeSeconds',
      'availableRuntimes',
      'runtimeClasses',
      'availableCdiDevices',
    ])
      expect(body).toHaveProperty(name);
    expect(body.controllerConnection).toBe('NOT_PROVISIONED');
  });

  test('applies the valid settings of a change and names the others', async () => {
    expect((await ask('PATCH', '/v1/system/config', { set: {} })).status).toBe(400);
    local.refusedSettings = { nonsense: 'no such setting' };
    expect((await ask('PATCH', '/v1/system/config', { set: { nonsense: 1 } })).body.error?.code).toBe(
      'INVALID_ARGUMENT',
    );
    const { body } = await ask('PATCH', '/v1/system/config', { set: { logLevel: 'DEBUG', nonsense: 1 } });
    expect(body).toMatchObject({ success: true, data: { errorMap: { nonsense: 'no such setting' } } });
  });
});

describe('a microservice', () => {
  test('is found by uuid, name, application.name, application/name and container id', async () => {
    await running();
    const containerId = controller.microservice(uuid)?.containerId ?? '';
    for (const selector of [uuid, 'web', 'shop.web', 'SHOP.WEB', 'shop%2Fweb', containerId.slice(0, 60)])
      expect((await ask('GET', `/v1/ms/${selector}?summary=true`)).body.uuid, selector).toBe(uuid);
  });

  test('is shown without the values of its secrets', async () => {
    await running();
    const { body } = await ask('GET', `/v1/ms/${uuid}`);
    expect(body).toMatchObject({
      state: 'RUNNING',
      image: 'example/app:1',
      env: { PLAIN: 'seen', PASSWORD: '***' },
      revision: 'r1',
    });
    expect(JSON.stringify(body)).not.toContain('hidden');
  });

  test('is shown with its labels, its times, and the state that it is to have', async () => {
    await running();
    const shown = async () => (await ask('GET', `/v1/ms/${uuid}`)).body;
    const body = await shown();
    expect(body).toMatchObject({
      ...{ desiredState: 'running', runtimeState: 'running', type: 'managed', source: 'managed' },
      labels: { 'skerry.dev/role': 'workload', 'skerry.dev/scope': 'managed', 'app.kubernetes.io/part-of': 'shop' },
    });
    expect(Date.parse(String(body.createdAt))).toBeGreaterThan(Date.now() - 60_000);
    expect(Date.parse(String(body.updatedAt))).toBeGreaterThanOrEqual(Date.parse(String(body.createdAt)));
    await ask('POST', `/v1/ms/${uuid}/stop`);
    expect(await shown()).toMatchObject({ desiredState: 'stopped', runtimeState: 'stopped' });
  });

  test('gets a signal while it runs, and none when it does not', async () => {
    await running();
    const kill = (body?: object) => ask('POST', `/v1/ms/${uuid}/kill`, body ?? {});
    for (const signal of ['SIGNONE', 'term', '65', '0', '9; rm', 'RTMIN+99', ''])
      expect((await kill({ signal })).body.error, signal).toMatchObject({ code: 'INVALID_ARGUMENT' });
    for (const signal of ['HUP', 'SIGTERM', '9', 'RTMIN+3']) {
      await until('it to run', () => engine.running().size === 1);
      await until('the report', async () => (await ask('GET', `/v1/ms/${uuid}?summary=true`)).body.state === 'RUNNING');
      expect((await kill({ signal })).body.data, signal).toEqual({ status: 'ok', microserviceUuid: uuid });
      expect((await ask('POST', `/v1/ms/${uuid}/start`)).status).toBe(200);
    }
    await ask('POST', `/v1/ms/${uuid}/stop`);
    expect(await kill()).toMatchObject({
      status: 409,
      body: { error: { code: 'CONFLICT', message: 'the microservice does not run' } },
    });
    expect((await ask('POST', '/v1/ms/boat/kill', {})).status).toBe(404);
  });

  test('is stopped, stays stopped, and is started', async () => {
    await running();
    expect((await ask('POST', `/v1/ms/${uuid}/stop`)).body.data).toMatchObject({
      state: 'STOPPED',
      microserviceUuid: uuid,
    });
    await until('the report', () => controller.microservice(uuid)?.reason === 'StoppedLocally');
    expect(engine.running().size).toBe(0);
    expect((await ask('POST', `/v1/ms/${uuid}/start`)).body.data).toMatchObject({ state: 'RUNNING' });
  });

  test('is restarted in the same container', async () => {
    await running();
    const [before] = await engine.containers();
    expect((await ask('POST', `/v1/ms/${uuid}/restart`)).body.data).toMatchObject({ state: 'RUNNING' });
    const [after] = await engine.containers();
    expect(after?.id).toBe(before?.id);
    expect(after?.startedAt).toBeGreaterThan(before?.startedAt ?? 0);
    expect(controller.microservice(uuid)?.restartCount ?? 0).toBe(0);
  });

  test('is removed, and created again while it is in the desired state', async () => {
    await running();
    const [before] = await engine.containers();
    const { body } = await ask('DELETE', `/v1/ms/${uuid}`);
    expect(body.data?.warning).toMatch(/made again/);
    await until('a new container', async () => {
      const [now] = await engine.containers();
      return now?.state === 'running' && now.id !== before?.id;
    });
  });

  test('is removed for as long as it is stopped here', async () => {
    await running();
    await ask('POST', `/v1/ms/${uuid}/stop`);
    const { body } = await ask('DELETE', `/v1/ms/${uuid}`);
    expect(body.data?.warning).toBe('it was stopped here, so its container is made when it is started');
    expect(await engine.containers()).toEqual([]);
  });
});

test('the liveness probe says that the local API is being opened', async () => {
  local.phase = 'initializing';
  expect((await ask('GET', '/health/live')).body).toEqual({ status: 'ok', localApiPhase: 'initializing' });
});

describe('the command line', () => {
  test('shows the status of the agent', async () => {
    await running();
    const { code, out } = await cli('status');
    expect(code).toBe(0);
    expect(out).toMatch(/Node: +fake /);
    expect(out).toMatch(/Controller: +OK /);
    expect(JSON.parse((await cli('status', '-o', 'json')).out)).toMatchObject({ daemonStatus: 'RUNNING' });
    expect((await cli('status', '--output=yaml')).out).toContain('daemonStatus: RUNNING');
  });

  test('lists microservices', async () => {
    expect((await cli('ms', 'ls')).out).toBe('No microservices on this node\n');
    await running();
    expect((await cli('ms', 'ls')).out).toMatch(/shop +web +RUNNING/);
    expect((await cli('ms', 'inspect', 'web')).out).toContain('desiredState: running');
    const summary = (await cli('ms', 'inspect', 'web', '--summary')).out;
    expect(summary).toContain('state: RUNNING');
    expect(summary).not.toContain('desiredState');
  });

  test('ms ls shows an unhealthy container with what its check says, and both the running and the wanted image', async () => {
    await running();
    const [container] = await engine.containers();
    engine.setHealth(container?.id ?? '', 'unhealthy', { exitCode: 2, output: 'no such flag \u001b[2J\n' });
    engine.faults.before = (operation) => {
      if (operation === 'pull') throw new EngineError('ImageNotFound', 'no image example/app:2');
    };
    const [view] = controller.microservices as View[];
    controller.change({ microservices: [{ ...(view as View), imageId: 'example/app:2', revision: 'r2' }] });
    await until('the failure', () => controller.microservice(uuid)?.reason !== undefined);
    expect((await cli('ms', 'ls')).out).toMatch(/RUNNING \(\w+, unhealthy\) .* example\/app:1 \(wanted 2\)/);
    const said = 'exit code 2: no such flag \\u001b[2J';
    expect((await cli('ms', 'ls')).out).toContain(`shop.web: health check: ${said}\n`);
    expect(JSON.parse((await cli('ms', 'inspect', 'web', '-o', 'json')).out)).toMatchObject({ healthMessage: said });
    expect(controller.microservice(uuid)).toMatchObject({ healthStatus: 'unhealthy', healthMessage: said });
  });

  test('ms kill ends a program, and fails where none runs', async () => {
    await running();
    expect(await cli('ms', 'kill', 'web', '--signal', 'SIGINT')).toMatchObject({ code: 0, out: 'web: sent SIGINT\n' });
    expect((await cli('ms', 'stop', 'web')).code).toBe(0);
    expect(await cli('ms', 'kill', 'web')).toMatchObject({ code: 5, err: expect.stringContaining('does not run') });
    expect((await cli('ms', 'kill', 'boat')).code).toBe(4);
    expect((await cli('ms', 'kill', 'web', '-s', 'SIGX')).code).toBe(2);
  });

  test('logs --follow shows new lines, and logs the recent ones', async () => {
    const stopped = new AbortController();
    let shown = '';
    const out = (text: string) => {
      shown += text;
    };
    const following = local.cliWith({ out, signal: stopped.signal }, 'logs', '--follow', '--since', '10m');
    await until('the lines', async () => {
      local.logs.write({ timestamp: new Date().toISOString(), level: 'INFO', message: 'new line', said: '\u009b2J' });
      return /"new line"/.test(shown);
    });
    stopped.abort();
    expect(await following).toMatchObject({ code: 0 });
    expect(shown).not.toContain('"Hello"');
    // The log of the agent has texts of others.
    expect(shown).toContain('\\u009b2J');
    expect((await cli('logs')).out).toContain('"Hello"');
  });

  const failures: Record<string, { args: string[]; code: number; says: RegExp }> = {
    'an unknown command': { args: ['dance'], code: 2, says: /no command "dance"\n.*--help/ },
    'an unknown subcommand': { args: ['ms', 'dance'], code: 2, says: /There is: ms ls/ },
    'an unknown flag': { args: ['status', '--loud'], code: 2, says: /no flag --loud/ },
    'a missing argument': { args: ['ms', 'stop'], code: 2, says: /the microservice is missing/ },
    'an unknown microservice': { args: ['ms', 'stop', 'nobody'], code: 4, says: /no microservice "nobody"/ },
    'deprovisioning a node that is not provisioned': { args: ['deprovision'], code: 5, says: /not provisioned/ },
    'a missing join string': { args: ['provision'], code: 2, says: /join string is missing\n.*SKERRY_JOIN/ },
    'a bad join string': { args: ['provision', 'hello'], code: 2, says: /join string/ },
    'an unknown output format': { args: ['status', '-o', 'xml'], code: 2, says: /human, json, yaml/ },
    'an unknown setting': { args: ['config', 'nonsense=1'], code: 2, says: /nonsense: no such setting/ },
  };
  for (const [name, { args, code, says }] of Object.entries(failures))
    test(`exits with ${code} and the cause: ${name}`, async () => {
      local.refusedSettings = { nonsense: 'no such setting' };
      await until('the first engine snapshot', () => agent.microservices() !== undefined);
      const result = await cli(...args);
      expect(result).toMatchObject({ code, out: '' });
      expect(result.err).toMatch(says);
    });

  /** Ends the servers of the agent, and waits until the command says so with these words. */
  async function ended(unit: Parameters<LocalAgent['cliWith']>[0], says: RegExp): Promise<void> {
    for (const server of local.servers) server.close();
    local.servers[0]?.closeAllConnections();
    await until('the socket to be gone', async () => {
      const { code, err } = await local.cliWith(unit, 'status');
      return code === 10 && says.test(err);
    });
  }

  test('exits with 10 and a next step when no agent runs', async () => {
    await ended({}, /Start it with: skerry-agent start --config/);
  });

  test('names the unit that starts and stops the agent where a package has installed one', async () => {
    const unit = { isService: () => true };
    const { out } = await local.cliWith(unit, 'stop');
    expect(out).toMatch(/containers run on; its unit starts it again .*: systemctl stop skerry-agent\n$/);
    await ended(unit, /\nStart it with: systemctl start skerry-agent\n$/);
  });

  test('status says since when the controller does not answer', async () => {
    await running();
    expect((await cli('status')).out).not.toContain('Last contact');
    const told = (lastContact: number) => {
      const value = { state: 'NOT_CONNECTED', error: 'no answer', lastContact };
      Object.defineProperty(agent, 'connection', { value, configurable: true });
    };
    told(Date.now() - 3 * 3600_000);
    expect((await cli('status')).out).toMatch(/Last contact: +3h\S* ago \(20\d\d-\S+Z\)\n/);
    told(0);
    expect((await cli('status')).out).toMatch(/Last contact: +none since the agent started\n/);
  });

  test('prints help and version', async () => {
    expect((await cli('--help')).out).toContain('ms logs <microservice>');
    expect((await cli('ms', 'logs', '--help')).out).toContain('--follow');
    expect((await cli('help', 'provision')).out).toContain('Example: skerry-agent provision skerry://');
    expect((await cli('version')).out).toMatch(/^skerry-agent \d/);
  });
});
