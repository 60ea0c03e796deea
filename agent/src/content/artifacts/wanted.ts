import type { ArtifactView } from '../../../../src/wire/artifacts.ts';
import type { ArtifactKind, DesiredArtifacts, OwnArtifacts } from '../../domain/artifact.ts';
import { isLocalUuid } from '../../domain/local-uuid.ts';
import type { ArtifactRecord } from './record.ts';

/** What the machine is to have, by source. */
export interface WantedArtifacts {
  /** by the controller */
  desired: DesiredArtifacts;
  own: OwnArtifacts;
}

/** The artifacts of the controller; undefined while its list is not known. One with the uuid of an artifact of a machine is none. */
export function managedViews({ desired }: WantedArtifacts, kind: ArtifactKind): readonly ArtifactView[] | undefined {
  return desired[kind]?.filter(({ uuid }) => !isLocalUuid(uuid));
}

/** The artifacts that are pulled. Artifacts of the controller come first, and win under the same name. */
export function wantedViews(wanted: WantedArtifacts, kind: ArtifactKind): readonly ArtifactView[] {
  const own = wanted.own.views[kind];
  const managed = managedViews(wanted, kind) ?? [];
  return own.length === 0 ? managed : [...managed, ...own.filter((view) => !isShadowed(wanted, kind, view))];
}

/** Whether an artifact of the machine itself does not count, since the controller has linked another one of its name. */
export function isShadowed(wanted: WantedArtifacts, kind: ArtifactKind, { name }: Pick<ArtifactView, 'name'>): boolean {
  return managedViews(wanted, kind)?.some((view) => view.name === name) === true;
}

/** The artifact that a microservice means by a name: a microservice of a controller means artifacts of that controller alone. */
export function viewNamed(
  wanted: WantedArtifacts,
  kind: ArtifactKind,
  { name, microservice }: { name: string; microservice: string },
): ArtifactView | undefined {
  const views = isLocalUuid(microservice) ? wantedViews(wanted, kind) : managedViews(wanted, kind);
  return views?.find((view) => view.name === name);
}

/** Whether it is known that nobody wants a content: by the list of the source that it is of. */
export function isUnwantedContent(
  wanted: WantedArtifacts,
  { kind, uuid }: Pick<ArtifactRecord, 'kind' | 'uuid'>,
): boolean {
  const { own } = wanted;
  const list = isLocalUuid(uuid) ? own.views[kind] : managedViews(wanted, kind);
  return list !== undefined && !list.some((view) => view.uuid === uuid) && !own.unreadable.has(uuid);
}
