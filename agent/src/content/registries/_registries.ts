import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createNetwork, type EdgeNetwork } from '../../../../e2e/_network.ts';
import { type Certificate, makeCertificate } from '../../../../hack/certificate.ts';
import { pushImage } from '../../../../hack/image.ts';
import { type Registry, type RegistryOptions, startRegistry } from '../../../../hack/registry.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import { createTestAgent, runAgent } from '../../_agent.ts';
import type { Agent } from '../../app.ts';
import type { AgentDependencies } from '../../dependencies.ts';
import type { CompleteEngine } from '../../engine-port/engine.ts';
import { cleanUp } from '../../engines/_contract.ts';
import { openEngine } from '../../engines/open.ts';
import { FakeController } from '../../link/_fake-controller.ts';
import { bufferedSink, createLog } from '../../machine/log.ts';
import { localMachine } from '../../machine/machine.ts';

/** Registries with images, at an address that no engine takes for its own machine. */
export interface TestRegistries extends AsyncDisposable {
  readonly network: EdgeNetwork;
  /** for all addresses below */
  readonly certificate: Certificate;
  /** digests of the images `sample:1` and `sample:2` */
  readonly digests: readonly [string, string];
  /** A registry in the other network, with those images. */
  registry(port: number, options?: Partial<RegistryOptions>): Promise<Registry>;
}

export async function startTestRegistries(): Promise<TestRegistries> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-registries-'));
  const stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(dir, { recursive: true, force: true }));
  const network = stack.use(await createNetwork());
  const certificate = makeCertificate(join(dir, 'tls'), [network.inside, ...network.outside]);
  const digests: string[] = [];
  await using proxy = await startRegistry({ dir: join(dir, 'proxy') });
  for (const tag of ['1', '2']) {
    // Large enough to be cut in the middle, and of layers that no other test has pulled before.
    const files = [{ path: '/ballast', content: `${dir}${tag}`.repeat(10) }];
    const image = await sampleImage({ files, env: { GREETING: `version ${tag}` } });
    digests.push((await pushImage(proxy.url, 'team/sample', tag, image)).digest);
  }
  const { images } = proxy;
  return {
    network,
    certificate,
    digests: digests as [string, string],
    async registry(port, options = {}) {
      const address = { command: network.command, address: network.inside };
      return stack.use(
        await startRegistry({ dir: join(dir, `registry-${port}`), port, images, network: address, ...options }),
      );
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** An agent with the real parts of its engine side, and a controller of wire messages. */
export interface AgentFixture extends AsyncDisposable {
  readonly agent: Agent;
  readonly controller: FakeController;
  readonly engine: CompleteEngine;
  /** all that the agent has logged */
  readonly logged: () => string;
}

/** All pauses with jitter are divided by fifty. */
export const SHORT_PAUSES = () => -4.4;

export async function createAgentFixture(
  engineUrl: string,
  ports: Partial<AgentDependencies> = {},
): Promise<AgentFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-fixture-'));
  mkdirSync(join(folder, 'volumes'));
  let logged = '';
  const sink = bufferedSink('DEBUG', 1, (line) => {
    logged += line;
  });
  const controller = await new FakeController().listen();
  let engine: CompleteEngine | undefined;
  const agent = createTestAgent({
    folder,
    random: SHORT_PAUSES,
    log: createLog(sink),
    engine: (instance) => {
      engine = openEngine({ url: engineUrl, instance });
      return engine;
    },
    machine: localMachine(folder),
    ...ports,
  });
  const end = runAgent(agent);
  await agent.provision(controller.joinString);
  return {
    agent,
    controller,
    engine: engine as CompleteEngine,
    logged: () => logged,
    async [Symbol.asyncDispose]() {
      await end();
      await cleanUp(engine as CompleteEngine);
      await controller.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A view of the sample server. */
export function sampleView(imageId: string, registryId: number, change: object = {}) {
  return { uuid: randomUUID(), name: 'web', application: 'shop', imageId, registryId, revision: imageId, ...change };
}

/** A service that issues tokens for the password; a registry accepts them because of its key. */
export interface TokenService extends AsyncDisposable {
  /** for the registry */
  readonly tokens: NonNullable<RegistryOptions['tokens']>;
  /** how many it has issued */
  readonly given: number;
}

export async function createTokenService(
  address: string,
  { cert, key }: Certificate,
  account: string,
): Promise<TokenService> {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-tokens-'));
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const kid = randomUUID();
  const jwks = join(folder, 'jwks.json');
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'ES256' };
  writeFileSync(jwks, JSON.stringify({ keys: [jwk] }));
  let given = 0;
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) }, (incoming, outgoing) => {
    if (incoming.headers.authorization !== `Basic ${Buffer.from(account).toString('base64')}`)
      return outgoing.writeHead(401).end();
    const { searchParams } = new URL(incoming.url ?? '', 'https://service');
    const [type, name, actions = ''] = (searchParams.get('scope') ?? '').split(':');
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: 'tokens', sub: 'limpet', aud: searchParams.get('service'), jti: randomUUID() };
    const access = [{ type, name, actions: actions.split(',') }];
    const text = `${part({ typ: 'JWT', alg: 'ES256', kid })}.${part({ ...claims, iat: now, nbf: now - 60, exp: now + 60, access })}`;
    const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    given++;
    return outgoing.end(JSON.stringify({ token: `${text}.${signature.toString('base64url')}` }));
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const { port } = server.address() as { port: number };
  return {
    tokens: { realm: `https://${address}:${port}/token`, service: 'registry', issuer: 'tokens', jwks },
    get given() {
      return given;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A proxy between an engine and a registry that can do harm. */
export interface RegistryProxy extends AsyncDisposable {
  readonly host: string;
  readonly requests: { path: string; authorization: boolean; at: number }[];
  /** what is done to requests to the registry; undefined: nothing */
  fault: ((path: string, incoming: IncomingMessage, outgoing: ServerResponse) => ProxyFault | undefined) | undefined;
}

/** Responds itself, or changes the pieces of the registry's response; a piece that becomes undefined ends the connection. */
type ProxyFault = 'answered' | ((piece: Buffer, index: number) => Promise<Buffer | undefined> | Buffer | undefined);

/** A proxy without TLS in front of a registry, at an address of this machine. */
export async function startRegistryProxy(address: string, registry: Pick<Registry, 'url'>): Promise<RegistryProxy> {
  const server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? '';
    proxy.requests.push({ path, authorization: incoming.headers.authorization !== undefined, at: performance.now() });
    const harm = proxy.fault?.(path, incoming, outgoing);
    if (harm === 'answered') return;
    const { host: _host, ...headers } = incoming.headers;
    const inner = request(`${registry.url}${path}`, { method: incoming.method, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      if (!harm) return answer.pipe(outgoing);
      void (async () => {
        let index = 0;
        for await (const piece of answer as AsyncIterable<Buffer>) {
          const changed = await harm(piece, index++);
          if (!changed || outgoing.destroyed) return outgoing.destroy();
          outgoing.write(changed);
        }
        return outgoing.end();
      })();
    });
    inner.on('error', () => outgoing.destroy());
    incoming.pipe(inner);
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const { port } = server.address() as { port: number };
  const proxy: RegistryProxy = {
    host: `${address}:${port}`,
    requests: [],
    fault: undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}
