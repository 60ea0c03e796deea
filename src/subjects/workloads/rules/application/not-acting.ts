import type { Application, MicroserviceEntry } from '../../../../api/v3/index.ts';
import { TAKEN_ACCOUNT_NAMES } from '../../../../rules/bus-accounts.ts';
import { findExpression } from '../../../../rules/expressions.ts';
import { v3Name } from '../../../../rules/names.ts';
import { type NormalEntry, normalEntry } from '../../../../rules/normal-entry.ts';

/** Why an entry cannot have access to the message bus (docs/spec/workloads.md#microservice-entry). */
export function busAccessMissing(
  application: Application,
  { busConfig }: Pick<NormalEntry, 'busConfig'>,
): string | undefined {
  if (!busConfig?.busAccess) return undefined;
  if (!application.spec.busConfig?.busAccess) return 'needs busConfig.busAccess of the application';
  const name = v3Name(application);
  return TAKEN_ACCOUNT_NAMES.includes(name)
    ? `needs an application of another name: "${name}" is an account of the system`
    : undefined;
}

/** Fields of an entry that are stored and have no effect on the container yet. */
export function fieldsNotActing(
  application: Application,
  entry: MicroserviceEntry,
  isBusOn = false,
): readonly string[] {
  return [
    ...busNotActing(application, entry, isBusOn),
    ...(findExpression(entry) ? ['template expressions, whose text is taken as it stands'] : []),
  ];
}

/** The access to the message bus that an entry asks for and does not get. */
export function busNotActing(application: Application, entry: MicroserviceEntry, isBusOn = false): readonly string[] {
  const { busConfig } = normalEntry(entry);
  const missing = busAccessMissing(application, { busConfig });
  if (!asksForBus(busConfig) || (isBusOn && missing === undefined)) return [];
  return [missing ? `busConfig (${missing})` : 'busConfig'];
}

/** Whether a bus configuration, of an application or of an entry, asks for anything. */
export const asksForBus = (busConfig: { busAccess?: boolean; busRule?: string } | undefined): boolean =>
  Boolean(busConfig?.busAccess || busConfig?.busRule);
