import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { bundle } from '../../../hack/build.ts';
import { listenForTest } from '../../../testing/local-server.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { AGENT_VERSION } from '../domain/names.ts';
import { readText } from '../machine/disk.ts';
import { Program } from './program.ts';

/** A Node that is small enough to be downloaded often: the one of this process. */
export const NODE_SCRIPT = `#!/bin/sh\nexec '${process.execPath}' "$@"\n`;

/** The bundles of agent and launcher, in a folder. */
export async function makeBundles(folder: string): Promise<{ agent: string; launcher: string }> {
  const [agent, launcher] = [await bundle('skerry-agent', folder), await bundle('skerry-agent-launcher', folder)];
  return { agent: readText(agent.path) ?? '', launcher: launcher.path };
}

/** The files of a release: the bundle of the agent under another version. */
export function makeReleaseFiles(bundled: string, version: string): { agent: string; node: string } {
  const folder = temporaryFolder();
  const [agent, node] = [join(folder, 'agent'), join(folder, 'node')];
  writeFileSync(agent, bundled.replaceAll(`"${AGENT_VERSION}"`, `"${version}"`));
  writeFileSync(node, NODE_SCRIPT, { mode: 0o755 });
  return { agent, node };
}

/** A program directory with releases whose agents are these programs; the first one is current. */
export function makeProgram(releases: Readonly<Record<string, string>>, directory = temporaryFolder()): Program {
  for (const [version, agent] of Object.entries(releases)) {
    const folder = join(directory, 'releases', version);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'agent'), agent, { mode: 0o755 });
    writeFileSync(join(folder, 'node'), NODE_SCRIPT, { mode: 0o755 });
    writeFileSync(join(folder, 'release.json'), JSON.stringify({ version, nodeFlags: [] }));
  }
  symlinkSync(join('releases', Object.keys(releases)[0] ?? ''), join(directory, 'current'));
  return new Program(directory);
}

/** A file server with ranges, of which a test can take over a response. */
export class FileServer {
  readonly folder: string;
  /** `path` or `path from-byte` of each request */
  readonly requests: string[] = [];
  observe: (request: IncomingMessage) => void = () => {};
  fault: ((path: string, response: ServerResponse, content: Buffer) => boolean) | undefined;
  readonly #server = createServer((request, response) => this.#answer(request, response));

  constructor(folder: string) {
    this.folder = folder;
  }

  async listen(): Promise<this> {
    await listenForTest(this.#server);
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.observe(request);
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    this.requests.push(from > 0 ? `${path} ${from}` : path);
    const text = readText(join(this.folder, path));
    if (text === undefined) return void response.writeHead(404).end();
    const content = Buffer.from(text);
    if (this.fault?.(path, response, content)) return;
    if (from === 0) return void response.writeHead(200, { 'content-length': content.length }).end(content);
    const range = `bytes ${from}-${content.length - 1}/${content.length}`;
    response.writeHead(206, { 'content-range': range, 'content-length': content.length - from });
    response.end(content.subarray(from));
  }
}
