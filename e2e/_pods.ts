import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kube, KubeObject } from '../hack/kube.ts';
import { withToken } from '../hack/kube.ts';
import { freePort } from '../hack/ports.ts';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { until } from './_stack.ts';

/**
 * What a kubelet and the controllers of workloads do, on an API server that has neither: the programs of jobs and
 * deployments run as processes, with the token of their service account, the arguments and the environment that the pod
 * template gives them.
 */
interface Place {
  kube: Kube;
  /** of the cluster's admin */
  kubeconfig: string;
  dir: string;
  /** the bundle that stands for the image */
  bundle: string;
}

interface PodSpec {
  serviceAccountName: string;
  containers: { args?: string[]; env?: EnvVar[] }[];
}
interface EnvVar {
  name: string;
  value?: string;
  valueFrom?: { fieldRef: { fieldPath: string } };
}
type Job = KubeObject & {
  metadata: { namespace: string; uid: string };
  spec: { template: { spec: PodSpec } };
  status?: { conditions?: unknown[] };
};

export interface Pod {
  url: string;
  daemon: Daemon;
}

/** Starts one pod of a deployment; resolves when it is ready. */
export async function startPod(place: Place, namespace: string, deployment: string, name: string): Promise<Pod> {
  const object = await place.kube.get<{ spec: { template: { spec: PodSpec } } }>(
    `/apis/apps/v1/namespaces/${namespace}/deployments/${deployment}`,
  );
  if (!object) throw new Error(`there is no deployment ${deployment}`);
  const [rest, metrics, internal] = [await freePort(), await freePort(), await freePort()];
  const { args, env } = await processOf(place, object.spec.template.spec, namespace, name);
  const ports = { SERVER_HOST: '127.0.0.1', SERVER_PORT: rest, METRICS_PORT: metrics, INTERNAL_PORT: internal };
  const daemon = await startDaemon({
    name,
    command: process.execPath,
    args,
    dir: place.dir,
    env: { ...env, ...Object.fromEntries(Object.entries(ports).map(([key, value]) => [key, String(value)])) },
  });
  const isReady = async () => {
    daemon.assertRunning();
    return (await fetch(`http://127.0.0.1:${metrics}/readyz`)).ok;
  };
  await until(`pod ${name} to be ready`, isReady, { timeoutMs: 120_000 });
  return { url: `http://127.0.0.1:${rest}`, daemon };
}

/** Carries out jobs until the signal fires; `logs` gets what each printed, by its name. */
export async function runJobs(place: Place, logs: Map<string, string>, signal: AbortSignal): Promise<void> {
  const done = new Set<string>();
  while (!signal.aborted) {
    const list = await place.kube.get<{ items: Job[] }>('/apis/batch/v1/jobs').catch(() => undefined);
    for (const job of list?.items ?? []) {
      if (done.has(job.metadata.uid) || job.status?.conditions?.length) continue;
      done.add(job.metadata.uid);
      try {
        await runJob(place, job, logs);
      } catch (error) {
        // The job or its account may be deleted, or the API server busy: retried while the job exists.
        done.delete(job.metadata.uid);
        process.stderr.write(`job ${job.metadata.name}: ${error instanceof Error ? error.message : error}\n`);
      }
    }
    await sleep(200, undefined, { signal }).catch(() => {});
  }
}

async function runJob(place: Place, { metadata, spec }: Job, logs: Map<string, string>): Promise<void> {
  const { namespace, name } = metadata;
  const { args, env } = await processOf(place, spec.template.spec, namespace, name);
  const startTime = new Date();
  const { code, text } = await new Promise<{ code: number; text: string }>((resolve) => {
    execFile(process.execPath, args, { env, timeout: 120_000 }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, text: stdout + stderr }),
    );
  });
  const time = (at: Date) => `${at.toISOString().slice(0, 19)}Z`;
  const conditions = (code === 0 ? ['SuccessCriteriaMet', 'Complete'] : ['FailureTarget', 'Failed']).map((type) => ({
    type,
    status: 'True',
    reason: 'Done',
    message: '',
    lastTransitionTime: time(new Date()),
  }));
  const status = {
    startTime: time(startTime),
    ...(code === 0 ? { completionTime: time(new Date()), succeeded: 1 } : { failed: 1 }),
    conditions,
    uncountedTerminatedPods: {},
    ready: 0,
    terminating: 0,
  };
  const path = `/apis/batch/v1/namespaces/${namespace}/jobs/${name}/status`;
  await place.kube.request('PATCH', path, { status }, 'application/merge-patch+json');
  // Last: who waits for the log may delete the job at once.
  logs.set(name, text);
}

/** The command line and environment of the first container of a pod. */
async function processOf({ kube, kubeconfig, dir, bundle }: Place, spec: PodSpec, namespace: string, name: string) {
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/${spec.serviceAccountName}/token`;
  const { status } = await kube.request<{ status: { token: string } }>('POST', account, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 7200 },
  });
  const own = join(dir, `${namespace}-${name}.kubeconfig`);
  writeFileSync(own, withToken(readFileSync(kubeconfig, 'utf8'), status.token));
  const [container] = spec.containers;
  const fields: Record<string, string> = {
    'metadata.namespace': namespace,
    'metadata.name': name,
    'status.podIP': '127.0.0.1',
  };
  const variables = (container?.env ?? []).map(({ name, value, valueFrom }) => [
    name,
    value ?? fields[valueFrom?.fieldRef.fieldPath ?? ''] ?? '',
  ]);
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH, KUBECONFIG: own, ...Object.fromEntries(variables) };
  return { args: [bundle, ...(container?.args ?? [])], env };
}
