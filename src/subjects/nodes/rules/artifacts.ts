import { BOUNDS } from '../../../api/bounds.ts';
import { ARTIFACT_KINDS, type ArtifactKind, type EdgeNode, type ObservedArtifact } from '../../../api/v3/index.ts';
import { cut } from '../../../rules/conditions.ts';
import type { DesiredState, Observation } from '../../../rules/inputs.ts';
import { type ArtifactStatus, artifactFingerprint } from '../../../wire/artifacts.ts';

/** The members of a report about each kind of artifacts. */
const REPORTED = {
  models: { status: 'modelStatus', active: 'activeModels', updated: 'modelLastUpdate' },
  knowledge: { status: 'knowledgeStatus', active: 'activeKnowledge', updated: 'knowledgeLastUpdate' },
} as const satisfies Record<ArtifactKind, object>;

/** Greatest length of an error in a status: a node may have hundreds of artifacts. */
const ERROR = 256;

interface ObserveInputs {
  node: EdgeNode;
  observation?: Observation | undefined;
  desired?: Partial<Pick<DesiredState, ArtifactKind>> | undefined;
}

/**
 * The artifacts in the status of a node, sorted by uuid: those that it is to have, as it last reported them, without
 * measurements. Until the first report to a new leader they stay as they were.
 */
export function observedArtifacts({ node, observation, desired }: ObserveInputs): {
  [K in ArtifactKind]?: ObservedArtifact[];
} {
  const observed: { [K in ArtifactKind]?: ObservedArtifact[] } = {};
  for (const kind of ARTIFACT_KINDS) {
    const reported = observation?.report[REPORTED[kind].status];
    const known = reported?.flatMap(observedArtifact) ?? node.status?.[kind];
    if (!known) continue;
    const wanted = desired?.[kind];
    const uuids = wanted && new Set(wanted.map(({ uuid }) => uuid));
    const items = new Map(known.filter(({ uuid }) => uuids?.has(uuid) ?? true).map((item) => [item.uuid, item]));
    if (items.size === 0 && !node.status?.[kind]?.length) continue;
    observed[kind] = [...items.values()].sort((a, b) => (a.uuid < b.uuid ? -1 : 1)).slice(0, BOUNDS.artifacts);
  }
  return observed;
}

function observedArtifact(item: ArtifactStatus): ObservedArtifact[] {
  const { uuid, name, state, digest, resolvedRevision, pulledFor, lastError } = item;
  // Halves of surrogate pairs are all stored as one character, and with two equal uuids the status could not be written.
  if (!uuid?.isWellFormed() || item.source === 'local') return [];
  return [
    {
      uuid,
      name,
      state,
      ...(digest && { digest }),
      ...(resolvedRevision && { resolvedRevision }),
      ...(pulledFor && { pulledFor }),
      ...(lastError && { lastError: cut(lastError, ERROR) }),
    },
  ];
}

/** Whether the content of an artifact that a node reports is that of its present view. Third-party agents do not say. */
export const isReady = ({ state, pulledFor }: ObservedArtifact, view: Parameters<typeof artifactFingerprint>[0]) =>
  state === 'Ready' && (pulledFor === undefined || pulledFor === artifactFingerprint(view));

/** The members of a node read about artifacts; lists are JSON text. */
export function artifactsShown({ status }: EdgeNode, report: Observation['report']): Record<string, unknown> {
  return Object.fromEntries(
    ARTIFACT_KINDS.flatMap((kind) => {
      const members = REPORTED[kind];
      const stored = status?.[kind] ?? [];
      const items = report[members.status] ?? stored.map((item) => ({ ...item, source: 'managed' }));
      return [
        [members.status, JSON.stringify(items)],
        [members.active, report[members.active] ?? stored.length],
        [members.updated, milliseconds(report[members.updated] ?? 0)],
      ];
    }),
  );
}

/** Older agents send seconds. */
const milliseconds = (time: number) => (time < 1e11 ? time * 1000 : time);
