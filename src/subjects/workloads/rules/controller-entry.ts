import { API_VERSION } from '../../../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import { fieldsOf, isEmpty } from '../../../rules/body-values.ts';
import { isObject, quoted } from '../../../rules/document.ts';
import { conflict, DomainError, invalid, verdictError } from '../../../rules/errors.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Lookups } from '../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { normalEntry } from '../../../rules/normal-entry.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { imageSourceOf } from '../../catalog/rules/catalog-images.ts';
import { resolveRegistry } from '../../catalog/rules/registry.ts';
import { placedOn } from '../../nodes/rules/placement/entries.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { agentInHost } from './application/extra-hosts.ts';
import { lookupsWith } from './application/lookups.ts';
import { requireOfSystem } from './debug-shell.ts';
import { entryFromFlat, flatName } from './entry/flat.ts';
import { applicationVerdict, verdict } from './verdicts/verdict.ts';

/**
 * The controller that runs on a node of the system: the entry `controller` of the application of the system on the node. The
 * agent registers it (docs/spec/agent-channel.md#registration-of-a-controller), and nobody else changes it.
 */

/** Name of the entry. */
export const CONTROLLER_ENTRY = 'controller';

const entryIn = ({ spec }: Application) => spec.microservices?.find(({ name }) => name === CONTROLLER_ENTRY);

/** The controller in an application of the system, and the uuid of its node. */
export function controllerIn(
  application: Application,
): { entry: MicroserviceEntry; node: string | undefined } | undefined {
  const entry = application.spec.isSystem === true ? entryIn(application) : undefined;
  return entry && { entry, node: entry.agent?.uuid };
}

/** The refusal of a change by users. Another rebuild is no change. */
export const controllerUpdate = () =>
  new DomainError(
    400,
    'SYSTEM_MICROSERVICE_UPDATE',
    `${CONTROLLER_ENTRY} is the controller of a node of the system: its agent alone changes it, by registering it again`,
  );

/** The refusal to delete it, or the application that has it. */
export const controllerDelete = () =>
  new DomainError(
    403,
    'SYSTEM_MICROSERVICE_DELETE',
    `${CONTROLLER_ENTRY} is the controller of a node of the system: it ends when the node is deleted`,
  );

/** Members of a registration, with the names that a microservice has over REST. */
const MEMBERS: ReadonlySet<string> = new Set([
  ...['uuid', 'name', 'images', 'registryId', 'config', 'annotations', 'schedule', 'healthCheck'],
  ...['hostNetworkMode', 'isPrivileged', 'logSize', 'runtime', 'pidMode', 'ipcMode', 'runAsUser', 'platform'],
  ...['cpuSetCpus', 'memoryLimit', 'ports', 'volumeMappings', 'extraHosts', 'env', 'cmd', 'cdiDevices'],
  ...['capAdd', 'capDrop'],
]);

/**
 * The entry of a registration by the agent of this node. Throws DomainError for a body that is invalid without regard to other
 * objects, with the member, its value, and what would be right.
 */
export function controllerFromBody(body: unknown, node: EdgeNode): MicroserviceEntry & { uuid: string } {
  const given = Object.fromEntries(Object.entries(fieldsOf(body)).filter(([, value]) => value !== null));
  const unknown = Object.keys(given).find((member) => !MEMBERS.has(member));
  if (unknown !== undefined) throw invalid(`${quoted(unknown)} is no member of a registration: leave it out`, unknown);
  const { schedule, ...members } = given;
  for (const member of ['uuid', 'images', 'registryId'])
    if (isEmpty(members[member])) throw invalid(`${member}: is required`, member);
  const { name, registryId } = members;
  if (!isEmpty(name) && name !== CONTROLLER_ENTRY)
    throw invalid(`name: ${quoted(name)}; must be "${CONTROLLER_ENTRY}", or left out`, 'name');
  if (!isInteger(registryId, 1))
    throw invalid(`registryId: ${quoted(registryId)}; must be an integer from 1`, 'registryId');
  // Whatever it says, the controller starts with the first.
  if (!isEmpty(schedule) && !isInteger(schedule, 0, 100))
    throw invalid(`schedule: ${quoted(schedule)}; must be an integer from 0 to 100`, 'schedule');
  requireImages(members.images);
  requireNoAccountMapping(members.volumeMappings);
  const { entry } = bySpelling(() => entryFromFlat({ ...members, name: CONTROLLER_ENTRY }));
  requireOwn(entry);
  return { ...entry, uuid: entry.uuid as string, agent: { uuid: nodeUuid(node) }, schedule: 0 };
}

const isInteger = (value: unknown, least: number, most: number = Number.MAX_SAFE_INTEGER) =>
  Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most;

/** The list of commands is `cmd` in a registration. */
function bySpelling<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DomainError) || !error.field?.startsWith('commands')) throw error;
    throw invalid(error.message.replace(/^commands/, 'cmd'), error.field.replace('commands', 'cmd'));
  }
}

function requireImages(images: unknown): void {
  if (!Array.isArray(images) || images.length < 1 || images.length > 4)
    throw invalid(`images: ${quoted(images)}; must be a list of 1 to 4 {containerImage, archId}`, 'images');
}

/** A read of a body leaves them out. */
function requireNoAccountMapping(volumes: unknown): void {
  const index = Array.isArray(volumes)
    ? volumes.findIndex((one) => isObject(one) && one.type === 'serviceAccount')
    : -1;
  if (index >= 0)
    throw invalid(
      `volumeMappings[${index}].type: "serviceAccount"; must be bind or volume: the agent mounts the token itself`,
      `volumeMappings[${index}].type`,
    );
}

/**
 * Whoever has the key of a node may register, so a registration names nothing that other users, nodes or applications have:
 * no Secret, no ConfigMap, no address of another node.
 */
function requireOwn({ container: { env = [], volumes = [], extraHosts = [] } = {} }: MicroserviceEntry): void {
  env.forEach((variable, index) => {
    for (const member of ['valueFromSecret', 'valueFromConfigMap'] as const)
      if (variable[member] !== undefined)
        throw foreign(`env[${index}].${member}`, variable[member], 'give the value itself');
  });
  volumes.forEach(({ type }, index) => {
    if (type === 'volumeMount') throw foreign(`volumeMappings[${index}].type`, type, 'use bind or volume');
  });
  extraHosts.forEach(({ address }, index) => {
    if (agentInHost(address) !== undefined)
      throw foreign(`extraHosts[${index}].address`, address, 'give an IP address, or host-gateway');
  });
}

const foreign = (field: string, value: string, instead: string) =>
  invalid(`${field}: ${quoted(value)}; a registration names nothing that others have: ${instead}`, field);

/**
 * The application of the system on a node with this controller; the same one when it has it already. The entries of other
 * writers stay. Throws DomainError when the name belongs to another microservice or to an application of users.
 */
export function withController(
  application: Application | undefined,
  node: EdgeNode,
  entry: MicroserviceEntry & { uuid: string },
): Application {
  if (!application)
    return {
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name: systemApplicationName(node), namespace: node.metadata.namespace },
      spec: { isActivated: true, isSystem: true, microservices: [entry] },
    } as Application;
  requireOfSystem(application);
  const { microservices = [] } = application.spec;
  const known = entryIn(application);
  // The controller of a node that had this name before, and was deleted, is nobody's.
  if (known?.agent?.uuid === nodeUuid(node)) {
    const uuid = entryUuid(application, known);
    if (uuid !== entry.uuid)
      throw conflict(
        'DUPLICATE_NAME',
        `name: this node has a microservice "${CONTROLLER_ENTRY}" with the uuid ${uuid}: register that uuid`,
        'name',
      );
    if (application.spec.isActivated !== false && meaningOf(known) === meaningOf(entry)) return application;
  }
  return {
    ...application,
    spec: {
      ...application.spec,
      isActivated: true,
      microservices: known ? microservices.map((one) => (one === known ? entry : one)) : [...microservices, entry],
    },
  };
}

const meaningOf = (entry: MicroserviceEntry) => canonicalJson(normalEntry(entry));

/** Refuses a controller that could not run as asked. Throws DomainError; fields are spelled as in the registration. */
export function requireRunnable(
  after: Application,
  entry: MicroserviceEntry & { uuid: string },
  node: EdgeNode,
  lookups: Lookups,
): void {
  const own = lookupsWith(lookups, after);
  const taken = applicationVerdict(after, own);
  if (taken) throw verdictError(taken);
  const negative = verdict(after, entry, own, { writing: true });
  if (negative?.code === 'DUPLICATE_UUID')
    throw invalid(`uuid: "${entry.uuid}" belongs to another microservice: make another one`, 'uuid');
  if (negative) {
    const field = negative.field === undefined ? 'body' : flatName(negative.field);
    throw new DomainError(negative.status, negative.code, `${field}: ${negative.message}`, { field });
  }
  requireNoNewCredentials(entry, node, lookups);
}

/** A node is sent the credentials of the registries that its entries use: a registration must not choose which. */
function requireNoNewCredentials(entry: MicroserviceEntry, node: EdgeNode, lookups: Lookups): void {
  const registryOf = (one: MicroserviceEntry) =>
    resolveRegistry(lookups.find, imageSourceOf(normalEntry(one), lookups.find).registry);
  const registry = registryOf(entry);
  if (!registry?.spec.passwordSecretRef) return;
  const placed = placedOn(node, lookups);
  const isUsed = lookups
    .applicationsOn(node)
    .some((application) =>
      placed(application).some((one) => registryOf(one)?.metadata.name === registry.metadata.name),
    );
  if (!isUsed)
    throw invalid(
      `registryId: ${quoted(entry.images?.registry)}; the registry "${v3Name(registry)}" has a password, which a registration does not give to a node: name one without, or let an application of the node use it first`,
      'registryId',
    );
}
