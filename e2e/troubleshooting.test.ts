import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { ControllerClient } from '../agent/src/link/client.ts';
import { systemClock } from '../agent/src/machine/clock.ts';
import { newKey, publicPart } from '../agent/src/state/identity.ts';
import { signingKey } from '../agent/src/state/token.ts';
import { findTools } from '../hack/binaries.ts';
import { tryLock } from '../hack/lock.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { startStack } from '../hack/stack/stack.ts';
import { API_VERSION } from '../src/api/names.ts';
import { type AgentProcess, createStack, until, untilReady, webApplication } from './_stack.ts';

/**
 * Reproduces every entry of docs/troubleshooting.md: what the page shows is what a user sees. The first block of an entry
 * is a command after `$` and its output; `<...>` stands for what differs from case to case.
 */
const PAGE = readFileSync(join(ROOT, 'docs/troubleshooting.md'), 'utf8');

const MAIN = join(ROOT, 'src/main.ts');

interface Entry {
  title: string;
  command: string;
  shown: string[];
}

const ENTRIES: Entry[] = [...PAGE.matchAll(/^### (.+)\n\n((?: {4}.*\n)+)/gm)].map(([, title = '', block = '']) => {
  const [command = '', ...shown] = block.split('\n').map((line) => line.slice(4));
  return { title, command: command.replace(/^\$ /, ''), shown: shown.filter((line) => line.trim() !== '') };
});

/** A line of the page as a pattern: columns may be of any width. */
const patternOf = (line: string) =>
  new RegExp(
    line
      .trim()
      .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      .replace(/<[^<>]*>/g, '.+')
      .replace(/ +/g, '\\s+'),
  );

let agent: AgentProcess;
let other: AgentProcess;
let kubectl: string;

({ kubectl } = await findTools(['kubectl']));
const stack = await createStack();
const controller = await stack.startController();
await speakOnce('gw-silent');
[agent, other] = [await stack.startAgent('gw-1', controller), await stack.startAgent('gw-2', controller)];

/** Runs a program of the page in the namespace of this test; returns its whole output. */
function said(program: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, KUBECONFIG: inject('kubeconfig') };
  return new Promise((resolve) => {
    execFile(program, args, { env, timeout: 60_000 }, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
}
const kube = (...args: string[]) => said(kubectl, '--namespace', stack.namespace, ...args);
const cli = async (machine: AgentProcess, ...args: string[]) => {
  const { stdout, stderr } = await machine.cli(...args);
  return stdout + stderr;
};

/** An agent that was provisioned, reported once, and then sent nothing more. */
async function speakOnce(name: string): Promise<void> {
  await stack.apply({ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name }, spec: { statusFrequency: 1 } });
  const uuid = await until('the node to have an identity', async () => (await stack.node(name))?.status?.uuid);
  const { body } = await stack.rest(controller)('GET', `/node/${uuid}/provisioning-key`);
  const nodeKey = newKey();
  const options = { controllerUrl: controller.url, instance: 'once', boot: 'once', clock: systemClock() };
  const nobody = new ControllerClient(options);
  const client = new ControllerClient({ ...options, node: { uuid: uuid as string, key: signingKey(nodeKey) } });
  try {
    await nobody.provision({ key: body.key, type: 1, publicKey: publicPart(nodeKey) });
    await client.ping();
    // A token that was issued in the second in which the controller started gets 503: a later one is needed.
    await until('the report to be taken', () => client.report({ daemonStatus: 'RUNNING' }).then(() => true));
  } finally {
    nobody.close();
    client.close();
  }
}

/** Applies an application of one microservice on a node, with the changes of the test. */
async function apply(name: string, change: (entry: Record<string, unknown>) => void, image?: string, node = 'gw-1') {
  const object = webApplication(name, node, image ?? (await stack.image(`t-${name}`)), await freePort());
  change(object.spec.microservices[0] as never);
  await stack.apply(object);
  return object;
}

/** What kubectl shows of an application. */
const application = (name: string) => kube('get', 'application', name, '-o', 'wide');

/** Title -> what a user sees; repeated until the output has the lines of the page. */
const STORIES: Record<string, { prepare?: () => Promise<unknown>; look: () => Promise<string> }> = {
  'The image cannot be pulled': {
    prepare: async () => apply('no-image', () => {}, (await stack.image('there')).replace(':there', ':no-such-tag')),
    look: () => application('no-image'),
  },
  'A microservice ends again and again': {
    prepare: () =>
      apply('crashes', (entry) => Object.assign(entry.container as object, { commands: ['--no-such-flag'] })),
    look: () => application('crashes'),
  },
  'Two microservices want one port': {
    prepare: async () => {
      const port = await freePort();
      for (const name of ['port-first', 'port-second']) {
        await stack.apply(webApplication(name, 'gw-1', await stack.image('port'), port));
        if (name === 'port-first') await untilReady(stack, name);
      }
    },
    look: () => application('port-second'),
  },
  'The registry does not exist': {
    prepare: () => apply('no-registry', (entry) => Object.assign(entry.images as object, { registry: 'plant' })),
    look: () => application('no-registry'),
  },
  'The node does not exist': {
    prepare: () => apply('no-node', () => {}, undefined, 'gw-9'),
    look: () => application('no-node'),
  },
  "The machine's policy refuses it": {
    prepare: async () => {
      writeFileSync(join(other.dir, 'policy.yaml'), 'privileged: false\n');
      await other.stop();
      await other.start();
      await apply(
        'privileged',
        (entry) => Object.assign(entry.container as object, { isPrivileged: true }),
        undefined,
        'gw-2',
      );
    },
    look: () => application('privileged'),
  },
  'It was stopped on the machine': {
    prepare: async () => {
      await apply('stopped', () => {});
      await untilReady(stack, 'stopped');
      await agent.cli('ms', 'stop', 'stopped.web');
    },
    look: () => application('stopped'),
  },
  'kubectl refuses the file': {
    look: async () => {
      const object = webApplication('refused', 'gw-1', 'image:1', 80);
      Object.assign(object.spec.microservices[0]?.container as object, { ports: [{ internal: 80, external: 99999 }] });
      const file = join(agent.dir, 'plant-a.yaml');
      writeFileSync(file, JSON.stringify(object));
      return kube('apply', '--server-side', '-f', file);
    },
  },
  'A node was never provisioned': {
    prepare: () => stack.apply({ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name: 'gw-new' }, spec: {} }),
    look: () => kube('get', 'edgenode', 'gw-new', '-o', 'wide'),
  },
  'A node is silent': { look: () => kube('get', 'edgenode', 'gw-silent', '-o', 'wide') },
  'REST says 401': {
    look: () => said('curl', '-sS', `${controller.url}/api/v3/node-list`),
  },
  'The provisioning key is not known': {
    prepare: () => other.cli('deprovision', '--yes'),
    look: () => cli(other, 'provision', `skerry://${new URL(controller.url).host}/used-or-replaced-key-0000`),
  },
  'The controller deleted this node while it was offline': {
    prepare: async () => {
      const uuid = (await stack.node('gw-1'))?.status?.uuid;
      await agent.stop();
      await stack.remove('edgenodes', 'gw-1');
      await kube('patch', 'edgenode', 'gw-1', '--type=merge', '-p', '{"metadata":{"finalizers":null}}');
      await until('the node to be gone', async () => (await stack.node('gw-1')) === undefined);
      expect(uuid).toBeDefined();
      await agent.start();
    },
    look: () => cli(agent, 'doctor'),
  },
  'The controller does not answer': {
    prepare: () => controller.stop(),
    look: () => cli(agent, 'doctor'),
  },
  'Something else answers where the controller should': {
    prepare: async () => {
      const server = createServer((_request, response) => response.end('<h1>It works!</h1>'));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      server.unref();
      const { port } = server.address() as AddressInfo;
      writeFileSync(
        join(other.dir, 'config.yaml'),
        `${readFileSync(join(other.dir, 'config.yaml'), 'utf8')}\ncontrollerUrl: http://127.0.0.1:${port}\n`,
      );
    },
    look: () => cli(other, 'doctor'),
  },
  'The container engine does not answer': {
    prepare: async () => {
      const file = join(other.dir, 'config.yaml');
      const text = readFileSync(file, 'utf8').replace(
        /containerEngineUrl: .*/,
        'containerEngineUrl: unix:///run/gone.sock',
      );
      await other.stop();
      writeFileSync(file, text);
      await other.start();
    },
    look: () => cli(other, 'status'),
  },
  'No agent answers': {
    prepare: () => other.stop(),
    look: () => cli(other, 'status'),
  },
  'The agent does not start because of its settings': {
    prepare: async () => writeFileSync(join(other.dir, 'config.yaml'), 'statusFrequency: soon\n'),
    look: () => cli(other, 'start'),
  },
  'The local stack runs already': {
    look: async () => {
      const dir = join(other.dir, 'stack');
      await using _first = tryLock(join(dir, 'lock'));
      return startStack({ dir, log: () => {} }).then(
        () => 'started',
        (error: Error) => error.message,
      );
    },
  },
};

/** Value of a series of a metrics page, by the beginning of its line; undefined while there is none. */
const sampleOf = (page: string, series: string) => {
  const line = page.split('\n').find((each) => each.startsWith(`${series} `) || each.startsWith(`${series}{`));
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ')));
};

describe('the metrics of a controller and an agent', () => {
  test('have values for a node and an application that became ready, and no names of objects', async () => {
    await apply('measured', () => {});
    await untilReady(stack, 'measured');
    const page = async () => (await fetch(`${controller.metricsUrl}/metrics`)).text();
    let text = '';
    await until('the figures of the fleet', async () => {
      text = await page();
      return (
        (sampleOf(text, 'skerry_nodes{state="RUNNING"}') ?? 0) >= 2 &&
        sampleOf(text, 'skerry_microservices{state="RUNNING"}') === 1 &&
        // Between two polls of an agent there is none.
        (sampleOf(text, 'skerry_agent_long_polls') ?? 0) > 0
      );
    });
    for (const series of [
      'skerry_leader{lease="skerry-controller"}',
      'skerry_agent_long_polls',
      'skerry_application_ready_lag_seconds_count',
      'skerry_agent_send_delay_seconds_count',
      'skerry_agent_long_polls_ended_total{outcome="due"}',
      'skerry_agent_requests_total{kind="poll"}',
      'skerry_provisionings_total{outcome="new"}',
      'skerry_applications{ready="True",reason="AllRunning"}',
      'skerry_node_contact_age_seconds{quantile="1"}',
    ])
      expect(sampleOf(text, series), series).toBeGreaterThan(0);
    expect(sampleOf(text, 'workqueue_depth{name="application"}')).toBeDefined();
    expect(sampleOf(text, 'skerry_mass_silence')).toBe(0);
    // No object is named: a fleet of thousands of nodes has no more series than one of two.
    expect(text).not.toContain('gw-1');
    expect(text).not.toContain('measured');

    const { localApiPort } = parse(readFileSync(join(agent.dir, 'config.yaml'), 'utf8'));
    const own = await (await fetch(`http://127.0.0.1:${localApiPort}/metrics`)).text();
    for (const series of [
      'edge_agent_controller_connected',
      'edge_agent_engine_connected',
      'edge_agent_running_microservices',
      'edge_agent_starts_total{reason="New"}',
      'edge_agent_pulls_total{outcome="ok"}',
      'edge_agent_pull_duration_seconds_count',
      'edge_agent_reconcile_duration_seconds_count',
      'edge_agent_controller_requests_total{kind="poll",code="200"}',
      'edge_agent_disk_used_bytes',
      'edge_agent_last_contact_timestamp_seconds',
    ])
      expect(sampleOf(own, series), series).toBeGreaterThan(0);
    const uuid = (await stack.node('gw-1'))?.status?.uuid;
    const node = await until('the disk usage to be reported', async () => {
      const { body } = await stack.rest(controller)('GET', `/node/${uuid}`);
      return (body as { diskUsage: number }).diskUsage > 0 ? (body as { diskUsage: number }) : undefined;
    });
    // The usage of the agent, not of the whole disk.
    expect(node.diskUsage).toBeLessThan(1);
    expect(readFileSync(join(agent.dir, 'log/agent.log'), 'utf8')).toContain('Connected to the controller');
  }, 180_000);
});

test("a controller's support bundle has nodes and applications, and no secret", async () => {
  const canary = 'canary-51a7';
  const object = webApplication('canary', 'gw-nowhere', 'image:1', 80);
  Object.assign(object.spec.microservices[0] as object, { config: { password: `${canary}-config` } });
  Object.assign(object.spec.microservices[0]?.container as object, {
    env: [{ key: 'PASSWORD', value: `${canary}-env` }],
    commands: [`--token=${canary}-argument`],
  });
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'canary' },
    stringData: { password: `${canary}-secret` },
  };
  const registry = {
    apiVersion: API_VERSION,
    kind: 'Registry',
    metadata: { name: 'canary' },
    spec: {
      url: 'https://registry.example.com',
      username: 'robot',
      passwordSecretRef: { name: 'canary', key: 'password' },
    },
  };
  for (const each of [object, secret, registry]) {
    const file = join(agent.dir, `${each.kind}.json`);
    writeFileSync(file, JSON.stringify(each));
    // Stores the whole file in an annotation, as `kubectl apply` does.
    expect(await kube('create', '--save-config', '-f', file)).toContain('created');
  }
  const env = {
    KUBECONFIG: inject('kubeconfig'),
    CONTROLLER_NAMESPACE: stack.namespace,
    METRICS_PORT: new URL(controller.metricsUrl).port,
  };
  const text = await said(
    'env',
    ...Object.entries(env).map((pair) => pair.join('=')),
    process.execPath,
    MAIN,
    'support-bundle',
  );
  expect(text).not.toContain(canary);
  const document = JSON.parse(text);
  expect(document).toMatchObject({ ready: 'ok', about: { namespace: stack.namespace } });
  expect(document.metrics).toContain('skerry_leader{lease="skerry-controller"} 1');
  expect(document.nodes.map((node: { metadata: { name: string } }) => node.metadata.name)).toContain('gw-1');
  const [shown] = document.applications.filter(
    (each: { metadata: { name: string } }) => each.metadata.name === 'canary',
  );
  expect(shown.spec.microservices[0]).toMatchObject({
    images: { amd64: 'image:1' },
    config: '***',
    container: { env: [{ key: 'PASSWORD', value: '***' }], ports: [{ internal: 8080 }] },
  });
  await stack.remove('applications', 'canary');
}, 120_000);

describe('docs/troubleshooting.md', () => {
  test('has exactly the entries that are reproduced here', () => {
    expect(ENTRIES.map(({ title }) => title)).toEqual(Object.keys(STORIES));
  });

  // In order: later entries remove things that earlier ones need.
  for (const [title, { prepare, look }] of Object.entries(STORIES))
    test(title, async () => {
      await prepare?.();
      const entry = ENTRIES.find((each) => each.title === title);
      let last = '';
      await until(
        `"${title}" to look as the page says`,
        async () => {
          last = await look();
          return entry?.shown.every((line) => patternOf(line).test(last));
        },
        { timeoutMs: 90_000, intervalMs: 300 },
      ).catch((error: Error) => {
        throw new Error(`${error.message}\nThe page shows:\n${entry?.shown.join('\n')}\nand there is:\n${last}`);
      });
    }, 180_000);
});
