import type { EdgeNode, RuntimeClass } from '../../../api/v3/index.ts';
import { invalid } from '../../../rules/errors.ts';

import { v3Name } from '../../../rules/names.ts';

/** Whether a node has the runtime of a class. An agent may list it by the name of the class. */
export function isRuntimeOn(node: EdgeNode, runtimeClass: RuntimeClass): boolean {
  const available = node.status?.availableRuntimes ?? [];
  return available.includes(runtimeClass.spec.handler) || available.includes(v3Name(runtimeClass));
}

/**
 * The runtime of a class as a node gets it: its handler, by which docker and podman know it. The embedded engine knows
 * runtimes by the names of their classes, which it gets in a list of its own.
 */
export function runtimeOn(node: EdgeNode, name: string, runtimeClass: RuntimeClass | undefined): string {
  const engine = node.status?.containerEngine ?? node.spec.containerEngine;
  return runtimeClass && engine !== 'embedded' ? runtimeClass.spec.handler : name;
}

/** Why a runtime class cannot be linked to a node: the engine of the node has no such runtime. */
export function runtimeClassRefusal(runtimeClass: RuntimeClass, node: EdgeNode) {
  const available = node.status?.availableRuntimes ?? [];
  const { handler } = runtimeClass.spec;
  if (isRuntimeOn(node, runtimeClass)) return undefined;
  return invalid(
    `fogUuids: the node ${v3Name(node)} has no runtime ${handler}; it has ${available.join(', ') || 'none'}`,
    'fogUuids',
    'RUNTIME_CLASS_LINK_NOT_AVAILABLE',
  );
}
