import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fuzzing } from '../../../hack/testing/fuzz.ts';
import type { ChainUser } from '../../../testing/bus-chain.ts';
import type { ProtocolClient } from '../../../testing/bus-protocol.ts';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import { API_VERSION } from '../../api/names.ts';
import { uuidOf } from '../../rules/identity.ts';
import { busOf, entryWithBus } from './_fleet.ts';
import { accountRuleOf, emptyState, hasAccount, type ModelState, nodesOf, PATTERNS, usersOf } from './_model.ts';
import { APPLICATIONS, type BusOperation, type BusStep, busSteps } from './_operations.ts';
import { isEnded, lasts, RealServer, tryAll } from './_real.ts';
import { accountSecretName, BUS_KEYS, userSecretName } from './rules/secret.ts';

/**
 * Random steps on the bus at a controller in memory, whose tokens a real nats-server has: after each step the server lets in, stops and
 * refuses whom the model says. A failure prints the shortest steps that were found, and its seed.
 */
const { about, budget, timeout } = fuzzing({ runs: 2, nightlySeconds: 600 });

let fleet: InMemoryController;
let server: RealServer;
const bus = busOf(() => fleet);
beforeAll(async () => {
  fleet = await startInMemoryController(2, { env: { BUS_ENABLED: 'true' } });
  await fleet.settle();
  server = new RealServer(fleet, bus);
  await server.start();
}, 120_000);
afterAll(async () => {
  await server?.close();
  await fleet[Symbol.asyncDispose]();
});

/** Credentials that were valid once, with a connection that was opened with them. */
interface Known {
  as: ChainUser;
  /** what the model says of it: another value means other credentials */
  mark: string;
  client: ProtocolClient | undefined;
}

const configOf = ({ hasAccess, rule }: { hasAccess: boolean; rule?: string | undefined }) => ({
  busAccess: hasAccess,
  ...(rule !== undefined && { busRule: rule }),
});

/** How long the token of a guest lasts: a server counts in whole seconds. */
const GUEST_MS = 3_000;

class Story {
  readonly state: ModelState = emptyState();
  readonly #present = new Map<string, Known>();
  readonly #former: ChainUser[] = [];
  /** begin with each account and each user, so that a name that returns is somebody else */
  readonly #births = new Map<string, number>();
  #born = 0;

  /** Two applications with access to the bus, so that every step meets somebody. */
  async begin(): Promise<void> {
    for (const app of APPLICATIONS) {
      const services = ['pump', 'valve'].map((name, node) => [name, { hasAccess: true, node }] as const);
      this.state.applications.set(app, { hasAccess: true, services: new Map(services), extras: new Map() });
      await this.#send('POST', '/application', this.#bodyOf(app), 201);
    }
    await fleet.settle();
    await this.take({
      operation: { do: 'extra', app: 'shop', name: 'dashboard', by: 'rest', isBearer: false },
      changesLeader: false,
    });
  }

  async take({ operation, changesLeader }: BusStep): Promise<void> {
    await Promise.all([this.#perform(operation), changesLeader && fleet.nextTerm()]);
    await this.#settled();
    this.#follow();
    await server.deliver();
    await this.#check();
  }

  /** Machines report what they have, and no former key waits. */
  async #settled(): Promise<void> {
    await fleet.settle();
    for (const i of [0, 1]) fleet.report(fleet.node(i));
    fleet.report(fleet.spare);
    fleet.time.now += 3_000;
    await fleet.settle();
    const waiting = () =>
      [...usersOf(this.state).values()].filter(({ account, name }) => bus.userTexts(account, name).former);
    await expect.poll(waiting, { timeout: 20_000 }).toEqual([]);
    // Keys of accounts that microservices have no tokens of any more.
    const retiring = () => APPLICATIONS.filter((app) => bus.accountTexts(app).retiring);
    await expect.poll(retiring, { timeout: 20_000 }).toEqual([]);
    await fleet.settle();
  }

  async #send(method: string, path: string, body: object | undefined, expected: number): Promise<void> {
    const answer = await fleet.request(method, path, { token: 'admin', ...(body && { body }) });
    expect(answer.status, `${method} ${path} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`).toBe(expected);
  }

  async #perform(one: BusOperation): Promise<void> {
    const { accountRules, userRules, applications } = this.state;
    const missing = (rules: ReadonlyMap<string, unknown>, rule?: string) => rule !== undefined && !rules.has(rule);
    switch (one.do) {
      case 'accountRule': {
        const { isStoreless, ...limits } = one.rule;
        const body = {
          ...limits,
          ...(isStoreless ? { memStorage: 0, diskStorage: 0 } : { memStorage: -1, diskStorage: -1 }),
        };
        const isNew = !accountRules.has(one.name);
        accountRules.set(one.name, one.rule);
        return this.#rule('/bus/account-rules', { ...one, body, isNew });
      }
      case 'userRule': {
        const isNew = !userRules.has(one.name);
        userRules.set(one.name, one.rule);
        return this.#rule('/bus/user-rules', { ...one, body: one.rule, isNew });
      }
      case 'deleteRule': {
        const path = one.of === 'accountRules' ? '/bus/account-rules' : '/bus/user-rules';
        const had = this.state[one.of].delete(one.name);
        return this.#send('DELETE', `${path}/${one.name}`, undefined, had ? 204 : 404);
      }
      case 'application': {
        const present = applications.get(one.app);
        const isByKubectl = present !== undefined && one.by === 'kubectl';
        if (!isByKubectl && missing(accountRules, one.rule)) return;
        // A microservice has no access where its application has none.
        if (!one.hasAccess) for (const service of present?.services.values() ?? []) service.hasAccess = false;
        const asked = one.hasAccess || present?.hasAccess ? undefined : present?.asked;
        const next = { hasAccess: one.hasAccess, ...(asked && { asked }) };
        applications.set(one.app, {
          ...next,
          services: present?.services ?? new Map(),
          extras: hasAccount(next) ? (present?.extras ?? new Map()) : new Map(),
          ...(one.rule !== undefined && { rule: one.rule }),
        });
        if (isByKubectl)
          return bus.edit(one.app, (spec) => {
            spec.busConfig = configOf(one);
            for (const entry of one.hasAccess ? [] : (spec.microservices ?? [])) entry.busConfig = { busAccess: false };
          });
        if (present) return this.#put(one.app);
        return this.#send('POST', '/application', this.#bodyOf(one.app), 201);
      }
      case 'account': {
        const application = applications.get(one.app);
        const path = `/bus/accounts/${one.app}`;
        if (!application) return this.#send('POST', path, {}, 404);
        if (application.hasAccess) return this.#send('POST', path, {}, 201);
        if (missing(accountRules, one.rule)) return;
        const rule = one.rule ?? application.asked?.rule;
        application.asked = { ...(rule !== undefined && { rule }) };
        return this.#send('POST', path, { ...(one.rule !== undefined && { busRule: one.rule }) }, 201);
      }
      case 'deleteApplication': {
        const had = applications.delete(one.app);
        return this.#send('DELETE', `/application/${one.app}`, undefined, had ? 204 : 404);
      }
      case 'service': {
        const application = applications.get(one.app);
        if (!application || missing(userRules, one.rule) || application.extras.has(one.name)) return;
        const { rule, node } = one;
        const hasAccess = one.hasAccess && application.hasAccess;
        application.services.set(one.name, { hasAccess, node, ...(rule !== undefined && { rule }) });
        return this.#put(one.app);
      }
      case 'removeService': {
        if (!applications.get(one.app)?.services.delete(one.name)) return;
        return this.#put(one.app);
      }
      case 'rename': {
        const application = applications.get(one.app);
        const service = application?.services.get(one.name);
        if (!application || !service || application.services.has(one.to) || application.extras.has(one.to)) return;
        application.services.delete(one.name);
        application.services.set(one.to, service);
        const uuid = fleet.stores.applications
          .byIndex('name', one.app)[0]
          ?.status?.microservices?.find(({ name }) => name === one.name)?.uuid;
        if (one.keepsUuid && uuid)
          await bus.edit(one.app, ({ microservices = [] }) => {
            for (const entry of microservices) if (entry.name === one.name) entry.uuid = uuid;
          });
        return bus.edit(one.app, ({ microservices = [] }) => {
          for (const entry of microservices) if (entry.name === one.name) entry.name = one.to;
        });
      }
      case 'extra':
        return this.#addExtra(one);
      case 'ruleOfExtra': {
        const extra = applications.get(one.app)?.extras.get(one.name);
        const object = bus.user(one.app, one.name);
        // Another rule than the built-in one lets a user of MQTT in by MQTT alone, which no client here speaks.
        if (!extra || !object || extra.isBearer) return;
        delete extra.rule;
        if (one.rule !== undefined) extra.rule = one.rule;
        fleet.cluster.edit(object, ({ spec }) => {
          delete spec.rule;
          if (one.rule !== undefined) spec.rule = one.rule;
        });
        return fleet.settle();
      }
      case 'deleteExtra': {
        const object = bus.user(one.app, one.name);
        const had = applications.get(one.app)?.extras.delete(one.name);
        if (!had || !object) return;
        if (one.by === 'rest')
          return this.#send('DELETE', `/bus/accounts/${one.app}/users/${one.name}`, undefined, 204);
        const { name, namespace } = object.metadata;
        await fleet.cluster.client.delete(fleet.stores.busUsers.resource, { name, namespace });
        return fleet.settle();
      }
      case 'loseSecret': {
        const object = bus.user(one.app, one.name);
        if (!object) return;
        // Another key follows.
        this.#births.delete(`${one.app}/${one.name}`);
        const ref = { name: userSecretName(uuidOf(object)), namespace: object.metadata.namespace };
        await fleet.cluster.client.delete(fleet.stores.secrets.resource, ref);
        return fleet.settle();
      }
      case 'loseAccountSecret': {
        const object = bus.account(one.app);
        if (!object) return;
        // All users get tokens of other signing keys.
        for (const key of this.#births.keys()) if (key.startsWith(`${one.app}/`)) this.#births.delete(key);
        const ref = { name: accountSecretName(uuidOf(object)), namespace: object.metadata.namespace };
        await fleet.cluster.client.delete(fleet.stores.secrets.resource, ref);
        await expect.poll(() => bus.accountToken(one.app), { timeout: 20_000 }).toBeDefined();
        return fleet.settle();
      }
      case 'renewKeys':
        return this.#renewKeys(one.app, one.of);
      case 'guest':
        return this.#welcomeGuest(one.app);
      case 'rotate':
        return this.#rotate(one.by);
      case 'leader':
        return fleet.nextTerm();
      case 'server':
        return this.#restart(one.is);
    }
  }

  async #rule(
    path: string,
    { name, body, isNew, isInPlace }: { name: string; body: object; isNew: boolean; isInPlace: boolean },
  ): Promise<void> {
    if (isNew) return this.#send('POST', path, { name, ...body }, 201);
    if (isInPlace) {
      const absent = Object.fromEntries(['pubDeny', 'subDeny', 'pubAllow'].map((member) => [member, null]));
      return this.#send('PATCH', `${path}/${name}`, { ...absent, ...body }, 200);
    }
    await this.#send('DELETE', `${path}/${name}`, undefined, 204);
    return this.#send('POST', path, { name, ...body }, 201);
  }

  async #addExtra({ app, name, by, isBearer, ...one }: Extract<BusOperation, { do: 'extra' }>): Promise<void> {
    const rule = isBearer ? undefined : one.rule;
    const application = this.state.applications.get(app);
    const path = `/bus/accounts/${app}/${isBearer ? 'mqtt-bearer' : 'users'}`;
    const body = { name, ...(rule !== undefined && { busRule: rule }) };
    if (!application || !hasAccount(application)) return this.#send('POST', path, body, 404);
    if (application.services.has(name) || application.extras.has(name)) return;
    const isPossible = !isBearer || !accountRuleOf(this.state, application).isStoreless;
    const isMissing = rule !== undefined && !this.state.userRules.has(rule);
    if (by === 'rest' && isMissing) return;
    if (by === 'rest' && !isPossible) return this.#send('POST', path, body, 400);
    application.extras.set(name, { ...(rule !== undefined && { rule }), ...(isBearer && { isBearer: true as const }) });
    if (by === 'rest') return this.#send('POST', path, body, 201);
    const { resource } = fleet.stores.busUsers;
    const metadata = { name: `by-kubectl-${app}-${name}`, namespace: NAMESPACE };
    const spec = { name, account: app, ...(rule !== undefined && { rule }), ...(isBearer && { isBearer }) };
    const made = { apiVersion: API_VERSION, kind: resource.kind, metadata, spec };
    await fleet.cluster.client.create(resource, made as never);
    return fleet.settle();
  }

  /** So many users are revoked that the account gets another key for the tokens of these users, and the former key ends. */
  async #renewKeys(app: string, of: 'services' | 'extras'): Promise<void> {
    const application = this.state.applications.get(app);
    if (!application || !hasAccount(application)) return;
    for (const name of application[of].keys()) this.#births.delete(`${app}/${name}`);
    await bus.refuseMany(app, 600, { kept: of === 'extras', first: `U${this.#born++}x` });
    if (of === 'services') return;
    await expect.poll(() => bus.outdatedOf(app)?.status, { timeout: 20_000 }).toBe('True');
    await bus.endFormerKey(app);
  }

  /** A user whose token ends by itself, by the clock of the server; nobody has to revoke it. */
  async #welcomeGuest(app: string): Promise<void> {
    const application = this.state.applications.get(app);
    if (!application || !hasAccount(application)) return;
    const { resource } = fleet.stores.busUsers;
    const metadata = { name: `guest-of-${app}`, namespace: NAMESPACE };
    const expiresAt = new Date(Date.now() + GUEST_MS).toISOString();
    const spec = { name: 'guest', account: app, expiresAt };
    const made = { apiVersion: API_VERSION, kind: resource.kind, metadata, spec };
    await fleet.cluster.client.create(resource, made as never);
    const texts = () => bus.userTexts(app, 'guest');
    await expect.poll(() => texts()[BUS_KEYS.token], { timeout: 20_000 }).toBeDefined();
    const { [BUS_KEYS.token]: token = '', [BUS_KEYS.seed]: seed = '' } = texts();
    const as = { publicKey: bus.decode(token)?.sub ?? '', seed, token };
    const client = await server.connect(as);
    if (client) await client.next('END');
    // A busy machine may have needed longer for it than the token lasts.
    else expect(Date.now(), 'a guest is let in').toBeGreaterThan(Date.parse(expiresAt));
    expect(Date.now(), 'a guest is let in until its end').toBeGreaterThan(Date.parse(expiresAt) - 1_000);
    // In the second of its end a server still takes it.
    const isLetIn = async () => {
      const again = await server.connect(as);
      again?.end();
      return again !== undefined;
    };
    await expect.poll(isLetIn, { timeout: 10_000, message: 'an expired token is refused' }).toBe(false);
    this.#former.push(as);
    await fleet.cluster.client.delete(resource, metadata);
    await expect.poll(() => bus.user(app, 'guest'), { timeout: 20_000 }).toBeUndefined();
  }

  #bodyOf(app: string): object {
    const application = this.state.applications.get(app);
    if (!application) throw new Error(`the model has no application ${app}`);
    const microservices = [...application.services].map(([name, service]) =>
      entryWithBus(name, { agentName: `gateway-${service.node}`, busConfig: configOf(service) }),
    );
    return { name: app, busConfig: configOf(application), microservices };
  }
  #put = (app: string) => this.#send('PUT', `/application/${app}`, this.#bodyOf(app), 204);

  /** Servers trust both keys, then every account is signed anew, then they trust the next one alone. */
  async #rotate(by: 'rest' | 'kubectl'): Promise<void> {
    const [operator] = fleet.stores.busOperators.list();
    if (by === 'rest' || !operator) await this.#send('POST', '/bus/operator/rotate', undefined, 200);
    else
      fleet.cluster.edit(operator, ({ spec }) => {
        spec.rotation = (spec.rotation ?? 0) + 1;
      });
    await fleet.settle();
    await this.#restart('restarted');
    for (let i = 0; i < 2; i++) {
      for (const node of [fleet.node(0), fleet.node(1), fleet.spare]) fleet.report(node);
      fleet.time.now += 11 * 60_000;
      await fleet.nextTerm();
    }
    const isRotating = () =>
      fleet.stores.busOperators.list()[0]?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
    await expect.poll(isRotating, { timeout: 20_000 }).toBe('True');
    await this.#restart('restarted');
  }

  async #restart(is: 'restarted' | 'emptied' | 'set back'): Promise<void> {
    await server.restart(is);
    for (const known of this.#present.values()) known.client = undefined;
  }

  /** What ended or began, as the model has it now. */
  #follow(): void {
    const users = usersOf(this.state);
    const alive = new Set([...users.keys(), ...[...users.values()].map(({ account }) => account)]);
    for (const [name, application] of this.state.applications) if (hasAccount(application)) alive.add(name);
    for (const name of this.#births.keys()) if (!alive.has(name)) this.#births.delete(name);
    for (const name of alive) if (!this.#births.has(name)) this.#births.set(name, this.#born++);
  }

  async #check(): Promise<void> {
    const users = usersOf(this.state);
    for (const app of APPLICATIONS) {
      const leafs = nodesOf(this.state, app).map((node) => `leaf-gateway-${node}`);
      const names = [...users.values()].filter(({ account }) => account === app).map(({ name }) => name);
      expect(bus.users(app), `users of ${app}`).toEqual([...names, ...leafs].sort());
    }
    const next = new Map<string, Known>();
    for (const [key, { account, name, grant }] of users) {
      const texts = bus.userTexts(account, name);
      const token = texts[BUS_KEYS.token] ?? '';
      const as = { publicKey: bus.decode(token)?.sub ?? '', seed: texts[BUS_KEYS.seed] ?? '', token };
      const mark = [this.#births.get(account), this.#births.get(key), grant].join();
      const known = this.#present.get(key);
      if (known) expect(known.as.token === token, `${key} keeps its credentials`).toBe(known.mark === mark);
      next.set(key, known?.mark === mark ? known : { as, mark, client: undefined });
    }
    for (const [key, known] of this.#present) {
      if (next.get(key) === known) {
        if (known.client) expect(await lasts(known.client), `the connection of ${key} lasts`).toBe(true);
        continue;
      }
      if (known.client) expect(await isEnded(known.client), `the connection of the former ${key} ends`).toBe(true);
      this.#former.push(known.as);
    }
    for (const as of this.#former)
      expect(await server.connect(as), `former credentials ${bus.decode(as.token)?.name} are refused`).toBeUndefined();
    this.#present.clear();
    const clients = new Map<string, ProtocolClient>();
    for (const [key, known] of next) {
      this.#present.set(key, known);
      const client = await server.connect(known.as);
      expect(client, `${key} is let in`).toBeDefined();
      if (client) clients.set(key, client);
      known.client ??= await server.connect(known.as);
    }
    const found = await tryAll(clients);
    for (const client of clients.values()) client.end();
    for (const [key, user] of users) {
      const heard = [...users].flatMap(([from, other]) =>
        PATTERNS.filter((one) => other.account === user.account && other.publishes(one) && user.subscribes(one)).map(
          (one) => `from ${from} ${one}`,
        ),
      );
      const { hears = [], ...does } = found.get(key) ?? {};
      expect({ ...does, hears: hears.sort() }, `what ${key} may`).toEqual({
        publishes: PATTERNS.filter(user.publishes),
        subscribes: PATTERNS.filter(user.subscribes),
        hasStreams: user.hasStreams,
        hears: heard.sort(),
      });
    }
  }

  /** Leaves nothing behind but the accounts of the system, whose keys the server has. */
  async end(): Promise<void> {
    for (const { client } of this.#present.values()) client?.end();
    for (const app of APPLICATIONS) await bus.send('DELETE', `/application/${app}`);
    // A failed step may have left microservices on machines, which keep their application.
    for (let i = 0; i < 2; i++) {
      for (const node of [fleet.node(0), fleet.node(1), fleet.spare]) fleet.report(node);
      fleet.time.now += 3_000;
      await fleet.settle();
    }
    for (const part of ['account', 'user'])
      for (const name of ['first', 'second']) await bus.send('DELETE', `/bus/${part}-rules/${name}`);
    await server.deliver();
  }
}

test(
  `after any steps a real server lets in, stops and refuses whom the rules say (${about})`,
  async () => {
    await fc.assert(
      fc.asyncProperty(busSteps, async (steps) => {
        const story = new Story();
        server.remember();
        try {
          await story.begin();
          for (const [index, step] of steps.entries()) {
            try {
              await story.take(step);
            } catch (error) {
              if (error instanceof Error) error.message = `step ${index} (${step.operation.do}): ${error.message}`;
              throw error;
            }
          }
        } catch (error) {
          // What follows from it would hide it.
          await story.end().catch(() => {});
          throw error;
        }
        await story.end();
      }),
      // A failed step leaves the server as no other sequence expects it: fewer steps would fail for another reason.
      { ...budget, endOnFailure: true },
    );
  },
  timeout,
);
