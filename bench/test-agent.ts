import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { delayAfterLoss } from '../agent/src/link/backoff.ts';
import { HEADERS } from '../src/api/names.ts';
import { ROUTER_HUB_OBJECT } from '../src/rules/router-hub.ts';
import type { MicroserviceHold, MicroserviceView, PublicKey, StatusReport } from '../src/wire/agent.ts';
import { ROUTER_SETS } from '../src/wire/router.ts';
import {
  type ChangesReply,
  type Digests,
  formatHave,
  MICROSERVICE_SECTIONS,
  NAMES,
  parseHave,
  SECTIONS,
} from '../src/wire/sections.ts';
import type { VolumeMountView } from '../src/wire/volume-mounts.ts';
import { FetchedFiles } from './fetched-files.ts';
import type { Answer, Http } from './http.ts';
import { nodeTokens } from './tokens.ts';

export type Entry = MicroserviceView | MicroserviceHold;

/** The result of a long poll. */
interface Notice {
  /** performance.now() when the poll returned */
  at: number;
  /** the node's microservices, read right after it */
  microservices: readonly Entry[];
}

/**
 * An agent that runs nothing: it has an identity, polls, and reports everything in its list as running. It is used to
 * measure the controller.
 */
export interface TestAgent {
  readonly uuid: string;
  readonly name: string;
  /** Signs `count` tokens for requests soon to be sent, so that signing is not measured. */
  tokens(count: number): string[];
  /** Polls without waiting. */
  poll(token?: string): Promise<Answer>;
  /** Reads the microservices of the node, without storing them. */
  read(): Promise<readonly Entry[]>;
  /** Reports the state of the node and of its microservices; only measurements change. */
  report(token?: string): Promise<Answer>;
  /** Sends long polls one after another and handles their responses, until the signal fires. */
  live(signal: AbortSignal): Promise<void>;
  /** Resolves when a long poll next returns a change of the microservices. */
  nextNotice(): Promise<Notice>;
  /** The list that was received last; undefined before the first one. */
  readonly microservices: readonly Entry[] | undefined;
  /** The volume mounts that were received last. */
  readonly volumeMounts: readonly VolumeMountView[] | undefined;
  readonly files: Pick<FetchedFiles, 'digest' | 'sets' | 'fetched' | 'content'>;
  /** Called when the agent has the change that ended a long poll; `at`: performance.now() when that poll returned. */
  onTold: ((at: number) => void) | undefined;
  /** Called with the response to each long poll, or with the error. */
  onAnswer: ((answer: Answer | Error) => void) | undefined;
}

export interface TestAgentOptions {
  name: string;
  /** provisioning key */
  key: string;
  /** client for requests that are answered at once */
  http: Http;
  /** client for long polls: as many connections as there are agents */
  pollHttp: Http;
}

/** A running router that has whatever its configuration says. */
const ROUTER: StatusReport['router'] = {
  ...{ isReached: true, isCurrent: true, links: [ROUTER_HUB_OBJECT], refused: [], notUp: [], notUpCount: 0 },
};
const API = '/api/v3/agent';
const HOLD_SECONDS = 60;

/** Provisions a test agent as a node. */
export async function provisionTestAgent(options: TestAgentOptions): Promise<TestAgent> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const { x } = publicKey.export({ format: 'jwk' });
  const jwk: PublicKey = { kty: 'OKP', crv: 'Ed25519', x: x as string };
  const answer = await options.http.send({
    method: 'POST',
    path: `${API}/provision`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ key: options.key, type: 1, engine: 'docker', publicKey: jwk }),
  });
  if (answer.status >= 300) throw new Error(`provision ${options.name}: ${answer.status} ${answer.text}`);
  const { uuid } = JSON.parse(answer.text) as { uuid: string };
  return createTestAgent(options, uuid, privateKey);
}

function createTestAgent({ name, http, pollHttp }: TestAgentOptions, uuid: string, key: KeyObject): TestAgent {
  const instance = randomUUID();
  const startTime = Date.now();
  let have: Digests = NAMES;
  let microservices: readonly Entry[] | undefined;
  let volumeMounts: readonly VolumeMountView[] | undefined;
  let waiting: ((notice: Notice) => void)[] = [];
  let reports = 0;

  const tokens = (count: number) => nodeTokens(uuid, key, count);
  const headersWith = (token = tokens(1)[0]): Record<string, string> => ({
    authorization: `Bearer ${token}`,
    [HEADERS.agent]: '0.1.0',
    [HEADERS.instance]: instance,
    [HEADERS.boot]: instance,
  });

  async function get(path: string): Promise<Answer> {
    const answer = await http.send({ method: 'GET', path: `${API}${path}`, headers: headersWith() });
    if (answer.status >= 300) throw new Error(`GET ${path}: ${answer.status} ${answer.text}`);
    return answer;
  }
  const files = new FetchedFiles(get);

  async function follow(reply: ChangesReply, at: number): Promise<void> {
    const flagged = SECTIONS.filter((section) => reply[section] === true);
    if (flagged.length === 0) {
      // As our agent does once per long poll: a node that only polls is not live.
      await agent.report();
      return;
    }
    const due = parseHave(reply.due);
    const notice: Digests = { ...have };
    for (const section of flagged) notice[section] = due[section];
    if (flagged.includes('volumeMounts')) ({ volumeMounts } = JSON.parse((await get('/volumeMounts')).text));
    if (flagged.includes('systemFiles')) {
      await files.follow();
      notice.systemFiles = files.digest || NAMES.systemFiles;
    }
    const concerns = MICROSERVICE_SECTIONS.some((section) => flagged.includes(section));
    if (!concerns) {
      have = notice;
      agent.onTold?.(at);
      // As our agent does when the files of the system have changed on its disk.
      if (flagged.includes('systemFiles')) await agent.report();
      return;
    }
    const answer = await get('/microservices');
    const shown = parseHave(answer.headers.etag as string | undefined);
    for (const section of MICROSERVICE_SECTIONS) notice[section] = shown[section];
    have = notice;
    microservices = (JSON.parse(answer.text) as { microservices: Entry[] }).microservices;
    const woken = waiting;
    waiting = [];
    for (const wake of woken) wake({ at, microservices });
    agent.onTold?.(at);
    await agent.report();
  }

  async function longPoll(signal: AbortSignal): Promise<number | undefined> {
    const path = `${API}/changes?have=${encodeURIComponent(formatHave(have))}&wait=${HOLD_SECONDS}`;
    const answer = await pollHttp.send({ method: 'GET', path, headers: headersWith(), signal });
    const at = performance.now();
    agent.onAnswer?.(answer);
    if (answer.status >= 300) return Number(answer.headers['retry-after'] ?? 5) * 1000 * (1 + Math.random() / 2);
    await follow(JSON.parse(answer.text) as ChangesReply, at);
    return undefined;
  }

  const agent: TestAgent = {
    uuid,
    name,
    tokens,
    files,
    onAnswer: undefined,
    onTold: undefined,
    get microservices() {
      return microservices;
    },
    get volumeMounts() {
      return volumeMounts;
    },
    poll: (token) =>
      http.send({
        method: 'GET',
        path: `${API}/changes?have=${encodeURIComponent(formatHave(have))}`,
        headers: headersWith(token),
      }),
    async read() {
      return (JSON.parse((await get('/microservices')).text) as { microservices: Entry[] }).microservices;
    },
    report: (token) =>
      http.send({
        method: 'PUT',
        path: `${API}/status`,
        headers: { ...headersWith(token), 'content-type': 'application/json' },
        body: JSON.stringify({
          ...reportOf(microservices ?? [], startTime, ++reports),
          ...files.report(),
          ...(files.sets.includes(ROUTER_SETS.config) && { router: ROUTER }),
        }),
      }),
    async live(signal) {
      let failures = 0;
      // An agent that reconnects reports first.
      if (microservices) await agent.report().catch(() => {});
      while (!signal.aborted) {
        try {
          const delay = await longPoll(signal);
          failures = 0;
          if (delay !== undefined) await sleep(delay, undefined, { signal });
        } catch (error) {
          if (signal.aborted) return;
          agent.onAnswer?.(error as Error);
          await sleep(delayAfterLoss(++failures, Math.random), undefined, { signal }).catch(() => {});
        }
      }
    },
    nextNotice: () => new Promise((resolve) => waiting.push(resolve)),
  };
  return agent;
}

/** The report of a machine with about five running containers; `turn` changes the measurements. */
function reportOf(microservices: readonly Entry[], startTime: number, turn: number): StatusReport {
  const move = turn % 7;
  return {
    daemonStatus: 'RUNNING',
    warningMessage: '',
    daemonOperatingDuration: Date.now() - startTime,
    daemonLastStart: startTime,
    memoryUsage: 60 + move,
    diskUsage: 1.5,
    cpuUsage: 0.3 + move / 10,
    memoryViolation: false,
    diskViolation: false,
    cpuViolation: false,
    systemAvailableDisk: 60_000_000_000 - move * 4096,
    systemTotalDisk: 120_000_000_000,
    systemAvailableMemory: 3_000_000_000 - move * 4096,
    systemTotalMemory: 4_000_000_000,
    systemTotalCpu: 4 + move,
    systemCpus: 4,
    systemOs: 'linux',
    systemOsVersion: 'Debian GNU/Linux 12',
    systemKernelVersion: '6.1.0',
    systemTime: Date.now(),
    ipAddress: '10.0.0.17',
    version: '0.1.0',
    microserviceStatus: microservices.map((entry, i) => ({
      id: entry.uuid,
      status: 'RUNNING',
      containerId: entry.uuid.replaceAll('-', '').padEnd(64, '0'),
      startTime,
      operatingDuration: Date.now() - startTime,
      cpuUsage: 1 + ((turn + i) % 5) / 10,
      memoryUsage: 20_000_000 + ((turn + i) % 5) * 4096,
      ipAddress: `172.18.0.${i + 2}`,
      restartCount: 0,
      ...('hold' in entry
        ? {}
        : {
            name: entry.name,
            application: entry.application,
            revision: entry.revision,
            imageId: `sha256:${'ab'.repeat(32)}`,
            rebuildCount: entry.rebuildCount,
            ports: entry.portMappings,
          }),
    })),
  };
}
