import { BOUNDS } from '../../../../src/api/bounds.ts';
import { type ArtifactStatus, type ArtifactView, artifactFingerprint } from '../../../../src/wire/artifacts.ts';
import {
  ARTIFACT_NOUNS,
  type ArtifactCatalog,
  type ArtifactItem,
  type ArtifactKind,
  type ArtifactWait,
  isArtifactName,
} from '../../domain/artifact.ts';
import { isLocalUuid } from '../../domain/local-uuid.ts';
import { registryIdOf } from '../../domain/registry-number.ts';
import { type ArtifactFailure, currentRecord, itemKey, lookUpKey, samePlace } from './plan.ts';
import type { ProjectionState } from './projection.ts';
import { type ArtifactKey, type ArtifactRecord, artifactKey } from './record.ts';
import { isShadowed, managedViews, viewNamed, type WantedArtifacts } from './wanted.ts';

/** What is known of the artifacts of this machine. */
export interface ArtifactFacts extends WantedArtifacts {
  records: ReadonlyMap<ArtifactKey, ArtifactRecord>;
  projections: readonly ProjectionState[];
  failures: ReadonlyMap<string, ArtifactFailure>;
  /** pulls that are under way, in bytes; nothing has arrived while `received` is 0 */
  progress: ReadonlyMap<ArtifactKey, { received: number; total: number }>;
}

/** What the node reports of the artifacts of one kind that its controller sent. Pure. */
export function artifactStatuses(kind: ArtifactKind, facts: ArtifactFacts): ArtifactStatus[] {
  return (managedViews(facts, kind) ?? []).slice(0, BOUNDS.artifacts).map((view) => statusOf(kind, view, facts));
}

/** The artifacts of one kind of all sources, for people. Of one name, the artifact that counts comes first. Pure. */
export function artifactItems(
  kind: ArtifactKind,
  facts: ArtifactFacts,
  catalogs: readonly ArtifactCatalog[],
): ArtifactItem[] {
  return [...(managedViews(facts, kind) ?? []), ...facts.own.views[kind]].map((view) => {
    const { uuid, name, repo, revision, registryId, files, format } = view;
    const binding = catalogs.filter((each) => {
      const meant = each.kind === kind && each.items.includes(name);
      return meant && viewNamed(facts, kind, { name, microservice: each.uuid })?.uuid === uuid;
    });
    const pulledAt = facts.records.get(artifactKey({ kind, uuid }))?.pulledAt;
    return {
      ...statusOf(kind, view, facts),
      ...{ repo, revision, registryId: registryIdOf(registryId), files, format },
      ...{ bindRefCount: binding.length, pulledAt },
      ...(isLocalUuid(uuid) && isShadowed(facts, kind, view) && { shadowed: true as const }),
    };
  });
}

function statusOf(kind: ArtifactKind, view: ArtifactView, facts: ArtifactFacts): ArtifactStatus {
  const { uuid, name } = view;
  const record = facts.records.get(artifactKey({ kind, uuid }));
  const { state, message, percentage } = stateOf(kind, view, facts);
  return {
    ...{ uuid, name, source: isLocalUuid(uuid) ? 'local' : 'managed', state },
    // Of the content that is here, which may be that of the former revision.
    ...(record && {
      digest: record.digest,
      resolvedRevision: record.resolvedRevision,
      revisionFloating: record.floating,
      totalBytes: record.totalBytes,
      pulledFor: record.asked,
    }),
    lastError: (message ?? '').slice(0, BOUNDS.message),
    percentage,
  };
}

interface StateAndMessage {
  state: ArtifactStatus['state'];
  message?: string;
  /** 0..100 */
  percentage?: number;
}

function stateOf(kind: ArtifactKind, view: ArtifactView, facts: ArtifactFacts): StateAndMessage {
  if (currentRecord(facts, kind, view))
    return { state: 'Ready', percentage: 100, message: newerFailure(kind, view, facts) };
  if (!isArtifactName(view.name))
    return { state: 'Failed', message: `the name ${JSON.stringify(view.name)} is no name of a directory` };
  const key = artifactKey({ kind, uuid: view.uuid });
  const progress = facts.progress.get(key);
  const failure = facts.failures.get(key);
  const failed = failure?.asked === artifactFingerprint(view) ? failure : undefined;
  if (failed && !progress?.received) return { state: 'Failed', message: failed.message };
  return progress ? { state: 'Pulling', percentage: percentageOf(progress) } : { state: 'Pending' };
}

/** Why it is not known what a branch or a tag means now, or why that cannot be had; what is here stays. */
function newerFailure(kind: ArtifactKind, view: ArtifactView, { failures }: ArtifactFacts): string | undefined {
  const asked = artifactFingerprint(view);
  const keys = [artifactKey({ kind, uuid: view.uuid }), lookUpKey(kind, view)];
  return keys.map((key) => failures.get(key)).find((failure) => failure?.asked === asked)?.message;
}

/** 100 is shown only for what is complete. */
function percentageOf({ received, total }: { received: number; total: number }): number {
  return total > 0 ? Math.min(99, Math.floor((received / total) * 100)) : 0;
}

/** Why a microservice cannot be started yet: the first artifact of its catalogs that is not projected. Pure. */
export function artifactWait(
  uuid: string,
  catalogs: readonly ArtifactCatalog[],
  facts: ArtifactFacts,
): ArtifactWait | undefined {
  const waits = catalogs
    .filter((catalog) => catalog.uuid === uuid)
    .flatMap((catalog) => catalog.items.flatMap((name) => waitForItem(catalog, name, facts) ?? []));
  return waits.find(({ failed }) => failed) ?? waits[0];
}

function waitForItem(catalog: ArtifactCatalog, name: string, facts: ArtifactFacts): ArtifactWait | undefined {
  const { kind } = catalog;
  const present = facts.projections.find((each) => samePlace(each, catalog));
  if (present?.links.has(name)) return undefined;
  const what = `${ARTIFACT_NOUNS[kind]} ${name}`;
  const view = viewNamed(facts, kind, { name, microservice: catalog.uuid });
  if (!view && isLocalUuid(catalog.uuid))
    return { failed: true, message: `this machine has no ${what}: deploy it, or pull it` };
  if (!view)
    return facts.desired[kind]
      ? { failed: true, message: `${what} is not linked to this node` }
      : { failed: false, message: `${what} is not known yet: its list has not arrived` };
  const linking = facts.failures.get(itemKey(catalog, name));
  const { state, message, percentage = 0 } = stateOf(kind, view, facts);
  if (state === 'Failed') return { failed: true, message: `${what}: ${message}` };
  if (state === 'Ready' && linking) return { failed: true, message: `${what}: ${linking.message}` };
  // In tenths: each other text is another report.
  const tenths = Math.floor(percentage / 10) * 10;
  const how = {
    Pending: 'waits for its turn to be pulled',
    Pulling: `is being pulled (${tenths} %)`,
    Ready: 'is being linked',
  };
  return { failed: false, message: `${what} ${how[state]}` };
}
