import { type Check, check, warning } from './check.ts';
import type { DoctorContext } from './context.ts';
import type { ContentItem, DaemonView } from './daemon.ts';

/** What this machine has of models, knowledge, volume mounts and files of the system, as the running agent tells it. */
export const CONTENT_CHECKS: readonly Check<DoctorContext>[] = [
  check({
    name: 'artifacts',
    about: 'models and knowledge of this node',
    problems: {
      failed: warning(
        'The message says what is wrong: the name, revision or files of the artifact, its registry, or room on the disk. It is tried again by itself; what runs keeps the content that it has.',
      ),
    },
    run: async ({ daemon }: DoctorContext) => judged(contentOf(await daemon())?.artifacts, 'failed'),
  }),
  check({
    name: 'volume-mounts',
    about: 'Secrets and ConfigMaps that microservices mount',
    problems: {
      missing: warning(
        'Create the Secret or ConfigMap that the volume mount names, correct its keys, or make room on the disk, as the message says. What is here of it stays.',
      ),
    },
    run: async ({ daemon }: DoctorContext) => judged(contentOf(await daemon())?.volumeMounts, 'missing'),
  }),
  check({
    name: 'system-files',
    about: 'files that the system has on this node: certificates, configuration',
    problems: {
      outdated: warning(
        'Make room on the disk where the message says so. Otherwise it names what the controller sends: look at its log, and at its version. The files that are here stay; the others are tried again by themselves.',
      ),
    },
    run: async ({ daemon }: DoctorContext) => judged(contentOf(await daemon())?.systemFiles, 'outdated'),
  }),
];

const contentOf = (view: DaemonView) => (view.state === 'running' ? view.content : undefined);

/** What has a last error, with it. */
function textOf(items: readonly ContentItem[]): string {
  return items.flatMap(({ name, lastError }) => (lastError ? [`${name}: ${lastError}`] : [])).join('; ');
}

const countOf = (items: readonly ContentItem[]) =>
  `${items.filter(({ state }) => state === 'Ready').length} of ${items.length}`;

/** The result of a check of content: `problem` where some of it is not as it should be. */
function judged<P extends string>(items: readonly ContentItem[] | undefined, problem: P) {
  if (!items) return { skipped: 'no running agent says what there is' };
  const failing = textOf(items);
  return failing ? { problem, what: failing } : { ok: `${countOf(items)} are here` };
}
