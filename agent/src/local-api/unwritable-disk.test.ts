import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { plainView } from '../_web.ts';
import { ARTIFACT_KINDS } from '../domain/artifact.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FilledDisk } from '../faults/_filled-disk.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { manifestOf } from '../local/_manifest.ts';
import { localRowSchema } from '../local/row.ts';
import { identityFile } from '../state/identity.ts';
import { openRows } from '../state/rows.ts';
import { openSqliteDatabase } from '../state/sqlite-database.ts';
import { contentOnDisk } from './_content-on-disk.ts';
import { LocalAgent } from './_local-agent.ts';
import { ROUTES } from './routes.ts';

/**
 * Every command of the machine that changes something, on a disk that is full and on one that is read-only: what has to
 * survive the end of the agent is refused, and the next start of the agent has the state from before.
 */

/** A file system of its own, in memory. */
class Disk extends FilledDisk {
  constructor() {
    super(temporaryFolder());
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'none', this.mount]);
  }

  [Symbol.dispose](): void {
    execFileSync('umount', ['-l', this.mount]);
  }
}

interface Row {
  /** the command; absent: the route has none of its own */
  command?: string[];
  /** why nothing of it has to survive the end of the agent, or what else keeps it; absent: it has to, on this disk */
  elsewhere?: string;
  /** it only removes a file, which a full disk lets it do */
  makesRoom?: true;
  /** needs a machine that is no node */
  needsNoNode?: true;
}

const CERTIFICATE = join(import.meta.dirname, '../link/testdata/ca.pem');

const [web, queue] = [randomUUID(), randomUUID()];

const VOLUMES = 'the directories go; volumes.engine.test.ts has it on a disk that takes no writes';

const CONTROL_PLANE = 'control-plane.test.ts has it on a disk that takes no writes';

/** What the routes do, by method and path. A route that is not here fails the test. */
const CHANGES: Record<string, Row> = {
  'POST /v1/system/provision': { command: ['provision', 'JOIN'], needsNoNode: true },
  'DELETE /v1/system/provision': { command: ['deprovision', '--yes'] },
  'PATCH /v1/system/config': { command: ['config', 'logLevel=DEBUG'] },
  'POST /v1/system/config/switch': { command: ['config', 'switch', 'production'] },
  'POST /v1/system/controller/cert': { command: ['config', 'cert', `@${CERTIFICATE}`] },
  'POST /v1/system/gps': { command: ['gps', 'set', '47.5', '-8.7'] },
  'POST /v1/system/edge-guard/accept': { elsewhere: 'it is tested with another machine (link/edge-guard.test.ts)' },
  'POST /v1/system/drain': { elsewhere: 'the next start of the agent ends it' },
  'POST /v1/ms/{id}/stop': { command: ['ms', 'stop', 'shop.web'] },
  'POST /v1/ms/{id}/start': { command: ['ms', 'start', 'shop.queue'] },
  'POST /v1/ms/{id}/restart': { command: ['ms', 'restart', 'shop.queue'] },
  'POST /v1/models:prune': { command: ['model', 'prune'], elsewhere: 'nothing is here to be removed' },
  'POST /v1/knowledge:prune': { command: ['knowledge', 'prune'], elsewhere: 'nothing is here to be removed' },
  'POST /v1/system/prune': { command: ['prune'], elsewhere: 'the engine has the images' },
  'POST /v1/images:pull': { command: ['image', 'pull', 'app:1'], elsewhere: 'the engine has the images' },
  'POST /v1/images:load': { elsewhere: 'the engine has the images' },
  'POST /v1/images:prune': { command: ['image', 'prune'], elsewhere: 'the engine has the images' },
  'POST /v1/images:remove': { elsewhere: 'the engine has the images' },
  'DELETE /v1/system/orphans': {
    command: ['orphans', '--remove', '--yes'],
    elsewhere: 'the engine has the containers',
  },
  'POST /v1/deploy/microservices:apply': { command: ['deploy', '-f', 'MANIFEST'] },
  'POST /v1/deploy/microservices:validate': { elsewhere: 'it changes nothing' },
  'DELETE /v1/deploy/microservices/{id}': { command: ['ms', 'rm', 'skerry-agent.own'] },
  'POST /v1/deploy/controlplane:apply': { command: ['deploy', '-f', 'CONTROL_PLANE'] },
  'POST /v1/deploy/controlplane:validate': { elsewhere: 'it changes nothing' },
  'POST /v1/system/controlplane/restart': { elsewhere: CONTROL_PLANE },
  'DELETE /v1/system/controlplane': { elsewhere: CONTROL_PLANE },
  'POST /v1/deploy/models:apply': { command: ['deploy', '-f', 'MODEL'] },
  'POST /v1/deploy/models:validate': { elsewhere: 'it changes nothing' },
  'POST /v1/models:pull': { command: ['model', 'pull', 'own', '--repo', 'team/new', '--registry', '4'] },
  'DELETE /v1/models/{name}': { command: ['model', 'rm', 'own'], makesRoom: true },
  'POST /v1/deploy/knowledge:apply': { command: ['deploy', '-f', 'KNOWLEDGE'] },
  'POST /v1/deploy/knowledge:validate': { elsewhere: 'it changes nothing' },
  'POST /v1/knowledge:pull': { command: ['knowledge', 'pull', 'own', '--repo', 'team/new', '--registry', '4'] },
  'DELETE /v1/knowledge/{name}': { command: ['knowledge', 'rm', 'own'], makesRoom: true },
  'POST /v1/deploy/registries:apply': { command: ['deploy', '-f', 'REGISTRY'] },
  'POST /v1/deploy/registries:validate': { elsewhere: 'it changes nothing' },
  'DELETE /v1/deploy/registries/{id}': { command: ['registry', 'rm', '5'], makesRoom: true },
  'POST /v1/deploy/runtimeclasses:apply': { command: ['deploy', '-f', 'CLASS'] },
  'POST /v1/deploy/runtimeclasses:validate': { elsewhere: 'it changes nothing' },
  'DELETE /v1/deploy/runtimeclasses/{name}': { command: ['runtimeclass', 'rm', 'own'], makesRoom: true },
  'DELETE /v1/ms/{id}': { command: ['ms', 'rm', 'shop.queue'], elsewhere: 'the engine has the containers' },
  'POST /v1/ms/{id}/kill': { elsewhere: 'a signal is sent once' },
  'POST /v1/ms/{id}/exec/sessions': { elsewhere: 'a session ends with the agent' },
  'DELETE /v1/ms/{id}/exec/sessions/{sessionId}': { elsewhere: 'a session ends with the agent' },
  'POST /v1/system/reload': { elsewhere: 'it reads' },
  'POST /v1/system/stop': { command: ['stop'], elsewhere: 'it ends the process' },
  'POST /v1/auth/tokens/revoke': { elsewhere: 'tokens.test.ts has it on a disk that takes no writes' },
  'DELETE /v1/volumes/{uuid}': { elsewhere: VOLUMES },
  'DELETE /v1/volumes/shared/{name}': { elsewhere: VOLUMES },
  'POST /v1/volumes:prune': { elsewhere: VOLUMES },
};

const changing = ROUTES.filter(({ method }) => method !== 'GET').map(({ method, path }) => `${method} ${path}`);
const DURABLE = Object.values(CHANGES).filter(({ elsewhere }) => elsewhere === undefined);

test('every route of the local API that changes something says whether it has to survive the end of the agent', () => {
  const known = changing.filter((route) => !route.includes('/v1/microservices/'));
  expect(Object.keys(CHANGES).toSorted()).toEqual(known.toSorted());
});

describe.skipIf(process.getuid?.() !== 0)('on a disk that takes no writes', () => {
  let disk: Disk;
  /** on a disk that takes writes, as /run is */
  let folder: string;
  let engine: MemoryEngine;
  let controller: FakeController;
  let local: LocalAgent;
  let manifest: string;
  /** files by the words of commands that stand for them */
  let manifests: Map<string, string>;

  beforeEach(async () => {
    disk = new Disk();
    folder = temporaryFolder();
    manifest = join(temporaryFolder(), 'own.yaml');
    manifests = new Map([['MANIFEST', manifest]]);
    engine = new MemoryEngine({ anyImage: true });
    controller = await new FakeController().listen();
    controller.microservices = [plainView({ uuid: web }), plainView({ uuid: queue, name: 'queue' })];
    await begin();
    return async () => {
      await local[Symbol.asyncDispose]();
      await controller.close();
      disk[Symbol.dispose]();
    };
  });

  async function begin(): Promise<void> {
    const data = join(disk.mount, 'data');
    try {
      mkdirSync(data, { recursive: true });
      const places = `diskDirectory: ${data}\nrunDirectory: ${join(folder, 'run')}\n`;
      writeFileSync(join(data, 'config.yaml'), `${places}profiles: {default: {}, production: {}}\n`, { flag: 'wx' });
    } catch {}
    local = await LocalAgent.start({
      ...{ folder, data, engine, controller, writesSettings: true },
      deps: {
        database: openSqliteDatabase(join(data, 'agent.db'), Date.now(), [folder]).database,
        identity: identityFile(join(data, 'identity.json'), Date.now, () => {}),
        ownMicroservices: openRows(join(data, 'local', 'microservices'), localRowSchema),
        ...contentOnDisk(data),
      },
    });
    local.agent.config.controllerCert = join(data, 'cert.crt');
  }

  async function end(): Promise<void> {
    const { database } = local.agent;
    await local[Symbol.asyncDispose]();
    database[Symbol.dispose]();
  }

  /** The states of both microservices, and whether the machine is a node; by what people see. */
  async function seen(): Promise<unknown> {
    const { node, controllerConnection } = JSON.parse((await local.cli('status', '-o', 'json')).out);
    const { items } = JSON.parse((await local.cli('ms', 'ls', '-o', 'json')).out);
    const states = items.map(({ name, state }: Record<string, string>) => `${name} ${state}`).toSorted();
    const { registries, runtimeClasses, localArtifacts } = local.agent;
    const content = [
      ...registries.all.map(({ id, url }) => `${id} ${url}`),
      ...runtimeClasses.all.map(({ name }) => `class ${name}`),
      ...ARTIFACT_KINDS.flatMap((kind) => localArtifacts.own.views[kind].map(({ repo }) => `${kind} ${repo}`)),
    ];
    return { node: node?.uuid, isNode: controllerConnection !== 'NOT_PROVISIONED', states, content };
  }

  const BEFORE = {
    isNode: true,
    states: ['own RUNNING', 'queue STOPPED', 'web RUNNING'],
    content: [
      ...['1 docker.io', '2 from_cache', '3 https://huggingface.co', '4 127.0.0.1:1', '5 registry.example'],
      ...['class own', 'models team/own', 'knowledge team/own'],
    ],
  };

  /** Registries, artifacts and a runtime class of the machine, and manifests that would change them or add others. */
  function defineContent(): void {
    const { registries, runtimeClasses, localArtifacts } = local.agent;
    const plain = { type: 'oci' as const, isPublic: true, username: '', password: '', userEmail: '', ca: '' };
    for (const url of ['127.0.0.1:1', 'registry.example']) registries.apply({ ...plain, url, insecure: false });
    runtimeClasses.apply({ name: 'own', handler: 'runc' });
    for (const kind of ARTIFACT_KINDS)
      localArtifacts.apply(kind, { name: 'own', repo: 'team/own', revision: '', files: [], registry: 4 });
    const artifact = { metadata: { name: 'new' }, spec: { repo: 'team/new', registry: 5 } };
    const controller = { image: 'example/control-plane:1' };
    const written = {
      CONTROL_PLANE: {
        kind: 'ControlPlane',
        metadata: { name: 'hub' },
        spec: { controller, auth: { mode: 'embedded' } },
      },
      MODEL: { kind: 'Model', ...artifact },
      KNOWLEDGE: { kind: 'Knowledge', ...artifact },
      REGISTRY: { kind: 'Registry', spec: { url: 'new.example', private: false } },
      CLASS: { kind: 'RuntimeClass', metadata: { name: 'new' }, handler: 'runc' },
    };
    for (const [word, rest] of Object.entries(written)) {
      const file = join(dirname(manifest), `${word}.json`);
      writeFileSync(file, JSON.stringify({ apiVersion: 'agent.skerry.dev/v1', ...rest }));
      manifests.set(word, file);
    }
  }

  const disks: Record<string, { before(): Promise<void>; after(): void }> = {
    full: { before: async () => disk.fill(), after: () => disk.free() },
    'read-only': {
      before: async () => {
        await end();
        disk.make('ro');
        await begin();
        await until('a look at the engine', async () => (await local.cli('ms', 'ls')).code === 0);
      },
      after: () => disk.make('rw'),
    },
  };

  for (const [kind, { before, after }] of Object.entries(disks)) {
    test(`no command promises what a ${kind} disk forgets`, async () => {
      await local.agent.provision(controller.joinString);
      await until('RUNNING', () => [web, queue].every((uuid) => controller.microservice(uuid)?.status === 'RUNNING'));
      expect(await local.cli('ms', 'stop', 'shop.queue')).toMatchObject({ code: 0 });
      writeFileSync(manifest, manifestOf('own', 'example/own:1'));
      expect(await local.cli('deploy', '-f', manifest)).toMatchObject({ code: 0 });
      writeFileSync(manifest, manifestOf('own', 'example/own:2'));
      defineContent();
      await before();
      const node = controller.nodeUuid;
      expect(await seen()).toEqual({ ...BEFORE, node });
      const tried = DURABLE.filter(({ needsNoNode, makesRoom }) => !needsNoNode && !(makesRoom && kind === 'full'));
      for (const { command = [] } of tried) {
        const { code, out, err } = await local.cli(...command.map((word) => manifests.get(word) ?? word));
        expect({ command, code, out }).toEqual({ command, code: 1, out: '' });
        expect(err, command.join(' ')).toMatch(
          /^Error\[UNAVAILABLE\]: this cannot be saved, so .*\. Make room on the disk/,
        );
      }
      expect(controller.removing).toBeUndefined();
      await end();
      after();
      await begin();
      await until(
        'the state from before',
        async () => JSON.stringify(await seen()) === JSON.stringify({ node, ...BEFORE }),
      );
      const settings = (await local.cli('config', '-o', 'json')).out;
      expect(JSON.parse(settings)).toMatchObject({ logLevel: 'INFO' });
    });

    test(`a machine with a ${kind} disk does not use up a provisioning key, and joins once the disk takes writes`, async () => {
      await before();
      const { code, err } = await local.cli('provision', controller.joinString);
      expect(code).toBe(1);
      expect(err).toMatch(/^Error\[UNAVAILABLE\]: this cannot be saved, so the key was not used: /);
      expect(controller.requests.filter(({ path }) => path === '/agent/provision')).toEqual([]);
      expect(await seen()).toMatchObject({ isNode: false });
      await end();
      after();
      await begin();
      expect(await local.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
    });
  }
});
