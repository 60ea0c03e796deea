import type { MicroserviceEntry } from '../../api/v3/index.ts';
import { findExpression } from '../expressions.ts';
import { normalEntry } from '../microservice/normal-form.ts';

/** Fields of an entry that are stored and have no effect on the container yet. */
export function notActing(entry: MicroserviceEntry): readonly string[] {
  const { busConfig } = normalEntry(entry);
  return [
    ...(busConfig?.busAccess || busConfig?.busRule ? ['busConfig'] : []),
    ...(findExpression(entry) ? ['template expressions, whose text is taken as it stands'] : []),
  ];
}
