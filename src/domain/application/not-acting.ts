import type { MicroserviceEntry } from '../../api/v3/index.ts';
import { findExpression } from '../expressions.ts';
import { configText } from '../microservice/flat.ts';
import { normalEntry } from '../microservice/normal-form.ts';

/** Fields of an entry that are stored and have no effect on the container yet. */
export function notActing(entry: MicroserviceEntry): readonly string[] {
  const { busConfig, config } = normalEntry(entry);
  return [
    // The node has the config and could serve it, but a workload cannot prove its identity yet.
    ...(configText(config) !== '{}' ? ['config (workloads get no token to read it with)'] : []),
    ...(busConfig?.busAccess || busConfig?.busRule ? ['busConfig'] : []),
    ...(findExpression(entry) ? ['template expressions, whose text is taken as it stands'] : []),
  ];
}
