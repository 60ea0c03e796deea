import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { inject } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { buildImage, buildIndex, type ImageSpec, pushImage } from '../hack/image.ts';
import { programFiles } from '../hack/shell-image.ts';
import { API_VERSION } from '../src/api/names.ts';
import { atEnd } from '../testing/at-end.ts';
import { startControllerHere } from './_controller-here.ts';
import { type AgentProcess, type ControllerProcess, createStack, type Stack } from './_stack.ts';

/** An image that does what images of v3 do: its program asks the local API of its agent, and prints what it gets as lines of JSON. */
interface FetchingImage {
  /** tag of the image */
  tag: string;
  /** settings of the controller, with the reference of the image */
  settings(image: string): Record<string, string>;
  /** path of the program in the image */
  program: string;
  /** the file of this folder that is the program */
  source: string;
  /** further programs of the image, by name, as paths of this machine */
  programs?: Readonly<Record<string, string>>;
  more?: Partial<Omit<ImageSpec, 'env'>>;
}

/** A node on this machine that runs such an image. */
interface FetchingNode {
  stack: Stack;
  controller: ControllerProcess;
  agent: AgentProcess;
  node: string;
  /** Sets fields of the node. */
  set(spec: Record<string, unknown>): Promise<void>;
  /** Containers of the image. */
  containers(): ReturnType<Stack['containers']>;
  /** What a container of the image has printed. */
  lines<T>(id: string | undefined): Promise<T[]>;
}

/** Starts a controller, and an agent whose node runs the image once its mode asks for it; both end with the test. */
export async function startFetchingNode({ tag, settings, ...given }: FetchingImage): Promise<FetchingNode> {
  const node = 'own-1';
  const stack = await createStack();
  const [engineUrl, registryUrl] = [inject('engineUrl'), inject('registryUrl')];
  const repository = `${stack.namespace}/fetching`;
  const here = await startControllerHere(stack, settings(`${new URL(registryUrl).host}/${repository}:${tag}`));
  atEnd(() => here[Symbol.asyncDispose]());
  const { controller } = here;
  const agent = await stack.startAgent(node, controller);
  await pushImage(registryUrl, repository, tag, await fetchingImage(given, agent.port));
  return {
    ...{ stack, controller, agent, node },
    async set(spec) {
      const path = `/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes/${node}`;
      await stack.kube.request('PATCH', path, { spec }, 'application/merge-patch+json');
    },
    containers: async () => (await stack.containers()).filter(({ image }) => image.endsWith(`${repository}:${tag}`)),
    async lines(id) {
      const text = String(await callEngine(engineUrl, 'GET', `/containers/${id}/logs?stdout=true`));
      return [...text.matchAll(/\{.*\}$/gm)].map(([line]) => JSON.parse(line));
    },
  };
}

type Program = Omit<FetchingImage, 'tag' | 'settings'>;

async function fetchingImage({ program, source, programs, more }: Program, localApiPort: number) {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, source)],
    ...{ bundle: true, platform: 'node', format: 'cjs', target: 'node24', write: false },
    banner: { js: '#!/bin/node' },
  });
  const files = [
    ...programFiles({ node: realpathSync(process.execPath), ...programs }),
    { path: program, content: outputFiles[0]?.contents ?? '', mode: 0o755 },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    ...(more?.files ?? []),
  ];
  return buildIndex([buildImage({ ...more, env: { PATH: '/bin', LOCAL_API_PORT: `${localApiPort}` }, files })]);
}
