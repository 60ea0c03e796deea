import { FIELD_MANAGERS, GROUP, VERSION } from '../../../src/api/names.ts';
import type { BusAccount, Service } from '../../../src/api/v3/index.ts';
import type { Kind } from '../../../src/kinds/definition.ts';
import { isForbidden, isNotFound, type KubeObject, LEASES } from '../../../src/kube/mod.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { listNews } from '../../../src/replicas/replicas.ts';
import { loginProblems } from '../../../src/rules/login-state.ts';
import { v3Name } from '../../../src/rules/names.ts';
import { KINDS } from '../../../src/subjects/kinds.ts';
import { diagnosisTable, structured } from '../../../src/terminal/output.ts';
import { type Command, type CommandContext, listApplications, listNodes } from '../context/command.ts';
import { hasPlatform } from '../objects/platform.ts';
import { readyOf } from '../objects/rows.ts';

interface Finding {
  check: string;
  status: 'ok' | 'warning' | 'failed';
  detail: string;
  todo?: string;
}

/** The checks in their order; a failed one ends the list when `isBase`, since the others need it. */
const CHECKS: readonly { isBase?: true; run: (context: CommandContext) => Promise<Finding> }[] = [
  { isBase: true, run: apiServer },
  { isBase: true, run: definitions },
  { run: controller },
  { run: logins },
  { run: clocks },
  { run: nodes },
  { run: platforms },
  { run: messageBus },
  { run: routers },
  { run: applications },
];

export const doctor: Command = {
  name: 'doctor',
  about: 'Look for what is wrong with the controller, the nodes and the applications',
  examples: ['doctor', 'doctor -o json'],
  async run(context) {
    const found: Finding[] = [];
    for (const { isBase, run } of CHECKS) {
      const finding = await run(context);
      found.push(finding);
      if (isBase && finding.status === 'failed') break;
    }
    const { format, out } = context;
    out(format === 'json' || format === 'yaml' ? structured(found, format) : diagnosisTable(found));
    if (found.some(({ status }) => status === 'failed')) context.exitWith(1);
  },
};

/** The oldest minor version of Kubernetes 1 that is supported. */
const OLDEST_MINOR = 32;

async function apiServer({ cluster: { client }, signal }: CommandContext): Promise<Finding> {
  const check = 'api server';
  try {
    const { gitVersion, minor } = await client.request<{ gitVersion: string; minor: string }>(
      'GET',
      '/version',
      undefined,
      { signal },
    );
    if (Number.parseInt(minor, 10) >= OLDEST_MINOR) return { check, status: 'ok', detail: gitVersion };
    return {
      check,
      status: 'warning',
      detail: gitVersion,
      todo: `Skerry needs Kubernetes 1.${OLDEST_MINOR} or newer.`,
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return {
      check,
      status: 'failed',
      detail: (error as Error).message,
      todo: 'Choose another --context, or see whether the cluster is reachable.',
    };
  }
}

async function definitions({ cluster: { client }, signal }: CommandContext): Promise<Finding> {
  const check = 'definitions';
  const wanted = (Object.values(KINDS) as Kind[]).map(({ definition }) => definition.plural);
  try {
    const { resources } = await client.request<{ resources: { name: string }[] }>(
      'GET',
      `/apis/${GROUP}/${VERSION}`,
      undefined,
      { signal },
    );
    const missing = wanted.filter((plural) => !resources.some(({ name }) => name === plural));
    if (missing.length === 0) return { check, status: 'ok', detail: `all ${wanted.length} kinds` };
    return {
      check,
      status: 'failed',
      detail: `missing: ${missing.join(', ')}`,
      todo: 'Apply crds/ of the release: Helm does not upgrade definitions.',
    };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return {
      check,
      status: 'failed',
      detail: 'none is installed',
      todo: 'Install the chart, or choose another --context.',
    };
  }
}

/** The Lease of the leader has the name of the controller. */
const LEADER_LEASE = FIELD_MANAGERS.controller;

async function controller({ cluster: { client, namespace }, signal, now }: CommandContext): Promise<Finding> {
  const check = 'controller';
  try {
    const lease = await client.find(LEASES, { namespace, name: LEADER_LEASE }, { signal });
    const { holderIdentity, renewTime, leaseDurationSeconds = 15 } = lease?.spec ?? {};
    if (!holderIdentity || !renewTime)
      return {
        check,
        status: 'failed',
        detail: `no replica leads in namespace ${namespace}`,
        todo: 'Is this the namespace of the controller? Then look at its pods and their logs.',
      };
    const silentMs = now() - Date.parse(renewTime);
    if (silentMs > leaseDurationSeconds * 2_000)
      return {
        check,
        status: 'failed',
        detail: `the leader ${holderIdentity} has not renewed its Lease for ${Math.round(silentMs / 1000)} s`,
        todo: 'No status is written meanwhile. Look at the pods of the controller and their logs.',
      };
    return { check, status: 'ok', detail: `${holderIdentity} leads` };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { check, status: 'warning', detail: 'you may not read Leases, so whether a replica leads is not known' };
  }
}

/** What the active replicas say; undefined where the user may not read it. */
async function newsOf({ cluster: { client, namespace }, signal, now }: CommandContext) {
  const clock = { ...systemClock, wall: now };
  return await listNews({ client, namespace, clock }, signal).catch((error) => {
    if (!isForbidden(error)) throw error;
    return undefined;
  });
}

const NOT_READ = { status: 'warning', detail: 'you may not read Leases' } as const;

async function logins(context: CommandContext): Promise<Finding> {
  const check = 'logins';
  const news = await newsOf(context);
  if (!news) return { check, ...NOT_READ };
  const states = news.flatMap(({ login }) => login ?? []);
  const [first] = states;
  if (!first) return { check, status: 'ok', detail: 'no replica says anything of them' };
  // Of two replicas one may reach the provider.
  const byDetail = new Map(
    states.flatMap((state) => loginProblems(state, context.now()).map((problem) => [problem.detail, problem.todo])),
  );
  if (byDetail.size > 0) {
    const [todo] = byDetail.values();
    return { check, status: 'warning', detail: [...byDetail.keys()].join('; '), ...(todo !== undefined && { todo }) };
  }
  if (first.off !== undefined) return { check, status: 'ok', detail: `off: ${first.off}` };
  return { check, status: 'ok', detail: `${first.mode}, at ${first.publicUrl}` };
}

async function clocks(context: CommandContext): Promise<Finding> {
  const check = 'clocks';
  const news = await newsOf(context);
  if (!news) return { check, ...NOT_READ };
  const wrong = news.flatMap(({ identity, skewSeconds }) =>
    skewSeconds === undefined ? [] : [`${identity} by ${skewSeconds} s`],
  );
  if (wrong.length === 0) return { check, status: 'ok', detail: "those of the replicas agree with the API server's" };
  return {
    check,
    status: 'warning',
    detail: `ahead of the API server's: ${some(wrong)}`,
    todo: 'Synchronise the clocks of the nodes of the cluster: tokens and codes are refused where clocks differ.',
  };
}

/** The first names of a list, and how many more there are. */
const some = (names: readonly string[]) =>
  names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ');

async function nodes(context: CommandContext): Promise<Finding> {
  const all = await listNodes(context);
  const bad = all.filter((node) => readyOf(node)?.status !== 'True');
  return summary('nodes', 'node', all.length, bad.map(v3Name), 'kubectl skerry describe node NAME says why.');
}

async function platforms(context: CommandContext): Promise<Finding> {
  const check = 'platforms';
  const all = await listNodes(context);
  const failed = all.filter(({ status }) => status?.platformStatus?.phase === 'Failed');
  const total = all.filter((node) => hasPlatform(node) || failed.includes(node)).length;
  const of = `${total} ${total === 1 ? 'node' : 'nodes'}`;
  if (failed.length === 0) return { check, status: 'ok', detail: `of ${of}, none failed` };
  return {
    check,
    status: 'warning',
    detail: `of ${of}, ${failed.length} failed: ${some(failed.map(v3Name))}`,
    todo: 'kubectl skerry describe node NAME says why, and what to do.',
  };
}

/** The kinds of the message bus whose conditions name the missing objects. */
const BUS_KINDS = [KINDS.busOperators, KINDS.busHubs, KINDS.busAccounts, KINDS.busUsers] as readonly Kind[];

const nameOfKind = ({ kind, metadata }: KubeObject): string => `${kind.toLowerCase()}/${metadata.name}`;

const trustsFormerKey = (object: KubeObject): boolean =>
  (object as BusAccount).status?.conditions?.some(({ type }) => type === 'CredentialsOutdated') === true;

async function messageBus({ cluster: { client, namespace }, signal }: CommandContext): Promise<Finding> {
  const check = 'message bus';
  try {
    const lists = await Promise.all(
      BUS_KINDS.map(({ resource }) => client.list<KubeObject>(resource as never, { namespace, limit: 0, signal })),
    );
    const all = lists.flatMap(({ items }) => items);
    if (all.length === 0) return { check, status: 'ok', detail: 'off, as long as BUS_ENABLED is not set' };
    const bad = all.filter((object) => readyOf(object as never)?.status !== 'True');
    const outdated = lists[2]?.items.filter(trustsFormerKey) ?? [];
    const [, hubs, accounts, users] = lists.map(({ items }) => items.length);
    if (bad.length === 0 && outdated.length > 0)
      return {
        check,
        status: 'warning',
        detail: `users hold credentials of a former key: ${some(outdated.map(nameOfKind))}`,
        todo: 'kubectl describe KIND NAME names the users, and the command that ends the key.',
      };
    if (bad.length === 0)
      return {
        check,
        status: 'ok',
        detail: `${hubs ? 'a hub' : 'no hub'}, ${accounts} accounts, ${users} users, all ready`,
      };
    return {
      check,
      status: 'warning',
      detail: `not ready: ${some(bad.map(nameOfKind))}`,
      todo: 'kubectl describe KIND NAME says why.',
    };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { check, status: 'warning', detail: 'you may not read all of its objects' };
  }
}

async function routers({ cluster: { client, namespace }, signal }: CommandContext): Promise<Finding> {
  const check = 'routers';
  try {
    const options = { namespace, limit: 0, signal };
    const [hubs, services] = await Promise.all([
      client.list<KubeObject>(KINDS.routerHubs.resource as never, options),
      client.list<KubeObject>(KINDS.services.resource as never, options),
    ]);
    const all = [...hubs.items, ...services.items];
    if (all.length === 0) return { check, status: 'ok', detail: 'off, as long as ROUTERS_ENABLED is not set' };
    const bad = all.filter((object) => readyOf(object as never)?.status !== 'True');
    const unheard = services.items.filter(
      (one) => (one as Service).status?.conditions?.find(({ type }) => type === 'Listening')?.status === 'False',
    );
    const wrong = [...new Set([...bad, ...unheard])];
    if (wrong.length === 0)
      return {
        check,
        status: 'ok',
        detail: `${hubs.items.length > 0 ? 'a default router' : 'no default router'}, services: ${services.items.length}, all ready`,
      };
    return {
      check,
      status: 'warning',
      detail: `not ready, or without a router that listens: ${some(wrong.map(nameOfKind))}`,
      todo: `kubectl describe KIND.${GROUP} NAME says why.`,
    };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { check, status: 'warning', detail: 'you may not read all of its objects' };
  }
}

async function applications(context: CommandContext): Promise<Finding> {
  const all = await listApplications(context);
  const bad = all.filter((application) => readyOf(application)?.status !== 'True');
  return summary(
    'applications',
    'application',
    all.length,
    bad.map(v3Name),
    'kubectl skerry describe app NAME says why.',
  );
}

function summary(check: string, noun: string, count: number, bad: readonly string[], todo: string): Finding {
  const total = `${count} ${count === 1 ? noun : `${noun}s`}`;
  if (bad.length === 0) return { check, status: 'ok', detail: `${total}, all ready` };
  return { check, status: 'warning', detail: `${bad.length} of ${total} not ready: ${some(bad)}`, todo };
}
