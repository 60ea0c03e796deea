import { get } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { ANNOTATIONS, API_VERSION } from '../../src/api/names.ts';
import type { Application } from '../../src/api/v3/index.ts';
import { loadConfig } from '../../src/kube/_fault-proxy.ts';
import { entryUuid } from '../../src/rules/names.ts';
import type { Version } from './history.ts';
import type { AppState, EntryState } from './model.ts';

export interface ObserverOptions {
  kubeconfig: string;
  namespace: string;
  apps: readonly string[];
  colourOf(reference: string): string;
  now(): number;
}

/**
 * Records every version of the applications, directly from the API server, without any part of the product. Ends when the
 * signal fires.
 */
export async function observe(options: ObserverOptions, signal: AbortSignal): Promise<Version[]> {
  const { kubeconfig, namespace, apps, now } = options;
  const config = loadConfig(kubeconfig);
  const tls: Record<string, unknown> = {};
  await config.applyToHTTPSOptions(tls as never);
  const server = config.getCurrentCluster()?.server ?? '';
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/applications`;
  const open = (query: string) =>
    new Promise<NodeJS.ReadableStream & { statusCode?: number }>((resolve, reject) => {
      get(new URL(`${path}?${query}`, server), { ...tls, signal }, resolve).on('error', reject);
    });
  const versions: Version[] = [];

  const list = await open('limit=1');
  let text = '';
  for await (const chunk of list) text += chunk;
  let from: string = JSON.parse(text).metadata.resourceVersion;

  async function follow(): Promise<void> {
    const stream = await open(`watch=true&allowWatchBookmarks=true&resourceVersion=${from}`);
    stream.on('error', () => {});
    for await (const line of createInterface({ input: stream })) {
      const { type, object } = JSON.parse(line) as { type: string; object: Application };
      if (type === 'ERROR') throw new Error(`the watch of the runner broke: ${line.slice(0, 300)}`);
      from = object.metadata.resourceVersion ?? from;
      if (type === 'BOOKMARK' || !apps.includes(object.metadata.name)) continue;
      versions.push(versionOf(object, type === 'DELETED', now(), options.colourOf));
    }
  }

  void (async () => {
    while (!signal.aborted) {
      await follow().catch(() => {});
      await sleep(50);
    }
  })();
  return versions;
}

function versionOf(
  application: Application,
  gone: boolean,
  at: number,
  colourOf: (reference: string) => string,
): Version {
  const { metadata, spec, status } = application;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const entries = spec.microservices ?? [];
  return {
    app: metadata.name,
    uid: metadata.uid ?? '',
    at,
    resourceVersion: metadata.resourceVersion ?? '',
    state: gone ? undefined : stateOf(application, colourOf),
    generation: metadata.generation ?? 0,
    uuids: Object.fromEntries(entries.map((entry) => [entry.name, entryUuid(application, entry)])),
    ...(ready && {
      ready: {
        status: ready.status,
        reason: ready.reason,
        message: ready.message,
        observedGeneration: ready.observedGeneration ?? -1,
      },
    }),
    places: Object.fromEntries((status?.microservices ?? []).map(({ name, node = '' }) => [name, node])),
    readyEntries: (status?.microservices ?? []).filter((one) => one.ready).map(({ name }) => name),
  };
}

/** An object as the model knows it. */
export function stateOf({ metadata, spec }: Application, colourOf: (reference: string) => string): AppState {
  const rebuilds = JSON.parse(metadata.annotations?.[ANNOTATIONS.rebuild] ?? '{}') as Record<string, number>;
  const entries = (spec.microservices ?? []).map((entry): [string, EntryState] => [
    entry.name,
    {
      value: entry.container?.env?.find(({ key }) => key === 'VALUE')?.value ?? '',
      image: colourOf(entry.images?.amd64 ?? ''),
      node: entry.agent?.name ?? '',
      active: entry.isActivated ?? true,
    },
  ]);
  return {
    active: spec.isActivated ?? true,
    entries: Object.fromEntries(entries),
    rebuilds,
    deleting: metadata.deletionTimestamp !== undefined,
  };
}
