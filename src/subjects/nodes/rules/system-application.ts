import { SYSTEM_APPLICATION_PREFIX } from '../../../api/names.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { objectName, v3Name } from '../../../rules/names.ts';

/** The application of the system on a node. */
export const systemApplicationName = (node: EdgeNode): string =>
  objectName(`${SYSTEM_APPLICATION_PREFIX}${v3Name(node)}`);
