import { ANNOTATIONS } from '../../../api/names.ts';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import { type Finding, joined } from '../../../rules/conditions.ts';
import { conflict } from '../../../rules/errors.ts';
import { ignoredTunnelAction } from './tunnel.ts';

/** Greatest count of an annotation that is read; the range above it is for further requests. */
const MAX_COUNT = 2 ** 52;
/** Greatest count that a machine may report as carried out: counts, and Unix times in ms. */
const MAX_REPORTED = 10 ** 13;

/** Whether a machine may report a count as carried out; a greater one would leave none for further requests. */
export const isReportedCount = (count: number): boolean =>
  Number.isInteger(count) && count >= 0 && count <= MAX_REPORTED;

/** Actions of a node, which annotations with a count request. */
const NODE_ACTIONS = ['reconcile', 'reboot', 'prune', 'version'] as const;
export type NodeAction = (typeof NODE_ACTIONS)[number];

/** What the annotation of an action requests. */
export interface RequestedAction {
  /** number of requests so far */
  count: number;
  /** of the action `version` */
  command?: 'upgrade' | 'rollback';
  semver?: string;
}

/**
 * The latest request of an action; count 0 when there was none. The annotation is a JSON number, or
 * `{"count": 2, "command": "upgrade", "semver": "1.2.3"}` for `version`. What was carried out stays recorded when the
 * annotation was removed, as `kubectl replace` does, or cannot be read.
 */
export function requestedAction(node: EdgeNode, action: NodeAction): RequestedAction {
  const { count = 0, ...details } = annotated(node, action) ?? {};
  const carriedOut = node.status?.actions?.[action] ?? 0;
  return count >= carriedOut ? { count, ...details } : { count: carriedOut };
}

function annotated(node: EdgeNode, action: NodeAction): RequestedAction | undefined {
  const value = json(node.metadata.annotations?.[ANNOTATIONS[action]]);
  if (isCount(value)) return { count: value };
  if (typeof value !== 'object' || value === null) return undefined;
  const { count, command, semver } = value as Record<string, unknown>;
  if (!isCount(count)) return undefined;
  return {
    count,
    ...((command === 'upgrade' || command === 'rollback') && { command }),
    ...(typeof semver === 'string' && semver !== '' && { semver }),
  };
}

/** True until the node (or, for reconcile, the controller) has carried out the latest request. */
export function isDue(node: EdgeNode, action: NodeAction): boolean {
  return requestedAction(node, action).count > (node.status?.actions?.[action] ?? 0);
}

/**
 * A change of the version that failed and that nobody requests any more. The agent learns it once, so that its warning ends with
 * the request.
 */
export function isWithdrawn(node: EdgeNode): boolean {
  const { count, command } = requestedAction(node, 'version');
  return node.status?.update?.state === 'Failed' && command === undefined && count > 0;
}

/** The generation that a platform reconcile is about: edits of the spec and requests each raise it. */
export const platformGeneration = (node: EdgeNode): number =>
  (node.metadata.generation ?? 0) + requestedAction(node, 'reconcile').count;

/** Annotations to write for one more request. */
export function requestAction(
  node: EdgeNode,
  action: NodeAction,
  details?: { command: 'upgrade' | 'rollback'; semver?: string },
): Record<string, string> {
  const count = next(requestedAction(node, action).count, ANNOTATIONS[action]);
  return { [ANNOTATIONS[action]]: details ? JSON.stringify({ count, ...details }) : String(count) };
}

/** Rebuild counts of the annotation, by entry name. */
export function annotatedRebuilds(application: Application): Readonly<Record<string, number>> {
  const value = json(application.metadata.annotations?.[ANNOTATIONS.rebuild]);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter((pair): pair is [string, number] => isCount(pair[1])));
}

/**
 * Annotations to write for one more rebuild of the named entries. Counts of removed entries stay: a name can return.
 * `carriedOut` has the counts that machines report, by entry name.
 */
export function requestRebuild(
  application: Application,
  entries: readonly string[],
  carriedOut: ReadonlyMap<string, number> = new Map(),
): Record<string, string> {
  const raised = entries.map(
    (name) => [name, next(rebuildCountOf(application, name, carriedOut.get(name)), ANNOTATIONS.rebuild)] as const,
  );
  return {
    [ANNOTATIONS.rebuild]: JSON.stringify({ ...annotatedRebuilds(application), ...Object.fromEntries(raised) }),
  };
}

/**
 * Number of rebuilds requested so far for one entry. The status has the highest count, and the machine reports what it
 * carried out, so that a request outlives its annotation and a later request always has a higher count.
 */
export function rebuildCountOf(application: Application, entry: string, carriedOut = 0): number {
  const known = application.status?.microservices?.find(({ name }) => name === entry)?.rebuildCount ?? 0;
  const reported = isReportedCount(carriedOut) ? carriedOut : 0;
  return Math.max(countOf(annotatedRebuilds(application), entry), known, reported);
}

/** The condition for annotations that request nothing, with the reason. */
export function actionIgnored(object: Application | EdgeNode): Finding | undefined {
  const ignored = ignoredActions(object);
  if (ignored.length === 0) return undefined;
  const isTunnelAlone = ignored.length === 1 && object.kind === 'EdgeNode' && ignoredTunnelAction(object as EdgeNode);
  return { status: 'True', reason: isTunnelAlone ? 'NotOpenOrClose' : 'NoSuchCount', message: joined(ignored) };
}

/** Messages about annotations that request nothing: unreadable ones, and counts below what was requested before. */
export function ignoredActions(object: EdgeNode | Application): string[] {
  return object.kind === 'Application'
    ? ignoredRebuilds(object as Application)
    : ignoredNodeActions(object as EdgeNode);
}

function ignoredRebuilds(application: Application): string[] {
  const text = application.metadata.annotations?.[ANNOTATIONS.rebuild];
  if (text === undefined) return [];
  const value = json(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [`${ANNOTATIONS.rebuild}: ${shown(text)}; must be a JSON object of whole numbers, such as {"web": 1}`];
  const counts = annotatedRebuilds(application);
  return Object.entries(value).flatMap(([name, given]) => {
    const before = `${ANNOTATIONS.rebuild}: ${shown(name)}: ${shown(JSON.stringify(given))}`;
    if (!Object.hasOwn(counts, name)) return [`${before}; ${MUST_BE_COUNT}`];
    const requested = rebuildCountOf(application, name);
    return (given as number) < requested ? [`${before}; ${notAbove(requested)}`] : [];
  });
}

function ignoredNodeActions(node: EdgeNode): string[] {
  return [...ignoredCounts(node), ...[ignoredTunnelAction(node) ?? []].flat()];
}

function ignoredCounts(node: EdgeNode): string[] {
  return NODE_ACTIONS.flatMap((action) => {
    const text = node.metadata.annotations?.[ANNOTATIONS[action]];
    if (text === undefined) return [];
    const before = `${ANNOTATIONS[action]}: ${shown(text)}`;
    const given = annotated(node, action);
    const example = action === 'version' ? ', as in {"count": 1, "command": "upgrade"}' : '';
    if (!given) return [`${before}; ${MUST_BE_COUNT}${example}`];
    if (action === 'version' && !given.command) return [`${before}; names no command, upgrade or rollback${example}`];
    const { count } = requestedAction(node, action);
    return given.count < count ? [`${before}; ${notAbove(count)}`] : [];
  });
}

const MUST_BE_COUNT = `must be a whole number from 0 to ${MAX_COUNT}`;
const notAbove = (count: number) => `is below ${count}, which was requested before; ${count + 1} requests it again`;
const shown = (text: string) => JSON.stringify(text.slice(0, 64));

function next(count: number, annotation: string): number {
  if (count < MAX_COUNT) return count + 1;
  throw conflict('ACTION_LIMIT', `${annotation}: its counter is at its end, ${MAX_COUNT}; no request can follow`);
}

const countOf = (counts: Readonly<Record<string, number>>, name: string) =>
  Object.hasOwn(counts, name) ? (counts[name] ?? 0) : 0;

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_COUNT;

function json(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
