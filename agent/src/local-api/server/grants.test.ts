import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import type { RoleRule } from '../../../../src/wire/agent.ts';
import { plainView } from '../../_web.ts';
import { until } from '../../engines/_contract.ts';
import { signingKey, signToken } from '../../state/token.ts';
import { openControl } from '../_control.ts';
import { LocalAgent } from '../_local-agent.ts';
import { openText } from '../_text-client.ts';
import { allows, reachOf } from './grants.ts';

/** What the role of a microservice grants it in the local API. */

const rule = (change: Partial<RoleRule> = {}): RoleRule => ({
  apiGroups: ['agent.skerry.dev/v1'],
  resources: ['microservices'],
  verbs: ['get'],
  ...change,
});

describe('rules allow', () => {
  const get = { resource: 'microservices', verb: 'get' } as const;
  const cases: Record<string, [RoleRule[], boolean]> = {
    'nothing when there are none': [[], false],
    'what one names': [[rule()], true],
    'what one names without a version, or with any group': [[rule({ apiGroups: ['other', '*'] })], true],
    'nothing of another API group': [[rule({ apiGroups: ['', 'skerry.dev'] })], false],
    'any resource and verb with *': [[rule({ resources: ['*'], verbs: ['*'] })], true],
    'a resource in any case, and list as get': [[rule({ resources: ['Microservices'], verbs: ['List'] })], true],
    'nothing by another verb or resource': [[rule({ verbs: ['create'] }), rule({ resources: ['images'] })], false],
  };
  for (const [name, [rules, allowed]] of Object.entries(cases))
    test(name, () => expect(allows(rules, get)).toBe(allowed));

  test('of the objects that they name alone, where they name any', () => {
    const rules = [rule({ resourceNames: ['web'] })];
    expect(allows(rules, get, ['uuid-1', 'web'])).toBe(true);
    expect(allows(rules, get, ['uuid-2', 'db'])).toBe(false);
    expect(allows(rules, get)).toBe(true);
    // A resource without names is not among these objects.
    const position = { resource: 'system/gps', verb: 'get' } as const;
    expect(allows([rule({ resources: ['*'], resourceNames: ['web'] })], position)).toBe(false);
  });
});

test('a role reaches no microservice of the machine itself, also where a former controller left it in the same application', () => {
  const reach = reachOf(
    'shop',
    [rule({ resources: ['*'], verbs: ['*'] })],
    { resource: 'microservices', verb: 'delete' },
    {
      sourceOf: (uuid) => (uuid === 'kept' ? 'local' : 'managed'),
    },
  );
  const seen = ['web', 'kept'].filter((id) => reach({ id, application: 'shop', name: id }));
  expect(seen).toEqual(['web']);
});

describe('the token of a microservice', () => {
  let local: LocalAgent;
  const ids = { web: randomUUID(), db: randomUUID(), alien: randomUUID() };

  beforeEach(async () => {
    local = await LocalAgent.start();
    await local.provision(...views([rule()]));
    return () => local[Symbol.asyncDispose]();
  });

  const views = (rules: RoleRule[]) =>
    Object.entries(ids).map(([name, uuid]) =>
      plainView({ uuid, name, application: name === 'alien' ? 'mars' : 'shop', serviceAccount: { name, rules } }),
    );

  /** The token that the agent itself wrote for the microservice `web`. */
  function token(): string {
    const text = local.files.read(`serviceaccounts/${ids.web}`)?.get('token');
    if (!text) throw new Error('there is no token');
    return Buffer.from(text).toString();
  }

  async function ask(method: string, path: string, bearer = token()) {
    const answer = await fetch(`http://127.0.0.1:${local.port}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}` },
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  const grant = async (rules: RoleRule[], path: string, status: number) => {
    local.controller.change({ microservices: views(rules) });
    await until(`${status}`, async () => (await ask('GET', path)).status === status);
  };

  test('lists and inspects the microservices of its own application, and no others', async () => {
    const list = await ask('GET', '/v1/ms');
    expect((list.body.items as { name: string }[]).map(({ name }) => name).sort()).toEqual(['db', 'web']);
    expect((await ask('GET', '/v1/ms/db')).body).toMatchObject({ uuid: ids.db });
    for (const selector of [ids.alien, 'alien', 'mars.alien'])
      expect((await ask('GET', `/v1/ms/${selector}`)).status, selector).toBe(404);
  });

  test('reaches only the microservices that its role names, where it names any', async () => {
    await grant([rule({ resourceNames: ['web'] })], '/v1/ms/db', 404);
    expect((await ask('GET', '/v1/ms/web')).status).toBe(200);
  });

  test('stops a microservice of its application only with a role that allows it, and none of another', async () => {
    expect((await ask('POST', '/v1/ms/db/stop')).status).toBe(403);
    await grant([rule({ verbs: ['create'] })], '/v1/ms', 403);
    expect((await ask('POST', '/v1/ms/db/stop')).body).toMatchObject({ data: { state: 'STOPPED' } });
    expect((await ask('POST', '/v1/ms/alien/stop')).status).toBe(404);
  });

  test('removes a microservice with a role that allows it, and lets no volume go', async () => {
    await grant([rule({ verbs: ['delete'] })], '/v1/ms', 403);
    expect((await ask('DELETE', '/v1/ms/db?cleanup=true')).status).toBe(403);
    expect((await ask('DELETE', '/v1/ms/db')).status).toBe(200);
  });

  test('loses at once what its role no longer allows, also with an older token', async () => {
    const older = token();
    await grant([], '/v1/ms', 403);
    expect((await ask('GET', '/v1/ms', older)).status).toBe(403);
  });

  test('loses at once what its role no longer allows, also while its microservice is on hold', async () => {
    const held = (rules: RoleRule[]) => {
      const [web = { uuid: ids.web }, ...others] = views([rule()]);
      const hold = { uuid: web.uuid, hold: true, reason: 'RoleNotFound', message: '' } as const;
      local.controller.change({ microservices: [{ ...hold, serviceAccount: { name: 'web', rules } }, ...others] });
    };
    held([]);
    await until('403', async () => (await ask('GET', '/v1/ms')).status === 403);
    held([rule()]);
    await until('200', async () => (await ask('GET', '/v1/ms')).status === 200);
  });

  test('with a role that allows everything reaches nothing of the agent itself', async () => {
    await grant([rule({ resources: ['*'], verbs: ['*'] })], '/v1/auth/whoami', 200);
    for (const path of ['/v1/system/status', '/v1/system/config', '/v1/system/logs', '/v1/system/orphans'])
      expect((await ask('GET', path)).status, path).toBe(403);
    for (const path of ['/v1/system/stop', '/v1/system/provision', '/v1/system/prune'])
      expect((await ask('POST', path)).status, path).toBe(403);
  });

  test('learns who it is with the role of every microservice', async () => {
    await grant([rule({ resources: ['auth/whoami'] })], '/v1/auth/whoami', 200);
    expect((await ask('GET', '/v1/auth/whoami')).body).toMatchObject({
      subject: 'system:serviceaccount:shop:web',
      tokenType: 'Bearer',
      tokenUse: 'serviceaccount',
      claims: { 'agent.skerry.dev': { microservice: { application: 'shop', name: 'web', uuid: ids.web } } },
    });
  });

  test('reads the position of the machine with the role of every microservice, and cannot set it', async () => {
    await grant([rule({ resources: ['system/gps'] })], '/v1/system/gps', 200);
    expect((await ask('GET', '/v1/system/gps')).body).toMatchObject({ status: 'okay', lat: '0', lon: '0' });
    expect((await ask('POST', '/v1/system/gps')).status).toBe(403);
  });

  test('lists and pulls images with a role that allows each, and never loads or removes them', async () => {
    await grant([rule({ resources: ['images'] })], '/v1/images', 200);
    expect((await ask('POST', '/v1/images:pull')).status).toBe(403);
    await grant([rule({ resources: ['images/pull'], verbs: ['create'] })], '/v1/images', 403);
    expect((await ask('POST', '/v1/images:pull')).status).toBe(400);
    expect((await ask('GET', '/v1/images:pull/x')).status).toBe(403);
    await grant([rule({ resources: ['images/pull/status'] })], '/v1/images:pull/x', 404);
    await grant([rule({ resources: ['*'], verbs: ['*'] })], '/v1/images', 200);
    for (const path of ['/v1/images:load', '/v1/images:prune', '/v1/images:remove'])
      expect((await ask('POST', path)).status, path).toBe(403);
  });

  test('reads models and knowledge with a role that allows it, those alone that it names', async () => {
    expect((await ask('GET', '/v1/models')).status).toBe(403);
    await grant([rule({ resources: ['models', 'knowledge'], resourceNames: ['phi'] })], '/v1/models', 200);
    for (const kind of ['models', 'knowledge']) {
      expect((await ask('GET', `/v1/${kind}`)).body).toEqual({ success: true, data: { items: [], count: 0 } });
      expect((await ask('GET', `/v1/${kind}/phi`)).status).toBe(404);
      expect((await ask('GET', `/v1/${kind}/other`)).status).toBe(403);
      expect((await ask('POST', `/v1/${kind}:prune`)).status).toBe(403);
    }
  });

  test('loses the log that it follows and its control channel when its role changes', async () => {
    const where = { socket: local.config.socket, token: token() };
    const log = await openText(where, '/v1/ms/db/logs:stream');
    const control = await openControl(local.port, token());
    local.controller.change({ microservices: views([rule({ resourceNames: ['web'] })]) });
    await Promise.all([log.closed, until('the end of the control channel', () => control.isClosed)]);
    expect((await openControl(local.port, token())).isClosed).toBe(false);
    expect((await ask('GET', '/v1/ms/db')).status).toBe(404);
  });

  test('keeps its streams while something else changes', async () => {
    const control = await openControl(local.port, token());
    local.controller.change({ microservices: views([rule()]).map((view) => ({ ...view, config: '{"speed":2}' })) });
    await until('the message that the config has changed', () => control.received.length > 0);
    expect(control.isClosed).toBe(false);
  });

  test('of a microservice that is gone is refused', async () => {
    const claims = {
      sub: 'system:serviceaccount:shop:gone',
      iss: 'https://skerry-agent.default.svc.bridge.local',
      aud: ['https://skerry-agent.default.svc.bridge.local'],
      tokenUse: 'serviceaccount',
      'agent.skerry.dev': { microservice: { uuid: randomUUID() } },
    };
    const gone = signToken(signingKey(local.agent.identity.localKey), claims, Math.floor(Date.now() / 1000), 60);
    expect((await ask('GET', '/v1/ms', gone)).status).toBe(403);
  });
});
