import type { EdgeNode } from '../../../../api/v3/index.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { isRuntimeOn } from '../../../catalog/rules/runtime-class.ts';
import type { VerdictInput } from './rule.ts';

export function runtimeClassIsFound({ entry, node, lookups }: VerdictInput): Verdict | undefined {
  const { runtime } = entry.container;
  if (!runtime || lookups.find('runtimeClasses', runtime)) return undefined;
  return refusal(
    'RuntimeClassNotFound',
    `no runtime class "${runtime}"; a runtime is named by a RuntimeClass that has it as handler${node ? `; ${runtimesOf(node)}` : ''}`,
  );
}

/** Applies once the node has reported its runtimes. */
export function runtimeIsAvailable({ entry, node, lookups }: VerdictInput): Verdict | undefined {
  const { runtime } = entry.container;
  const found = runtime ? lookups.find('runtimeClasses', runtime) : undefined;
  if (!node?.status?.availableRuntimes || !found || isRuntimeOn(node, found)) return undefined;
  return refusal(
    'RuntimeNotAvailable',
    `the runtime "${found.spec.handler}" of the runtime class "${runtime}" is not on the node; ${runtimesOf(node)}`,
  );
}

const refusal = (reason: Verdict['reason'], message: string): Verdict => ({
  reason,
  status: 400,
  code: 'RUNTIME_CLASS_MISSING',
  field: 'container.runtime',
  message,
});

const runtimesOf = (node: EdgeNode) =>
  `the node "${v3Name(node)}" has ${[...(node.status?.availableRuntimes ?? [])].sort().join(', ') || 'none'}`;
