import { spawn } from 'node:child_process';
import { ROOT } from './paths.ts';
import { formatDuration } from './progress.ts';
import type { Project } from './vitest.ts';

/** A run that takes too long for every change: usually a test of `make test` with more load or cases. */
interface Run {
  name: string;
  about: string;
  /** arguments of node */
  command: readonly string[];
  env?: Readonly<Record<string, string>>;
}

/** One line for each run. All get SKERRY_NIGHTLY, which selects the long form of a test. */
const RUNS: readonly Run[] = [
  {
    name: 'link',
    about: 'bad links for ten minutes each',
    command: tests('e2e', 'e2e/link.test.ts'),
  },
  {
    name: 'agent-faults',
    about:
      'the agent killed before and after every operation and commit of its database; every engine killed before, during and after its part in what a person asks of the machine',
    command: tests('engine', 'agent/src/faults'),
  },
  {
    name: 'local-sequences',
    about:
      'random edits of a machine and its controller against a model, with other seeds every night; a process that ends at each call',
    command: tests('unit', 'agent/src/local'),
  },
  {
    name: 'agent-damage',
    about: '10,000 damaged databases',
    command: tests('unit', 'agent/src/faults/damage.test.ts'),
    env: { SKERRY_DAMAGE_POINTS: '10000' },
  },
  {
    name: 'volume-races',
    about: 'a thousand volumes destroyed while their container starts',
    command: tests('unit', 'agent/src/content/volumes/race.test.ts'),
  },
  {
    name: 'completion',
    about: 'completions of the command line of the agent in zsh and fish',
    command: tests('unit', 'agent/src/cli/commands/completion.test.ts'),
  },
  {
    name: 'relay',
    about: 'sessions between replicas over a real AMQP 1.0 broker and a real message bus',
    command: tests('unit', 'src/sessions/relay-brokers.test.ts'),
  },
  {
    name: 'natscli',
    about: 'tokens of the message bus as `nats auth` reads them',
    command: tests('unit', 'src/subjects/bus-rules/rules/tokens/natscli.test.ts'),
  },
  {
    name: 'bus',
    about: 'a machine with a bus server that is cut off for ten minutes, with a hub of three',
    command: tests('e2e', 'e2e/bus-hub.test.ts'),
  },
  {
    name: 'bus-page',
    about: 'the page of the message bus as typed, on a local stack, with the command line of NATS and a device of MQTT',
    command: tests('e2e', 'e2e/bus-page.test.ts'),
  },
  {
    name: 'services',
    about:
      'services between two machines while tags change a hundred times, and a default router that is edited by hand',
    command: tests('e2e', 'e2e/services.test.ts'),
  },
  {
    name: 'login-pages',
    about:
      'every page of a login and its failures in Chromium, in light and dark, on a desktop and a phone, with pictures',
    command: tests('e2e', 'e2e/browser-login.test.ts'),
  },
  {
    name: 'identity',
    about:
      'random operations of users at two replicas, random attempts to give more than one has, and user names by the time of answers',
    command: tests(
      'api',
      'src/identity/names-by-time.api.test.ts',
      'src/identity/property.api.test.ts',
      'src/subjects/access/escalation.api.test.ts',
    ),
  },
  {
    name: 'sessions',
    about:
      'sessions of a GiB over a slow link, unread and whole, with what they take of memory; a link that is cut; an agent that is killed',
    command: tests('e2e', 'e2e/sessions.test.ts'),
  },
  {
    name: 'session-engines',
    about:
      'sessions whose container is started again or whose engine is killed, and a log that is rotated, on docker and podman',
    command: tests(
      'engine',
      'agent/src/sessions',
      'agent/src/local-api/sessions.engine.test.ts',
      'agent/src/engines/contract.engine.test.ts',
    ),
  },
  {
    name: 'agent-updates',
    about: 'an update of the agent killed before each change of the disk',
    command: tests('unit', 'agent/src/update/updater.test.ts'),
  },
  {
    name: 'requests',
    about: 'requests that a generator makes from the OpenAPI document',
    command: tests('api', 'src/rest/generated-requests.api.test.ts'),
  },
  {
    name: 'podman',
    about: 'the main job on podman',
    command: tests('e2e', 'e2e/main-job.test.ts'),
    env: { SKERRY_ENGINE: 'podman' },
  },
  {
    name: 'certificates',
    about: 'HTTPS in containers across renewals and another key of the authority, on podman',
    command: tests('e2e', 'e2e/certificates.test.ts'),
    env: { SKERRY_ENGINE: 'podman' },
  },
  {
    name: 'leader-faults',
    about:
      'a leader killed before and after each write of certificates, of the platform of a node, of services and of users',
    command: tests(
      'unit',
      'src/subjects/pki/reconcile/killed.test.ts',
      'src/subjects/platform/reconcile/killed.test.ts',
      'src/subjects/services/reconcile/killed.test.ts',
      'src/subjects/identity/reconcile/killed.test.ts',
    ),
  },
  {
    name: 'bus-faults',
    about:
      'a leader killed before and after each write of accounts, users, rules and the operator of the message bus, writes that are refused, and its lost keys',
    command: tests(
      'unit',
      'src/subjects/bus-accounts/reconcile/killed.test.ts',
      'src/subjects/bus-accounts/reconcile/refused-writes.test.ts',
      'src/subjects/bus-servers/reconcile/refused-writes.test.ts',
      'src/subjects/bus-servers/reconcile/lost-keys.test.ts',
    ),
  },
  {
    name: 'embedded',
    about: "every test of the agent and its engine on the agent's own engine, with Debian's containerd",
    command: tests('engine', 'agent/src'),
    env: { SKERRY_ENGINE: 'embedded' },
  },
  {
    name: 'containerd-2',
    about: 'the same with containerd 2, which is built in some minutes',
    command: tests('engine', 'agent/src'),
    env: { SKERRY_ENGINE: 'embedded', SKERRY_CONTAINERD: '2' },
  },
  {
    name: 'embedded-stories',
    about: "the main job, and terminals and logs from the controller, on the agent's own engine",
    command: tests('e2e', 'e2e/main-job.test.ts', 'e2e/sessions.test.ts'),
    env: { SKERRY_ENGINE: 'embedded' },
  },
  {
    name: 'agent-engines',
    about: 'every test of the agent on every engine, also with its models',
    command: tests('engine', 'agent/src/agent.engine.test.ts', 'agent/src/content/artifacts/artifacts.engine.test.ts'),
  },
  {
    name: 'registries',
    about: 'registries that misbehave and that change, with docker and podman',
    command: tests('engine', 'agent/src/content/registries'),
  },
  {
    name: 'images',
    about:
      'archives of images in every form, and an engine that is killed while it loads and pulls, on docker and podman',
    command: tests('engine', 'agent/src/content/images'),
  },
  {
    name: 'controller-faults',
    about: 'the controller killed before and after each of its writes',
    command: tests('e2e', 'e2e/controller-faults.test.ts'),
  },
  {
    name: 'silence',
    about: 'a thousand nodes fall silent at once',
    command: tests('e2e', 'e2e/controller-faults-silence.test.ts'),
    env: { SKERRY_NODES: '1000' },
  },
  {
    name: 'api-faults',
    about: 'an API server that refuses, fails, hangs and freezes',
    command: tests('e2e', 'e2e/controller-faults-api.test.ts'),
  },
  {
    name: 'restore',
    about: 'etcd restored from a snapshot and emptied, with and without a controller that lives on',
    command: tests('e2e', 'e2e/restore.test.ts'),
  },
  {
    name: 'fuzz',
    about: 'random documents at REST, readers and the API server, ten minutes each',
    command: tests('api', 'src/rest/fuzz.api.test.ts'),
  },
  {
    name: 'agreement',
    about: 'all documents made from the schemas through kubectl, files and JSON',
    command: tests('api', 'src/rest/agreement.api.test.ts'),
  },
  {
    name: 'sequences',
    about: 'random sequences of operations over all kinds against a model of the rules, for ten minutes',
    command: tests('unit', 'src/sequences.test.ts'),
  },
  {
    name: 'edit-cost',
    about: 'the cost of an edit among 10 and 1,000 objects of each kind',
    command: tests('alone', 'src/edit-cost.test.ts'),
  },
  {
    name: 'bus-cost',
    about: 'the cost of an edit among 10 and 1,000 accounts of the message bus',
    command: tests('unit', 'src/subjects/bus-accounts/reconcile/cost.test.ts'),
  },
  {
    name: 'bus-sequences',
    about: 'random steps on the message bus, with a real server of it, against a model, for ten minutes',
    command: tests('unit', 'src/subjects/bus-accounts/sequences.test.ts'),
  },
  {
    name: 'bus-sizes',
    about: '128 rules of the largest size and 10,000 users of one account on the message bus, at a real API server',
    command: tests('api', 'src/subjects/bus-accounts/sizes.api.test.ts'),
  },
  {
    name: 'service-sequences',
    about: 'random steps on services, microservices and nodes against a model of what each router has, for ten minutes',
    command: tests('unit', 'src/subjects/services/sequences.test.ts'),
  },
  {
    name: 'forms',
    about: 'random multipart forms, five minutes for each property',
    command: tests('unit', 'src/rest/server/multipart.test.ts'),
  },
  {
    name: 'fuzz-agent',
    about: 'a hostile controller says random things to the agent',
    command: tests('unit', 'agent/src/supervise/plan/hostile-controller.test.ts'),
  },
  {
    name: 'hostile',
    about: 'four gigabytes of hostile input at controller and agent',
    command: tests('e2e', 'e2e/hostile'),
    env: { SKERRY_HOSTILE_MIB: '4096' },
  },
  {
    name: 'history-known',
    about: 'the stories of random users and faults that failed once',
    command: tests('e2e', 'e2e/history/history.test.ts'),
  },
  {
    name: 'history',
    about: '200 stories of random users and faults, other ones every day',
    command: ['e2e/history/main.ts', '--from', 'today', '--count', '200'],
  },
  {
    name: 'history-embedded',
    about: "40 such stories, other ones every day, on the agent's own engine",
    command: ['e2e/history/main.ts', '--from', 'today', '--profile', 'real engine', '--count', '40'],
    env: { SKERRY_ENGINE: 'embedded' },
  },
  {
    name: 'history-podman',
    about: 'the same on podman',
    command: ['e2e/history/main.ts', '--from', 'today', '--profile', 'real engine', '--count', '40'],
    env: { SKERRY_ENGINE: 'podman' },
  },
  {
    name: 'upgrade',
    about: 'the last release upgraded to this version and back, with 200 agents that poll',
    command: tests('e2e', 'e2e/upgrade.test.ts'),
  },
  {
    name: 'installation',
    about:
      'the chart from its installation to the last command of the page of uninstalling; nothing of it drifts in a minute',
    command: tests('e2e', 'e2e/installation.test.ts'),
  },
  {
    name: 'cluster',
    about: 'the chart on a cluster with pods, a replica that hangs, and a machine behind NAT that joins it',
    command: tests('cluster', 'e2e/cluster.test.ts'),
  },
  {
    name: 'cluster-upgrade',
    about:
      'helm upgrade, rollback and uninstall, and a leader that is killed, on a cluster with pods, with 200 agents that poll',
    command: tests('e2e', 'e2e/cluster-upgrade.test.ts'),
  },
  {
    name: 'bus-hub',
    about:
      'the hub of the message bus as pods with CoreDNS and Calico: a member killed, a disk lost, evictions, a rolling restart, lost keys of its servers, TLS for clients',
    command: tests('e2e', 'e2e/bus-hub-pods.test.ts'),
  },
  {
    name: 'router-hub',
    about:
      'the default router as a pod with CoreDNS and Calico: a server on a machine outside by ClusterIP, name and NodePort, and another pod',
    command: tests('e2e', 'e2e/router-hub-pods.test.ts'),
  },
  {
    name: 'release',
    about: 'the release made twice, from two paths, with equal digests',
    command: ['hack/package/twice.ts'],
  },
  {
    name: 'targets',
    about: 'each target of the Makefile after each other one, in one checkout',
    command: ['hack/targets.ts'],
  },
  {
    name: 'machine',
    about: 'the package of the agent where systemd is init, and a watchdog that hangs',
    command: tests('engine', 'hack/package/machine.engine.test.ts'),
  },
  {
    name: 'own-engine',
    about:
      "the agent's own engine on a fresh Debian without a network: upgrades, kills, reboot, removal, purge; its faults: a minute of silence, an upgrade to containerd 2, a lost pull",
    command: tests('engine', 'hack/package/own-engine.engine.test.ts', 'agent/src/engines/embedded/machine'),
  },
  {
    name: 'machines',
    about:
      'fresh Debian machines: installed by one line, engine later, reboot, upgrade, purge, podman, IPv6, read-only root',
    command: tests('e2e', 'e2e/machines/machines.test.ts'),
  },
  {
    name: 'standalone',
    about: 'the page of one machine without a controller as typed, on a Debian with each engine and without a network',
    command: tests('e2e', 'e2e/machines/standalone-page.test.ts'),
  },
  {
    name: 'control-plane',
    about: 'the page of a control plane on a node as typed, with every engine',
    command: tests('engine', 'agent/src/control-plane.engine.test.ts'),
  },
  {
    name: 'control-plane-machines',
    about:
      "the same on two Debian machines with the agent's own engine and without a way out, and a reboot with the cable out",
    command: tests('e2e', 'e2e/machines/control-plane-page.test.ts'),
  },
  {
    name: 'install',
    about: 'the page of installation as typed, from a release to an application on a machine behind NAT',
    command: tests('e2e', 'e2e/machines/install-page.test.ts'),
  },
  {
    name: 'agent-container',
    about: 'the agent as a container beside the engine',
    command: tests('e2e', 'e2e/machines/agent-container.test.ts'),
  },
  {
    name: 'arm64',
    about: 'the agent for arm64, run by qemu',
    command: tests('engine', 'hack/package/arm64.engine.test.ts'),
  },
  {
    name: 'armv7',
    about: 'the agent for armv7, run by qemu: it joins, runs an application and updates itself',
    command: tests('e2e', 'e2e/machines/armv7.test.ts'),
  },
  {
    name: 'provider-down',
    about: 'the provider of the users away, frozen, and talking nonsense in three ways',
    command: tests('e2e', 'e2e/identity-provider-down.test.ts'),
  },
  {
    name: 'foreign-client',
    about: 'Apache with mod_auth_openidc as a client of the provider of the controller',
    command: tests('e2e', 'e2e/foreign-client.test.ts'),
  },
  {
    name: 'identity-page',
    about: 'the page of identity as typed with Dex, on a local stack',
    command: tests('e2e', 'e2e/identity-dex.test.ts'),
  },
  {
    name: 'keycloak',
    about: 'Keycloak as the provider of the users, at the controller and at an API server',
    command: tests('e2e', 'e2e/keycloak.test.ts'),
  },
  { name: 'bench', about: 'all benchmarks, the long ones too', command: ['bench/main.ts', '--long'] },
];

/** `make nightly`, or `node hack/nightly.ts [name...]`: the long runs, one after another. Continues after a failure. */
async function main(names: readonly string[]): Promise<number> {
  const known = RUNS.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    process.stderr.write(`There is no run "${unknown}"; there are:\n${list()}`);
    return 2;
  }
  const outcomes: string[] = [];
  let failed = 0;
  for (const { name, command, env } of RUNS.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const began = performance.now();
    process.stderr.write(`=== ${name}\n`);
    const code = await run(command, env);
    if (code !== 0) failed++;
    outcomes.push(`${code === 0 ? 'passed' : 'FAILED'}  ${name}  ${formatDuration(performance.now() - began)}`);
  }
  process.stdout.write(`${outcomes.join('\n')}\n${outcomes.length - failed} passed, ${failed} failed\n`);
  return failed > 0 ? 1 : 0;
}

const list = () => RUNS.map(({ name, about }) => `  ${name.padEnd(16)} ${about}\n`).join('');

function run(command: readonly string[], env: Run['env'] = {}): Promise<number | null> {
  const child = spawn(process.execPath, [...command], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, SKERRY_NIGHTLY: '1', ...env },
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
}

/** The arguments of node that run tests of one project. */
function tests(project: Project, ...paths: string[]): string[] {
  return ['node_modules/vitest/vitest.mjs', 'run', '--project', project, ...paths];
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
