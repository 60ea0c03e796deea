import type { EdgeNode, RuntimeClass } from '../api/v3/index.ts';
import { invalid } from './errors.ts';

import { v3Name } from './names.ts';

/** Why a runtime class cannot be linked to a node: the engine of the node has no such runtime. */
export function runtimeClassRefusal(runtimeClass: RuntimeClass, node: EdgeNode) {
  const available = node.status?.availableRuntimes ?? [];
  const { handler } = runtimeClass.spec;
  if (available.includes(handler) || available.includes(v3Name(runtimeClass))) return undefined;
  return invalid(
    `fogUuids: the node ${v3Name(node)} has no runtime ${handler}; it has ${available.join(', ') || 'none'}`,
    'fogUuids',
    'RUNTIME_CLASS_LINK_NOT_AVAILABLE',
  );
}
