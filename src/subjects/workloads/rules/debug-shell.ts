import { ANNOTATIONS, API_VERSION, ARCHITECTURES, BUILT_IN_CATALOG_ITEMS } from '../../../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import { conflict } from '../../../rules/errors.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Find } from '../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { normalEntry } from '../../../rules/normal-entry.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { imageSourceOf } from '../../catalog/rules/catalog-images.ts';
import { archOf } from '../../nodes/rules/settings.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';

/**
 * The debug shell of a node: a microservice of the system that waits for exec sessions and sees the processes, the network and
 * the devices of the machine (docs/spec/sessions.md#debug-shell). What keeps it is an annotation with a time, so that whoever
 * leads removes it, whatever has crashed.
 */

/** Without a session, it goes this time after it was last asked for. */
const DEBUG_SHELL_MS = 60 * 60_000;
/** It goes this time after its last session ended: a user whose replica shut down comes again. */
const AFTER_SESSION_MS = 60_000;
/** Another request within this time writes nothing; short, since a session that ends meanwhile counts as the last one. */
const REPEATED_MS = 2_000;

const { id: CATALOG_ID, name: NAME } = BUILT_IN_CATALOG_ITEMS.debug;

/** An application of users may have its name from a version before such names were refused. */
export function requireOfSystem(application: Application): void {
  if (application.spec.isSystem !== true)
    throw conflict(
      'DUPLICATE_NAME',
      `the application "${v3Name(application)}" has the name of the system's on this node: it must be deleted or renamed first`,
    );
}

const entryOf = (application: Application) => application.spec.microservices?.find(({ name }) => name === NAME);

/** The debug shell in an application, and its node; undefined when it has none. */
export function debugShellOf(application: Application): { uuid: string; node: string | undefined } | undefined {
  const entry = entryOf(application);
  return entry && { uuid: entryUuid(application, entry), node: entry.agent?.uuid };
}

interface Asked {
  node: EdgeNode;
  /** instead of the image of the catalog item */
  image?: string | undefined;
  now: number;
}

/** The application of the system on a node that has none yet. */
export function newDebugShell(asked: Asked): Application {
  return {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: {
      name: systemApplicationName(asked.node),
      annotations: { [ANNOTATIONS.madeFor]: NAME, [ANNOTATIONS.debugUntil]: until(asked.now) },
    },
    spec: { isActivated: true, isSystem: true, microservices: [newEntry(asked)] },
  } as Application;
}

/**
 * The application with a debug shell that runs on the node; the same one when that changes nothing. A shell without a time
 * stays without one.
 */
export function withDebugShell(application: Application, asked: Asked): Application {
  requireOfSystem(application);
  const { microservices = [] } = application.spec;
  const known = entryOf(application);
  const entry = known ? asAsked(known, asked) : newEntry(asked);
  const isStopped = application.spec.isActivated === false;
  const kept = application.metadata.annotations?.[ANNOTATIONS.debugUntil];
  const isKept = known !== undefined && kept === undefined;
  const isRecent = kept !== undefined && asked.now + DEBUG_SHELL_MS - Date.parse(kept) < REPEATED_MS;
  if (entry === known && !isStopped && (isKept || isRecent)) return application;
  const annotations: Record<string, string> = isKept ? {} : { [ANNOTATIONS.debugUntil]: until(asked.now) };
  return {
    ...application,
    metadata: { ...application.metadata, annotations: { ...application.metadata.annotations, ...annotations } },
    spec: {
      ...application.spec,
      isActivated: true,
      microservices: [...microservices.filter((one) => one !== known), entry],
    },
  };
}

/**
 * The application whose debug shell has ended; the same one when it has none. Its annotations let the leader do the rest, which
 * deletes the application only as it then is.
 */
export function withEndedDebugShell(application: Application, now: number): Application {
  const { annotations = {} } = application.metadata;
  const { microservices = [] } = application.spec;
  const others = microservices.filter(({ name }) => name !== NAME);
  const isTimed = annotations[ANNOTATIONS.debugUntil] !== undefined;
  const isEnded = others.length === microservices.length;
  if (isEnded && (isTimed || annotations[ANNOTATIONS.madeFor] === undefined)) return application;
  const time: Record<string, string> = isTimed ? {} : { [ANNOTATIONS.debugUntil]: new Date(now).toISOString() };
  return {
    ...application,
    metadata: { ...application.metadata, annotations: { ...annotations, ...time } },
    spec: { ...application.spec, microservices: others },
  };
}

/** Whether the debug shell of an application has a time; users' applications have none, whatever annotations they copied. */
export const isTimedDebugShell = ({ metadata, spec }: Application): boolean =>
  spec.isSystem === true && metadata.annotations?.[ANNOTATIONS.debugUntil] !== undefined;

/** The application without its debug shell; undefined when it is to go with it. */
export function withoutDebugShell(application: Application): Application | undefined {
  const {
    [ANNOTATIONS.debugUntil]: time,
    [ANNOTATIONS.madeFor]: madeFor,
    ...rest
  } = application.metadata.annotations ?? {};
  const { microservices = [] } = application.spec;
  const others = microservices.filter(({ name }) => name !== NAME);
  const isProtected = (rest[ANNOTATIONS.protected] ?? 'false') !== 'false';
  if (madeFor === NAME && others.length === 0 && !isProtected) return undefined;
  if (others.length === microservices.length && time === undefined && madeFor === undefined) return application;
  return {
    ...application,
    metadata: { ...application.metadata, annotations: rest },
    spec: { ...application.spec, microservices: others },
  };
}

/**
 * When a debug shell that is not in use goes (Unix ms); undefined when nothing of it is to go. A leader does not know what
 * ended before it began to lead at `since`.
 */
export function debugShellGoesAt(
  application: Application,
  { sessionEndedAt, since = 0 }: { sessionEndedAt?: number | undefined; since?: number },
): number | undefined {
  const text = application.metadata.annotations?.[ANNOTATIONS.debugUntil];
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  // A time that cannot be read has passed, and so has that of a shell that is not there.
  if (Number.isNaN(time) || !entryOf(application)) return 0;
  // Asked for after its last session, it has its whole time again.
  const isAskedAgain = sessionEndedAt !== undefined && time - DEBUG_SHELL_MS > sessionEndedAt;
  if (sessionEndedAt === undefined) return Math.max(time, since + AFTER_SESSION_MS);
  return isAskedAgain ? time : sessionEndedAt + AFTER_SESSION_MS;
}

const until = (now: number) => new Date(now + DEBUG_SHELL_MS).toISOString();

/**
 * The entry, if it is a debug shell that runs on this node as asked; else another one, with its uuid. Nothing of its image
 * stays: whoever asks for a privileged shell gets the image of their request, or that of the catalog item.
 */
function asAsked(known: MicroserviceEntry, asked: Asked): MicroserviceEntry {
  const wanted = newEntry(asked);
  const runs =
    known.agent?.uuid === wanted.agent?.uuid && known.isActivated !== false && meaningOf(known) === meaningOf(wanted);
  return runs ? known : { ...wanted, ...(known.uuid !== undefined && { uuid: known.uuid }) };
}

/** The same text for two spellings of one container with one image. */
function meaningOf(entry: MicroserviceEntry): string {
  const { container, images, catalogId, registry } = normalEntry(entry);
  return canonicalJson({ container, images, catalogId, registry });
}

/** The image that a debug shell runs on its node; those of all architectures while that of the node is not known. */
export function debugShellImage(application: Application, node: EdgeNode, find: Find): string {
  const entry = entryOf(application);
  const { images } = entry ? imageSourceOf(normalEntry(entry), find) : { images: {} };
  const architecture = ARCHITECTURES[archOf(node)] as keyof typeof images | undefined;
  const own = architecture && images[architecture];
  return own ?? [...new Set(Object.values(images))].join(', ');
}

/** It ends at SIGTERM, since with the processes of the machine it is not the first process of its namespace. */
function newEntry({ node, image }: Asked): MicroserviceEntry {
  return {
    name: NAME,
    agent: { uuid: nodeUuid(node) },
    images:
      image === undefined ? { catalogId: CATALOG_ID } : { amd64: image, arm64: image, riscv64: image, arm: image },
    container: { commands: ['sleep', 'infinity'], isPrivileged: true, hostNetworkMode: true, pidMode: 'host' },
  };
}
