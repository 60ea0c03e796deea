import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTAINER_LABELS, DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { formatJoinString } from '../../src/wire/node-token.ts';
import type { Engine } from '../engine.ts';
import { callEngine } from '../engine-api.ts';
import type { Kube, KubeObject } from '../kube.ts';
import { ROOT, runFolder } from '../paths.ts';
import { type Again, type Daemon, startDaemon } from '../process.ts';
import { waitFor } from '../wait.ts';

/** Name of the node of this machine. */
export const NODE = 'local';

const MAIN = join(ROOT, 'agent/src/main.ts');

interface NodeObject extends KubeObject {
  status?: { uuid?: string };
}

export interface AgentOptions {
  dir: string;
  engine: Engine;
  /** Port of the agent's local API. */
  port: number;
  /** File of the authority of the controller's certificate. */
  ca?: string | undefined;
  again?: Again;
}

/** Starts an agent for this machine; it has no identity until it is provisioned. */
export async function startAgent({ dir, engine, port, ca, again }: AgentOptions): Promise<Daemon> {
  const home = join(dir, 'agent');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const run = join(home, 'run');
  const settings = {
    containerEngine: engine.kind,
    containerEngineUrl: engine.url,
    diskDirectory: join(home, 'data'),
    runDirectory: run.length < 90 ? run : runFolder(home),
    logDirectory: join(home, 'logs'),
    localApiPort: port,
    ...(ca && { controllerCert: ca }),
  };
  // JSON is YAML.
  writeFileSync(agentConfigFile(dir), `${JSON.stringify(settings, undefined, 2)}\n`);
  return startDaemon({
    name: 'agent',
    dir,
    command: process.execPath,
    args: [MAIN, 'start', '--config', agentConfigFile(dir)],
    deathSignal: 'SIGTERM',
    again,
  });
}

/** The uuid of the local node, once the controller has assigned one. */
export function nodeUuid(
  kube: Kube,
  { controller, signal }: { controller?: Daemon; signal?: AbortSignal } = {},
): Promise<string> {
  const uuid = async () => {
    controller?.assertRunning();
    return (await getNode(kube))?.status?.uuid;
  };
  return waitFor(uuid, { what: `the node ${NODE} to get its uuid`, signal });
}

/** The REST API, as an admin. */
export interface RestAccess {
  url: string;
  /** File with a bearer token, which is renewed while the stack runs. */
  tokenFile: string;
}

export interface AgentParts {
  dir: string;
  rest: RestAccess;
  uuid: string;
  agent: Daemon;
  signal?: AbortSignal;
}

/** Provisions the agent with its own command and a provisioning key from REST. */
export async function provisionAgent({ dir, rest, uuid, agent, signal }: AgentParts): Promise<void> {
  const { key } = await getRest<{ key: string }>(rest, `/node/${uuid}/provisioning-key`);
  const join = formatJoinString({ controllerUrl: rest.url, key });
  const attempt = async () => {
    agent.assertRunning();
    await runAgent(['provision', join, '--config', agentConfigFile(dir)]);
    return true;
  };
  await waitFor(attempt, { what: 'the agent to be provisioned', intervalMs: 200, signal });
}

/** Sets the controller's current address on an agent that has an older one, with the command for any machine. */
export async function moveAgent({ dir, rest, agent, signal }: AgentParts): Promise<void> {
  const attempt = async () => {
    agent.assertRunning();
    await runAgent(['config', `controllerUrl=${rest.url}`, '--config', agentConfigFile(dir)]);
    return true;
  };
  await waitFor(attempt, { what: 'the agent to take the address of the controller', intervalMs: 200, signal });
}

/**
 * Waits until the controller has had contact with the agent since `start`: the node's status may be of an earlier run.
 */
export async function waitForAgent({ rest, uuid, agent, signal }: AgentParts, start: number): Promise<void> {
  const heard = async () => {
    agent.assertRunning();
    const node = await getRest<{ lastActive: number; daemonStatus: string }>(rest, `/node/${uuid}`);
    return node.lastActive >= start && node.daemonStatus === 'RUNNING';
  };
  await waitFor(heard, {
    what: `the agent of the node ${NODE} to be heard`,
    timeoutMs: 60_000,
    intervalMs: 50,
    signal,
  });
}

/** Stops, or removes, the containers of a node in an engine that keeps running after the stack. */
export async function endContainers(engineUrl: string, uuid: string, how: 'stop' | 'remove'): Promise<void> {
  const filters = encodeURIComponent(JSON.stringify({ label: [`${CONTAINER_LABELS.node}=${uuid}`] }));
  const path = `/v1.41/containers/json?filters=${filters}${how === 'remove' ? '&all=true' : ''}`;
  const containers = await callEngine<{ Id: string }[]>(engineUrl, 'GET', path);
  await Promise.all(
    containers.map(({ Id }) =>
      how === 'stop'
        ? callEngine(engineUrl, 'POST', `/v1.41/containers/${Id}/stop?t=5`)
        : callEngine(engineUrl, 'DELETE', `/v1.41/containers/${Id}?force=true&v=true`),
    ),
  );
}

/** The settings of the agent. */
export function agentConfigFile(dir: string): string {
  return join(dir, 'agent', 'config.yaml');
}

function getNode(kube: Kube): Promise<NodeObject | undefined> {
  return kube.get<NodeObject>(`/apis/skerry.dev/v3/namespaces/${DEFAULT_NAMESPACE}/edgenodes/${NODE}`);
}

function runAgent(args: string[]): Promise<string> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const keep = (piece: Buffer) => {
    output += piece;
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve(output) : reject(new Error(`skerry-agent ${args[0]} failed: ${output.trim()}`)),
    );
  });
}

async function getRest<T>({ url, tokenFile }: RestAccess, path: string): Promise<T> {
  const headers = { authorization: `Bearer ${readFileSync(tokenFile, 'utf8').trim()}` };
  const response = await fetch(`${url}/api/v3${path}`, { headers });
  const text = await response.text();
  if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}
