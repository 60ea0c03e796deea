import { describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../rest/_memory.ts';
import { serveInMemory } from '../rest/_server.ts';
import { routes } from './routes.ts';

/** Operations of the message bus while it is off. Each has its answer here, and a new one fails without its row. */
const ofBus = routes.filter(({ path }) => path.startsWith('/bus/') || path === '/capabilities/bus');

const DISABLED = { status: 400, body: { code: 'BUS_DISABLED' } };
const NOT_FOUND = { status: 404 };
const yaml = (kind: string) =>
  JSON.stringify({ apiVersion: 'skerry.dev/v3', kind, metadata: { name: 'some-rule' }, spec: {} });

/** Rules can be written before the bus is turned on, and so can the place of its hub: the object says that nobody uses it. */
const ANSWERS: Record<string, { body?: object; yaml?: string; answer: object }> = {
  hasBus: { answer: NOT_FOUND },
  getBusOperator: { answer: NOT_FOUND },
  rotateBusOperator: { answer: DISABLED },
  getBusBootstrap: { answer: NOT_FOUND },
  getBusHub: { answer: NOT_FOUND },
  replaceBusHub: { body: { host: 'bus.example' }, answer: { status: 200, body: { host: 'bus.example' } } },
  listBusUsers: { answer: { status: 200, body: { users: [] } } },
  listBusAccounts: { answer: { status: 200, body: { accounts: [] } } },
  getBusAccount: { answer: NOT_FOUND },
  ensureBusAccount: { body: {}, answer: DISABLED },
  listUsersOfBusAccount: { answer: NOT_FOUND },
  createBusUser: { body: { name: 'reader' }, answer: DISABLED },
  getBusUserCredentials: { answer: NOT_FOUND },
  deleteBusUser: { answer: DISABLED },
  createBusBearer: { body: { name: 'valve' }, answer: DISABLED },
  deleteBusBearer: { answer: DISABLED },
  ...ofRules('BusAccountRule'),
  ...ofRules('BusUserRule'),
};

function ofRules(kind: string): typeof ANSWERS {
  return {
    [`list${kind}s`]: { answer: { status: 200 } },
    [`get${kind}`]: { answer: { status: 200 } },
    [`create${kind}`]: { body: { name: 'other-rule' }, answer: { status: 201 } },
    [`create${kind}FromYaml`]: { yaml: yaml(kind), answer: { status: 201 } },
    [`update${kind}`]: { body: { description: 'changed' }, answer: { status: 200 } },
    [`update${kind}FromYaml`]: { yaml: yaml(kind), answer: { status: 200 } },
    [`delete${kind}`]: { answer: { status: 204 } },
  };
}

describe('while the message bus is off', () => {
  test('each of its operations has an answer of its own', () => {
    expect(ofBus.map(({ operation }) => operation).sort()).toEqual(Object.keys(ANSWERS).sort());
  });

  test('accounts and users are refused by name, and all else answers as nothing is there', async () => {
    const deps = createMemoryDependencies();
    Object.assign(deps.self, { isBusEnabled: false, controlPlane: 'kubernetes' });
    const admin = (await serveInMemory({ deps })).as('admin');
    // An object comes before the objects that need it.
    const order = ['POST', 'GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'];
    for (const { method, path, operation } of ofBus.toSorted(
      (a, b) => order.indexOf(a.method) - order.indexOf(b.method),
    )) {
      const { body, yaml: text, answer } = ANSWERS[operation] ?? { answer: {} };
      const at = path.replaceAll(/\{(\w+)\}/g, 'some-rule');
      const said = await admin.request(method, at, { ...(body && { json: body }), ...(text && { yaml: text }) });
      expect(said, `${method} ${at}`).toMatchObject(answer);
    }
  });
});

test('no operation of the message bus may answer 501', () => {
  expect(ofBus.filter(({ errors = [] }) => errors.includes(501)).map(({ operation }) => operation)).toEqual([]);
});
