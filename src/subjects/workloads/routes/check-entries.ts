import type { VerdictReason } from '../../../api/conditions.ts';
import { VARIABLE_NAME } from '../../../api/container/parts.ts';
import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import { requireMayBind } from '../../../rest/access/bind.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import type { Requester } from '../../../rest/contract/route.ts';
import { quoted } from '../../../rules/document.ts';
import { verdictError } from '../../../rules/errors.ts';
import type { Lookups } from '../../../rules/inputs.ts';
import { objectName } from '../../../rules/names.ts';
import { normalEntry } from '../../../rules/normal-entry.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { newlyBound } from '../../accounts/rules/service-account.ts';
import { lookupsWith } from '../rules/application/lookups.ts';
import { asksForBus, busNotActing } from '../rules/application/not-acting.ts';
import { flatName } from '../rules/entry/flat.ts';
import { platformRefusal } from '../rules/platform-entry.ts';
import { applicationVerdict, verdict } from '../rules/verdicts/verdict.ts';
import { presentLookups } from './reads.ts';

/** Objects that a verdict may miss because another replica has just created them and the store does not have them yet. */
const LATE: Partial<
  Record<VerdictReason, (deps: RestDependencies, entry: MicroserviceEntry, signal: AbortSignal) => Promise<unknown>>
> = {
  NodeNotFound: ({ nodes }, { agent }, signal) =>
    agent?.uuid !== undefined
      ? nodes.select('uuid', agent.uuid, signal)
      : Promise.all([
          nodes.read(objectName(agent?.name ?? ''), signal),
          nodes.select('name', agent?.name ?? '', signal),
        ]),
  CatalogItemNotFound: ({ catalogItems }, _, signal) => catalogItems.refresh(signal),
  RegistryNotFound: ({ registries }, _, signal) => registries.refresh(signal),
  RegistryNotReady: ({ registries }, _, signal) => registries.refresh(signal),
  RuntimeClassNotFound: ({ runtimeClasses }, _, signal) => runtimeClasses.refresh(signal),
  SecretNotFound: ({ secrets }, _, signal) => secrets.refresh(signal),
  SecretKeyNotFound: ({ secrets }, _, signal) => secrets.refresh(signal),
  ConfigMapNotFound: ({ configMaps }, _, signal) => configMaps.refresh(signal),
  RoleNotFound: ({ roles }, _, signal) => roles.refresh(signal),
  VolumeMountNotFound: ({ volumeMounts }, _, signal) => volumeMounts.refresh(signal),
  VolumeMountKeyNotFound: ({ secrets, configMaps }, _, signal) =>
    Promise.all([secrets.refresh(signal), configMaps.refresh(signal)]),
  ConfigMapKeyNotFound: ({ configMaps }, _, signal) => configMaps.refresh(signal),
};

/**
 * Refuses a write with the message that the reconciler would use for it, and what changes the platform of a node. Only entries that the write adds or changes are
 * checked: what was accepted before does not prevent other changes. One that the write only stops is not checked either, since
 * what cannot run as asked can be stopped all the same.
 */
export async function checkEntries(
  requester: Requester,
  after: Application,
  before: Application | undefined,
): Promise<void> {
  const { deps, caller, signal, document, warnings } = requester;
  const spell = document === undefined ? flatName : (path: string) => path;
  const ofPlatform = before && platformRefusal(before, after, spell);
  if (ofPlatform) throw ofPlatform;
  const taken = before ? undefined : applicationVerdict(after, lookupsWith(deps.lookups, after));
  if (taken) throw verdictError(taken);
  const isBusOn = deps.lookups.bus !== undefined;
  if (!isBusOn) warnings?.push(...busOfApplication(after, before));
  const old = new Map(before?.spec.microservices?.map((entry) => [entry.name, entry]));
  const changed = (after.spec.microservices ?? []).filter((entry) => isToCheck(entry, old.get(entry.name)));
  if (changed.length === 0) return;
  for (const { entry, role } of newlyBound(changed, before?.spec.microservices))
    await requireMayBind(caller, role, `microservice ${entry}: serviceAccount.roleRef`);
  const looked = new Set<string>();
  for (;;) {
    const lookups = lookupsWith(await presentLookups(deps, after, changed, signal), after);
    const negative = firstNegative(after, changed, lookups);
    if (!negative) {
      const withoutEffect = changed.flatMap((entry) => busWithoutEffect(after, entry, isBusOn));
      warnings?.push(...changed.flatMap(oddVariables), ...withoutEffect);
      return;
    }
    const { entry, verdict } = negative;
    const look = LATE[verdict.reason];
    const once = `${verdict.reason} ${entry.name}`;
    if (!look || looked.has(once)) throw refusal(negative, spell);
    looked.add(once);
    await look(deps, entry, signal);
  }
}

/** The warning for access to the message bus that a write asks for, for the application, while the bus is off. */
export const busOfApplication = ({ spec: { busConfig } }: Application, before: Application | undefined): string[] =>
  asksForBus(busConfig) && canonicalJson(busConfig) !== canonicalJson(before?.spec.busConfig ?? null)
    ? ['stored, but without effect yet: busConfig']
    : [];

/** Warnings for access to the message bus, which is stored and which nothing gives; a read shows it as it was sent. */
const busWithoutEffect = (application: Application, entry: MicroserviceEntry, isBusOn: boolean) =>
  busNotActing(application, entry, isBusOn).map(
    (field) => `microservice ${entry.name}: stored, but without effect yet: ${field}`,
  );

const IS_VARIABLE = new RegExp(VARIABLE_NAME);

/** Warnings for env variables that most programs cannot read. */
function oddVariables({ name, container }: MicroserviceEntry): string[] {
  const odd = container?.env?.find(({ key }) => !IS_VARIABLE.test(key));
  return odd
    ? [
        `microservice ${name}: the env variable ${quoted(odd.key)} has a name that most programs cannot read; use letters, digits and _`,
      ]
    : [];
}

function isToCheck(entry: MicroserviceEntry, before: MicroserviceEntry | undefined): boolean {
  if (!before) return true;
  const stopped = entry.isActivated === false ? { ...before, isActivated: false } : before;
  return meaningOf(entry) !== meaningOf(stopped);
}

/** The same text for two spellings of one entry. */
const meaningOf = (entry: MicroserviceEntry) => canonicalJson(normalEntry(entry));

interface Negative {
  entry: MicroserviceEntry;
  verdict: Verdict;
}

function firstNegative(
  after: Application,
  entries: readonly MicroserviceEntry[],
  lookups: Lookups,
): Negative | undefined {
  for (const entry of entries) {
    const negative = verdict(after, entry, lookups, { writing: true });
    if (negative) return { entry, verdict: negative };
  }
  return undefined;
}

/** `spell` gives a path of the entry as the request has it. */
function refusal({ entry, verdict: { message, names = [], ...rest } }: Negative, spell: (path: string) => string) {
  const text = names.reduce((said, path) => said.replace(path, spell(path)), message);
  return verdictError({ ...rest, message: `microservice ${entry.name}: ${text}` });
}
